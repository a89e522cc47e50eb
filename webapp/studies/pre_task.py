"""Steps before a task: questions, the quiz, and practice.

Functions return the attempt that is due, and store its answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from webapp.studies.attention_checks import MOST_QUIZ_ATTEMPTS, QuizQuestion, quiz_digest, quiz_rows
from webapp.studies.models import Outcome, Participant, QuestionAnswers, QuizAttempt, StudyVersion, Task, TrainingAnswer
from webapp.studies.protocol_settings import MOST_PRACTICE_ATTEMPTS, TrainingPair
from webapp.studies.questions import answers_read
from webapp.studies.refusals import ANSWERS_MISSING, OTHER_STEP, TASK_FINISHED
from webapp.studies.services import task_end


def _lock_participant(task: Task) -> Participant:
    """Return the participant of an open task, locked.

    A concurrent withdrawal or erasure waits, and then includes the answers. Like them, this locks no task.

    Raises:
        Refused: `closed` if the task is over or its participant erased.
    """
    people = Participant.objects.select_for_update(of=("self",), no_key=True)
    participant = people.filter(pk=task.participant_id).first()
    if participant is None or not Task.objects.filter(pk=task.pk, state=Task.State.OPEN).exists():
        raise TASK_FINISHED.refused()
    return participant


def question_answers_store(*, task: Task, answers: Mapping[str, Any]) -> QuestionAnswers:
    """Store the participant's answers to the questions before the task.

    A repeated submission changes nothing.

    Args:
        answers: a text or a list of options by the question's key.

    Raises:
        Refused: `closed` if the task is over or its participant erased, or `bad_answers` with `errors`, a sentence
            by the question's key.
    """
    with transaction.atomic():
        participant = _lock_participant(task)
        stored_rows = QuestionAnswers.objects.filter(participant=participant, version=task.version)
        if (stored := stored_rows.first()) is not None:
            return stored
        valid_answers, wrong = answers_read(task.version.values.questions, answers)
        if wrong:
            raise ANSWERS_MISSING.refused(errors=wrong)
        return QuestionAnswers.objects.create(participant=participant, version=task.version, answers=valid_answers)


def task_admits(task: Task) -> bool:
    """Return True unless the participant's answers before the task screen them out."""
    stored = QuestionAnswers.objects.filter(participant=task.participant_id, version=task.version_id).first()
    return stored is None or all(
        question.lets_in(stored.answers.get(question.key)) for question in task.version.values.questions
    )


@dataclass(frozen=True, slots=True)
class DueQuiz:
    """Quiz that is due for a participant.

    Attributes:
        quiz: digest of its questions.
        attempt: 1, or 2 after a wrong answer.
        before: answers of the first attempt by question index; empty at the first attempt.
        right: indices of questions answered correctly at the first attempt; they are not asked again.
    """

    questions: Sequence[QuizQuestion]
    quiz: str
    attempt: int
    before: tuple[str, ...] = ()
    right: frozenset[int] = frozenset()


def quiz_due(participant: Participant, version: StudyVersion) -> DueQuiz | None:
    """Return the participant's due quiz.

    None if it is passed, failed or not part of the study.
    """
    questions = version.values.checking.quiz_questions
    if not questions:
        return None
    quiz = quiz_digest(questions)
    attempts = list(QuizAttempt.objects.filter(participant=participant, quiz=quiz))
    if any(attempt.is_right for attempt in attempts) or len(attempts) >= MOST_QUIZ_ATTEMPTS:
        return None
    if not attempts:
        return DueQuiz(questions, quiz, attempt=1)
    answers = attempts[-1].answers
    right = frozenset(index for index, answer in enumerate(answers) if answer["is_right"])
    return DueQuiz(questions, quiz, 2, tuple(answer["answer"] for answer in answers), right)


def quiz_attempt_store(*, task: Task, quiz: str, attempt: int, answers: Sequence[str]) -> bool:
    """Store a quiz attempt; a repeated submission changes nothing.

    Args:
        quiz: digest of the questions that the page showed.
        attempt: attempt that the page showed, so that a repeated submission is not a second attempt.
        answers: an option for each question, in their order; any text for one that was right before.

    Returns:
        True if all answers are right now.

    Raises:
        Refused: `closed` if the task is over, its participant erased or another attempt due; `bad_answers` with the
            positions of unanswered questions as `errors`.
    """
    with transaction.atomic():
        participant = _lock_participant(task)
        stored = QuizAttempt.objects.filter(participant=participant, quiz=quiz, attempt=attempt)
        if (known := stored.first()) is not None:
            return known.is_right
        due = quiz_due(participant, task.version)
        if due is None or (due.quiz, due.attempt) != (quiz, attempt):
            raise OTHER_STEP.refused()
        merged_answers = [
            due.before[index] if index in due.right else answer
            for index, answer in enumerate([*answers, *[""] * len(due.questions)][: len(due.questions)])
        ]
        missing = [
            index
            for index, (question, answer) in enumerate(zip(due.questions, merged_answers, strict=True))
            if answer not in question.options
        ]
        if missing:
            raise ANSWERS_MISSING.refused(errors=missing)
        rows = quiz_rows(due.questions, merged_answers)
        is_right = all(row["is_right"] for row in rows)
        QuizAttempt.objects.create(participant=participant, quiz=quiz, attempt=attempt, answers=rows, is_right=is_right)
    return is_right


@dataclass(frozen=True, slots=True)
class DuePractice:
    """Practice pair that is due for a participant.

    Attributes:
        place: number of the pair, from 1.
        attempt: 1, or 2 after a wrong answer.
        before: answers of the first attempt; None at the first attempt.
    """

    pair: TrainingPair
    place: int
    n_pairs: int
    attempt: int
    before: Mapping[str, float] | None = None


def practice_due(participant: Participant, version: StudyVersion) -> DuePractice | None:
    """Return the participant's next practice pair.

    None if all were right or there are none.
    """
    pairs = version.values.training.training_pairs
    if not pairs:
        return None
    answers_by_pair: dict[str, list[TrainingAnswer]] = {}
    digests = [pair.digest for pair in pairs]
    for answer in TrainingAnswer.objects.filter(participant=participant, pair__in=digests):
        answers_by_pair.setdefault(answer.pair, []).append(answer)
    for place, (pair, digest) in enumerate(zip(pairs, digests, strict=True), start=1):
        answers = answers_by_pair.get(digest, [])
        if any(answer.is_right for answer in answers):
            continue
        before = answers[-1].answers if answers else None
        return DuePractice(pair, place, len(pairs), len(answers) + 1, before)
    return None


def practice_answer(*, task: Task, attempt: int, pair: str, answers: Mapping[str, float]) -> bool:
    """Store answers about a practice pair.

    A second wrong answer screens the participant out. A repeated submission changes nothing.

    Args:
        attempt: attempt that the page showed, so that a repeated submission is not a second attempt.
        pair: digest of the pair that the page showed.

    Returns:
        True if the answers were right.

    Raises:
        Refused: `closed` if the task is over, its participant erased, or another pair due.
    """
    with transaction.atomic():
        participant = _lock_participant(task)
        stored = TrainingAnswer.objects.filter(participant=participant, pair=pair, attempt=attempt)
        if (known := stored.first()) is not None:
            return known.is_right
        due = practice_due(participant, task.version)
        if due is None or (due.pair.digest, due.attempt) != (pair, attempt):
            raise OTHER_STEP.refused()
        is_right = not due.pair.missed(answers)
        TrainingAnswer.objects.create(
            participant=participant, pair=pair, attempt=attempt, answers=dict(answers), is_right=is_right
        )
        if not is_right and attempt >= MOST_PRACTICE_ATTEMPTS:
            task_end(task=task, outcome=Outcome.SCREENED_OUT)
    return is_right
