"""Results of attention checks and gold items, and excluded work.

Test-retest agreement is computed here, too.

An attention check is a reply or a question that says what to answer; a gold item has a known right answer. The
comprehension quiz is listed with them: participants who fail it do not reach the task. The summary is computed and
stored together with a study's flags, because it reads every answer to a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery

from evaluation.analysis.agreement import OwnAgreement, own_agreement
from evaluation.number_format import result_dump
from evaluation.stats.means import SHARE, mean_interval
from webapp.conversations.models import ChatCheckAnswer
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Item, Outcome, QuestionAnswers, QuizAttempt, Study, StudyVersion, Task
from webapp.studies.questions import Question

CheckKind = Literal["quiz", "before", "item", "gold", "after", "chat"]
ATTENTION: tuple[CheckKind, ...] = ("before", "item", "after", "chat")
_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Attention check answered by a participant.

    Attributes:
        kind: its position: `quiz` about the instructions, a question `before` or `after` the task, an attention check
            among items (`item`), a `gold` item, or a question in a `chat`.
        name: name of the item, key of the question, or its words.
        task: id of the task; None for checks answered once, before the first task.
        expected: answers that pass; for items by question.
        given: participant's answers; for items by question.
        attempt: attempt at the quiz; otherwise 1.
        conversation: id of its chat; None for other checks.
    """

    kind: CheckKind
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
class ExcludedWork:
    """Work of participants who missed a check.

    It is excluded from the study's numbers unless requested.
    """

    n_tasks: int
    n_ratings: int


def checks_answered(tasks: QuerySet[Task], versions: Iterable[StudyVersion] | None = None) -> Iterator[CheckAnswer]:
    """Yield the checks answered in or before these tasks, by kind.

    Reads only the kinds of checks that the versions have, in at most six queries.

    Args:
        versions: versions of the tasks, if already loaded.
    """
    if versions is None:
        versions = StudyVersion.objects.filter(pk__in=tasks.order_by().values("version"))
    known = {version.pk: version.values for version in versions}
    people = tasks.order_by().values("participant")
    if any(values.checking.quiz_questions for values in known.values()):
        yield from _read_quiz(QuizAttempt.objects.filter(participant__in=people))
    if any(question.is_check for values in known.values() for question in values.questions):
        yield from _read_before(QuestionAnswers.objects.filter(participant__in=people))
    yield from _read_items(Rating.objects.filter(task__in=tasks))
    after = {pk: [question for question in values.after if question.is_check] for pk, values in known.items()}
    if any(after.values()):
        yield from _read_after(Rating.objects.filter(task__in=tasks), after)
    if any(values.checking.chat_checks for values in known.values()):
        yield from _read_chats(ChatCheckAnswer.objects.filter(conversation__slot__task__in=tasks))


def _read_quiz(attempts: QuerySet[QuizAttempt]) -> Iterator[CheckAnswer]:
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


def _read_before(answers: QuerySet[QuestionAnswers]) -> Iterator[CheckAnswer]:
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


def _read_items(ratings: QuerySet[Rating]) -> Iterator[CheckAnswer]:
    purposes = (Item.Purpose.CHECK, Item.Purpose.GOLD)
    rows = ratings.filter(item__purpose__in=purposes).order_by("pk")
    names = ("item__purpose", "item__key", "item__expected", "participant", "task", "answers")
    for row in rows.values_list(*names, "submitted_at").iterator(chunk_size=_CHUNK):
        purpose, key, expected, participant, task, answers, answered_at = row
        passed = all(answers.get(question) in passing for question, passing in expected.items())
        kind: CheckKind = "gold" if purpose == Item.Purpose.GOLD else "item"
        yield CheckAnswer(kind, key, participant, task, expected, answers, passed, answered_at)


def _read_after(ratings: QuerySet[Rating], checks_by_version: Mapping[int, list[Question]]) -> Iterator[CheckAnswer]:
    rows = (
        ratings.exclude(other_answers={})
        .order_by("pk")
        .values_list("task", "task__version", "participant", "other_answers", "submitted_at")
    )
    for task, version, participant, answers, answered_at in rows.iterator(chunk_size=_CHUNK):
        for question in checks_by_version.get(version, ()):
            if question.key in answers:  # only one of several rated objects has it
                yield _build_answer("after", question, answers, participant, task, answered_at=answered_at)


def _read_chats(answers: QuerySet[ChatCheckAnswer]) -> Iterator[CheckAnswer]:
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
    kind: CheckKind,
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


def checks_by_task(tasks: QuerySet[Task]) -> dict[int, list[CheckAnswer]]:
    """Return the answered checks by task id, for tasks that have any.

    Checks answered once before the first task are listed in every task of the participant.
    """
    checks: dict[int, list[CheckAnswer]] = {}
    of_people: dict[UUID, list[CheckAnswer]] = {}
    for check in checks_answered(tasks):
        if check.task is not None:
            checks.setdefault(check.task, []).append(check)
        else:
            of_people.setdefault(check.participant, []).append(check)
    if of_people:
        for task, person in tasks.order_by().values_list("pk", "participant"):
            if person in of_people:
                checks[task] = of_people[person] + checks.get(task, [])
    return checks


def task_passes(task: Task) -> bool:
    """Return True if the participant passed.

    Misses of checks and gold items stay within the version's limits.
    """
    answered = checks_answered(Task.objects.filter(pk=task.pk), [task.version])
    missed = [check for check in answered if not check.passed]
    values = task.version.values
    n_attention = sum(check.kind in ATTENTION for check in missed)
    n_gold = sum(check.kind == "gold" for check in missed)
    return n_attention <= values.checking.misses_allowed and n_gold <= values.attention.gold_misses_allowed


def excluded_work(study: Study, *, include_synthetic: bool = False) -> ExcludedWork:
    """Return the amount of excluded work of the study, in one query."""
    tasks = Task.objects.filter(participant__study=study, outcome=Outcome.FAILED_CHECK)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    judged = Rating.objects.filter(task__in=tasks).exclude(item__purpose__in=Item.UNCOUNTED)
    totals = judged.aggregate(n_tasks=Count("task", distinct=True), n_ratings=Count("pk"))
    return ExcludedWork(totals["n_tasks"], totals["n_ratings"])


LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class Again:
    """Item that a participant rated twice.

    `first` and `second` are the answers by question.
    """

    person: UUID
    is_synthetic: bool
    item: str
    first: dict[str, float]
    second: dict[str, float]


@dataclass(frozen=True, slots=True)
class OwnOfPerson:
    """One participant's agreement with their own earlier answers.

    Attributes:
        n_same, n: number of equal answers, and of all answers; n is at least 1.
        low, high: ends of the share's interval over items, from 0 to 1; None with one item, whose answers depend on
            each other.
    """

    person: UUID
    n_same: int
    n: int
    low: float | None
    high: float | None


def repeats_answered(
    study: Study, *, include_synthetic: bool = False, excluded_flags: Sequence[str] = ()
) -> Iterator[Again]:
    """Yield every item that was rated twice, in two queries.

    Withdrawn work is left out.

    Args:
        excluded_flags: names of flags; participants with one of them are left out.
    """
    if not study.items.filter(purpose=Item.Purpose.REPEAT).exists():
        return
    before = Rating.objects.filter(task=OuterRef("task"), item=OuterRef("item__original"))
    repeats = Rating.objects.filter(
        left_out(study, excluded_flags), item__study=study, item__purpose=Item.Purpose.REPEAT
    ).exclude(task__outcome=Outcome.WITHDRAWN)
    if not include_synthetic:
        repeats = repeats.filter(participant__is_synthetic=False)
    rows = repeats.annotate(first_answers=Subquery(before.values("answers")[:1])).order_by("pk")
    for row in rows.values_list(
        "participant", "participant__is_synthetic", "item__original__key", "first_answers", "answers"
    ).iterator(chunk_size=1000):
        person, is_synthetic, item, first, second = row
        if first is not None:
            yield Again(person, is_synthetic, item, first, second)


def own_of_questions(study: Study, again: Sequence[Again]) -> dict[str, OwnAgreement]:
    """Return each question's agreement of participants with themselves, with intervals over participants.

    Empty without any repeats.
    """
    people = [str(repeat.person) for repeat in again]
    return {
        dimension.key: own_agreement(
            [_number(repeat.first.get(dimension.key)) for repeat in again],
            [_number(repeat.second.get(dimension.key)) for repeat in again],
            people,
            level=LEVEL,
            width=None if dimension.inferred else dimension.high - dimension.low,
        )
        for dimension in study_dimensions(study)
        if again
    }


def own_of_people(again: Sequence[Again]) -> list[OwnOfPerson]:
    """Return each participant's share of repeated answers, lowest first."""
    same: dict[UUID, list[tuple[str, bool]]] = {}
    for repeat in again:
        shared = repeat.first.keys() & repeat.second.keys()
        same.setdefault(repeat.person, []).extend(
            (repeat.item, repeat.first[key] == repeat.second[key]) for key in shared
        )
    agreements = []
    for person, answers in same.items():
        if answers:
            values = [float(is_same) for _item, is_same in answers]
            items = [item for item, _is_same in answers]
            ends = mean_interval(values, items, LEVEL, scale=SHARE)
            agreements.append(OwnOfPerson(person, int(sum(values)), len(values), ends.low, ends.high))
    return sorted(agreements, key=lambda agreement: (agreement.n_same / agreement.n, str(agreement.person)))


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


STATISTIC_NAME = "checks"
MOST_PEOPLE_LISTED = 50


def attention_summary(study: Study) -> dict[str, Any]:
    """Return the results of participants' checks, without scripted and withdrawn participants.

    Returns:
        `kinds`: for each answered kind of check, `n` and `n_passed`; for the quiz, at the first try.
        `own`: by question, as `result_dump` writes it, participants' agreement with themselves; empty without repeated
            items.
        `people`: up to 50 participants who answered twice, the lowest share first; `n_people`: number of all of them.
    """
    tasks = Task.objects.filter(participant__study=study, participant__is_synthetic=False)
    met: Counter[CheckKind] = Counter()
    passed: Counter[CheckKind] = Counter()
    for check in checks_answered(tasks.exclude(outcome=Outcome.WITHDRAWN)):
        if check.attempt == 1:
            met[check.kind] += 1
            passed[check.kind] += check.passed
    again = list(repeats_answered(study))
    people = own_of_people(again)
    return {
        "kinds": {kind: {"n": n, "n_passed": passed[kind]} for kind, n in met.items()},
        "own": {key: result_dump(agreement, OwnAgreement) for key, agreement in own_of_questions(study, again).items()},
        "people": [
            {
                "person": agreement.person.hex,
                "n_same": agreement.n_same,
                "n": agreement.n,
                "low": agreement.low,
                "high": agreement.high,
            }
            for agreement in people[:MOST_PEOPLE_LISTED]
        ],
        "n_people": len(people),
    }
