"""Kinds of checks: their names, the limit for their misses, and the reading of their answers.

A new kind is an entry of `CHECK_KINDS` here and a list of `CheckEntry` in the settings
(`webapp/studies/attention_checks.py`). It also needs a page for participants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet

from webapp.conversations.models import ChatCheckAnswer
from webapp.ratings.models import Rating
from webapp.studies.models import Item, QuestionAnswers, QuizAttempt, StudyVersion, Task
from webapp.studies.questions import Question
from webapp.studies.settings import StudyValues

_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Attention check answered by a participant.

    Attributes:
        kind: name of its kind in `CHECK_KINDS`.
        name: name of the item, key of the question, or its words.
        task: id of the task; None for checks answered once, before the first task.
        expected: answers that pass; for items by question.
        given: participant's answers; for items by question.
        attempt: attempt at the quiz; otherwise 1.
        conversation: id of its chat; None for other checks.
    """

    kind: str
    name: str
    participant: UUID
    task: int | None
    expected: Any
    answer: Any
    passed: bool
    answered_at: datetime
    attempt: int = 1
    conversation: UUID | None = None


@dataclass(frozen=True, slots=True)
class CheckedWork:
    """Tasks whose checks are read.

    Attributes:
        values: values of their versions, by the version's id.
    """

    tasks: QuerySet[Task]
    values: Mapping[int, StudyValues]

    @property
    def people(self) -> Any:
        """Ids of the tasks' participants, as a subquery."""
        return self.tasks.order_by().values("participant")


def _read_quiz(work: CheckedWork) -> Iterator[CheckAnswer]:
    if not any(values.checking.quiz_questions for values in work.values.values()):
        return
    attempts = QuizAttempt.objects.filter(participant__in=work.people)
    for attempt in attempts.order_by("pk").iterator(chunk_size=_CHUNK):
        for answer in attempt.answers:
            yield CheckAnswer(
                "quiz",
                answer["question"],
                attempt.participant_id,
                None,
                None,
                answer["answer"],
                answer["is_right"],
                attempt.created_at,
                attempt.attempt,
            )


def _read_before(work: CheckedWork) -> Iterator[CheckAnswer]:
    if not any(question.is_check for values in work.values.values() for question in values.questions):
        return
    answers = QuestionAnswers.objects.filter(participant__in=work.people)
    checks_by_version: dict[int, list[Question]] = {}
    for row in answers.order_by("pk").iterator(chunk_size=_CHUNK):
        if row.version_id not in checks_by_version:
            values = StudyVersion.objects.get(pk=row.version_id).values
            checks_by_version[row.version_id] = [question for question in values.questions if question.is_check]
        for question in checks_by_version[row.version_id]:
            if question.key in row.answers:  # missing for withdrawn participants and earlier versions
                yield _build_answer(
                    "before", question, row.answers, row.participant_id, None, answered_at=row.created_at
                )


def _read_items(work: CheckedWork) -> Iterator[CheckAnswer]:
    purposes = (Item.Purpose.CHECK, Item.Purpose.GOLD)
    rows = Rating.objects.filter(task__in=work.tasks, item__purpose__in=purposes).order_by("pk")
    names = ("item__purpose", "item__key", "item__expected", "participant", "task", "answers")
    for row in rows.values_list(*names, "submitted_at").iterator(chunk_size=_CHUNK):
        purpose, key, expected, participant, task, answers, answered_at = row
        passed = all(answers.get(question) in passing for question, passing in expected.items())
        kind = "gold" if purpose == Item.Purpose.GOLD else "item"
        yield CheckAnswer(kind, key, participant, task, expected, answers, passed, answered_at)


def _read_after(work: CheckedWork) -> Iterator[CheckAnswer]:
    checks_by_version = {
        pk: [question for question in values.after if question.is_check] for pk, values in work.values.items()
    }
    if not any(checks_by_version.values()):
        return
    rows = (
        Rating.objects.filter(task__in=work.tasks)
        .exclude(other_answers={})
        .order_by("pk")
        .values_list("task", "task__version", "participant", "other_answers", "submitted_at")
    )
    for task, version, participant, answers, answered_at in rows.iterator(chunk_size=_CHUNK):
        for question in checks_by_version.get(version, ()):
            if question.key in answers:  # only one of several rated objects has it
                yield _build_answer("after", question, answers, participant, task, answered_at=answered_at)


def _read_chats(work: CheckedWork) -> Iterator[CheckAnswer]:
    if not any(values.checking.chat_checks for values in work.values.values()):
        return
    answers = ChatCheckAnswer.objects.filter(conversation__slot__task__in=work.tasks)
    rows = answers.select_related("conversation__slot").order_by("pk")
    for row in rows.iterator(chunk_size=_CHUNK):
        slot, person = row.conversation.slot, row.conversation.participant_id
        if slot is None or person is None:
            continue
        yield CheckAnswer(
            "chat",
            row.question,
            person,
            slot.task_id,
            row.expected,
            row.answer,
            row.is_right,
            row.created_at,
            conversation=row.conversation_id,
        )


def _build_answer(
    kind: str,
    question: Question,
    answers: Mapping[str, Any],
    participant: UUID,
    task: int | None,
    *,
    answered_at: datetime,
) -> CheckAnswer:
    answer = answers[question.key]
    expected = list(question.expected)
    return CheckAnswer(kind, question.key, participant, task, expected, answer, question.passes(answer), answered_at)


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One kind of check.

    Attributes:
        name: its name in exports and packages.
        title: its name on the page about data quality.
        place: explanation of the name in the data dictionary; empty if the name says it.
        read: function that yields its answers. It reads at most twice, and only what the versions have.
        stored_as: rows that keep its answers, from which a package's import knows how to store them.
        limit: limit that its misses count towards; None for the quiz, which admits participants.
    """

    name: str
    title: str
    place: str
    read: Callable[[CheckedWork], Iterator[CheckAnswer]]
    stored_as: Literal["quiz", "questions", "item", "rating", "chat"]
    limit: Literal["attention", "gold"] | None = "attention"


CHECK_KINDS: Mapping[str, CheckKind] = {
    kind.name: kind
    for kind in (
        CheckKind(
            "quiz",
            "Questions about the instructions, first try",
            "about the instructions",
            _read_quiz,
            "quiz",
            limit=None,
        ),
        CheckKind("before", "Attention checks before the task", "the task, among questions", _read_before, "questions"),
        CheckKind("item", "Attention checks among the items", "attention check among items", _read_items, "item"),
        CheckKind(
            "gold", "Items with a known correct answer", "item with a known answer", _read_items, "item", limit="gold"
        ),
        CheckKind("after", "Attention checks after the task", "the task, among questions", _read_after, "rating"),
        CheckKind("chat", "Attention checks in the chat", "", _read_chats, "chat"),
    )
}
READERS = tuple(dict.fromkeys(kind.read for kind in CHECK_KINDS.values()))
"""Functions that yield answers, in the order of exports, each once."""
