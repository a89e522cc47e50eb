"""Test-retest agreement on items rated twice, and the summary of attention checks.

The summary is computed and stored together with a study's flags, because it reads every answer to a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery

from evaluation.analysis.agreement import OwnAgreement, own_agreement
from evaluation.result_json import result_dump
from evaluation.stats.means import SHARE, mean_interval
from webapp.ratings.attention_results import CheckKind, checks_answered
from webapp.ratings.flag_selectors import left_out
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_dimensions
from webapp.studies.models import Item, Outcome, Study, Task

LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class Again:
    """One item that a participant rated twice; `first` and `second` are the answers by question."""

    person: UUID
    is_synthetic: bool
    item: str
    first: dict[str, float]
    second: dict[str, float]


@dataclass(frozen=True, slots=True)
class OwnOfPerson:
    """One participant's agreement with their own earlier answers.

    Attributes:
        n_same, n: number of equal answers, and of all; n is at least 1.
        low, high: ends of the share's interval over items, from 0 to 1; None with one item, whose answers depend on
            each
            other.
    """

    person: UUID
    n_same: int
    n: int
    low: float | None
    high: float | None


def repeats_answered(study: Study, *, include_synthetic: bool = False, without: Sequence[str] = ()) -> Iterator[Again]:
    """Yield every item that was rated twice, in two queries; withdrawn work is left out.

    Args:
        without: names of flags; participants with one of them are left out.
    """
    if not study.items.filter(purpose=Item.Purpose.REPEAT).exists():
        return
    before = Rating.objects.filter(task=OuterRef("task"), item=OuterRef("item__original"))
    found = Rating.objects.filter(
        left_out(study, without), item__study=study, item__purpose=Item.Purpose.REPEAT
    ).exclude(task__outcome=Outcome.WITHDRAWN)
    if not include_synthetic:
        found = found.filter(participant__is_synthetic=False)
    rows = found.annotate(first_answers=Subquery(before.values("answers")[:1])).order_by("pk")
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
    people = [str(one.person) for one in again]
    return {
        dimension.key: own_agreement(
            [_number(one.first.get(dimension.key)) for one in again],
            [_number(one.second.get(dimension.key)) for one in again],
            people,
            level=LEVEL,
            width=None if dimension.inferred else dimension.high - dimension.low,
        )
        for dimension in study_dimensions(study)
        if again
    }


def own_of_people(again: Sequence[Again]) -> list[OwnOfPerson]:
    """Return for each person how often they gave the same answer again, the lowest share first."""
    same: dict[UUID, list[tuple[str, bool]]] = {}
    for one in again:
        shared = one.first.keys() & one.second.keys()
        same.setdefault(one.person, []).extend((one.item, one.first[key] == one.second[key]) for key in shared)
    found = []
    for person, answers in same.items():
        if answers:
            values = [float(is_same) for _item, is_same in answers]
            items = [item for item, _is_same in answers]
            ends = mean_interval(values, items, LEVEL, scale=SHARE)
            found.append(OwnOfPerson(person, int(sum(values)), len(values), ends.low, ends.high))
    return sorted(found, key=lambda one: (one.n_same / one.n, str(one.person)))


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


STATISTIC_NAME = "checks"
MOST_PEOPLE_LISTED = 50


def attention_summary(study: Study) -> dict[str, Any]:
    """Return the results of participants' checks, without scripted and withdrawn participants.

    Returns:
        `kinds`: of each kind of check with an answer, `n` and `n_passed`, of the quiz at the first try.
        `own`: by question, as `result_dump` writes it, participants' agreement with themselves; empty without repeated
            items.
        `people`: participants who answered twice, the lowest share first, at most 50; `n_people`: all of them.
    """
    tasks = Task.objects.filter(participant__study=study, participant__is_synthetic=False)
    met: Counter[CheckKind] = Counter()
    passed: Counter[CheckKind] = Counter()
    for one in checks_answered(tasks.exclude(outcome=Outcome.WITHDRAWN)):
        if one.attempt == 1:
            met[one.kind] += 1
            passed[one.kind] += one.passed
    again = list(repeats_answered(study))
    people = own_of_people(again)
    return {
        "kinds": {kind: {"n": n, "n_passed": passed[kind]} for kind, n in met.items()},
        "own": {key: result_dump(found, OwnAgreement) for key, found in own_of_questions(study, again).items()},
        "people": [
            {"person": one.person.hex, "n_same": one.n_same, "n": one.n, "low": one.low, "high": one.high}
            for one in people[:MOST_PEOPLE_LISTED]
        ],
        "n_people": len(people),
    }
