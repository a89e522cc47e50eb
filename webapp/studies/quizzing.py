"""The quiz about the instructions: a participant's next attempt, and its storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.studies.checking import MOST_ATTEMPTS, QuizQuestion, quiz_digest, quiz_told
from webapp.studies.models import Participant, QuizAttempt, StudyVersion, Task


@dataclass(frozen=True, slots=True)
class QuizDue:
    """The quiz as it is due for a participant.

    Attributes:
        quiz: digest of its questions.
        attempt: 1, or 2 after a wrong answer.
        before: answers of the first attempt, by place; empty at the first attempt.
        right: places of the questions that were right then; they are not asked again.
    """

    questions: Sequence[QuizQuestion]
    quiz: str
    attempt: int
    before: tuple[str, ...] = ()
    right: frozenset[int] = frozenset()


def quiz_due(participant: Participant, version: StudyVersion) -> QuizDue | None:
    """Return the participant's due quiz; None once it is passed or missed twice, or if there is none."""
    questions = version.values.checking.quiz_questions
    if not questions:
        return None
    quiz = quiz_digest(questions)
    had = list(QuizAttempt.objects.filter(participant=participant, quiz=quiz))
    if any(one.is_right for one in had) or len(had) >= MOST_ATTEMPTS:
        return None
    if not had:
        return QuizDue(questions, quiz, attempt=1)
    answers = had[-1].answers
    right = frozenset(at for at, one in enumerate(answers) if one["is_right"])
    return QuizDue(questions, quiz, 2, tuple(one["answer"] for one in answers), right)


def quiz_attempt_store(*, task: Task, quiz: str, attempt: int, answers: Sequence[str]) -> bool:
    """Store an attempt of the task's participant. Sent again it changes nothing.

    Args:
        quiz: digest of the questions that the page showed.
        attempt: attempt that the page was for, so that a form sent twice is no second attempt.
        answers: an option for each question, in their order; any text for one that was right before.

    Returns:
        True if all answers are right now.

    Raises:
        Refused: `closed` if the task is over, its participant erased or another attempt due; `bad_answers` with the
            places of questions without an answer as `errors`.
    """
    with transaction.atomic():
        people = Participant.objects.select_for_update(of=("self",), no_key=True)
        participant = people.filter(pk=task.participant_id).first()
        is_open = Task.objects.filter(pk=task.pk, state=Task.State.OPEN).exists()
        if participant is None or not is_open:
            raise Refused("closed", _("This task is finished."))
        stored = QuizAttempt.objects.filter(participant=participant, quiz=quiz, attempt=attempt)
        if (known := stored.first()) is not None:
            return known.is_right
        due = quiz_due(participant, task.version)
        if due is None or (due.quiz, due.attempt) != (quiz, attempt):
            raise Refused("closed", _("This page is not the one that is due."))
        kept = [
            due.before[at] if at in due.right else answer
            for at, answer in enumerate(
                [*answers, *[""] * len(due.questions)][: len(due.questions)]
            )
        ]
        missing = [
            at
            for at, (one, answer) in enumerate(zip(due.questions, kept, strict=True))
            if answer not in one.options
        ]
        if missing:
            raise Refused("bad_answers", _("Some answers are missing."), errors=missing)
        told = quiz_told(due.questions, kept)
        is_right = all(one["is_right"] for one in told)
        QuizAttempt.objects.create(
            participant=participant, quiz=quiz, attempt=attempt, answers=told, is_right=is_right
        )
    return is_right
