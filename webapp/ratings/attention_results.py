"""Results of attention checks and gold items, and excluded work.

Test-retest agreement is computed here, too.

An attention check is a reply or a question that says what to answer; a gold item has a known right answer. The
comprehension quiz is listed with them: participants who fail it do not reach the task. The summary is computed and
stored together with a study's flags, because it reads every answer to a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery

from evaluation.analysis.agreement import OwnAgreement, own_agreement
from evaluation.number_format import result_dump
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import SHARE, mean_interval
from webapp.ratings.check_kinds import CHECK_KINDS, READERS, CheckAnswer, CheckedWork
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Item, Outcome, Study, StudyVersion, Task


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
    work = CheckedWork(tasks, {version.pk: version.values for version in versions})
    for read in READERS:
        yield from read(work)


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
    n_missed: Counter[str | None] = Counter(CHECK_KINDS[check.kind].limit for check in missed)
    limits = {"attention": values.checking.misses_allowed, "gold": values.attention.gold_misses_allowed}
    return all(n_missed[limit] <= n_allowed for limit, n_allowed in limits.items())


def excluded_work(study: Study, *, include_synthetic: bool = False) -> ExcludedWork:
    """Return the amount of excluded work of the study, in one query."""
    tasks = Task.objects.filter(participant__study=study, outcome=Outcome.FAILED_CHECK)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    judged = Rating.objects.filter(task__in=tasks).exclude(item__purpose__in=Item.UNCOUNTED)
    totals = judged.aggregate(n_tasks=Count("task", distinct=True), n_ratings=Count("pk"))
    return ExcludedWork(totals["n_tasks"], totals["n_ratings"])


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
            level=RATING_LEVEL,
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
            ends = mean_interval(values, items, RATING_LEVEL, scale=SHARE)
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
    met: Counter[str] = Counter()
    passed: Counter[str] = Counter()
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
