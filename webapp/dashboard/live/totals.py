"""Totals of a study since it began, counted in one pass over its tasks.

A pass reads every task, so it takes longer the more there are. In a large study its result is used again for twenty
times as long as it took: looking all day costs a twentieth of one core at most, and numbers are late by seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db.models import Case, Count, Max, Q, Sum, Value, When
from django.db.models.functions import Coalesce

from webapp.studies.models import LinkCount, Outcome, Study, Task

OUT = (Outcome.BOT_FAILED, Outcome.SCREENED_OUT, Outcome.FAILED_CHECK)
"""Outcomes that are none of a person's own doing, or a check."""
EARNED = (Outcome.RATED, Outcome.BOT_FAILED)
"""Outcomes that are paid in full."""
LARGE = 2000
"""From so many tasks on a count is used again."""
_REUSED_FOR = 20
"""times as long as it took,"""
_LONGEST_S = 60.0
"""and never for longer than this."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of everybody who came.

    Attributes:
        agreed, done: people; `reached` by step: people who ever got to it.
        ended: by the furthest step, people whose only end was one of `OUT`; those before the first under "".
        outcomes: tasks by outcome.
        n_visits: visits whose work earned the pay, each once however many tasks were done in it.
        n_opened: openings of the link; one person may open it several times.
        refused: by the reason's code, those of them where nobody could begin.
    """

    agreed: int
    done: int
    reached: Mapping[str, int]
    ended: Mapping[str, int]
    outcomes: dict[str, int]
    n_visits: int
    n_opened: int
    refused: dict[str, int]


def totals_of(study: Study, names: Sequence[str], *, include_synthetic: bool) -> Totals:
    """Return the study's counts; those of a large study may be some seconds old.

    Args:
        names: of the steps that are counted, in their order.
    """
    key = f"live-totals/{study.pk}/{include_synthetic}/{','.join(names)}"
    known: Totals | None = cache.get(key)
    if known is not None:
        return known
    started = time.monotonic()
    found = _counted(study, names, include_synthetic)
    if sum(found.outcomes.values()) >= LARGE:
        took_s = time.monotonic() - started
        cache.set(key, found, timeout=min(_REUSED_FOR * took_s, _LONGEST_S))
    return found


def _counted(study: Study, names: Sequence[str], include_synthetic: bool) -> Totals:
    tasks = Task.objects.filter(participant__study=study)
    openings = LinkCount.objects.filter(study=study)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
        openings = openings.filter(is_synthetic=False)
    by_reason = dict(openings.order_by().values_list("refused").annotate(times=Sum("n")))
    return Totals(
        **_of_people(tasks, names),
        n_opened=sum(by_reason.values()),
        refused={code: n for code, n in by_reason.items() if code},
    )


def _of_people(tasks: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of tasks: of each person the furthest step, then of all people together, in one query."""
    last = len(names) + 1
    step = Case(
        *(When(whereabouts__furthest=name, then=Value(i)) for i, name in enumerate(names, start=1)),
        default=Value(0),
    )
    of_outcome = {f"n_{name}": Count("pk", filter=Q(outcome=name)) for name in Outcome.values}
    people = (
        tasks.order_by()
        .values("participant")
        .annotate(
            at=Max(
                Case(When(outcome=Outcome.RATED, then=Value(last)), default=step),
                filter=~Q(outcome=Outcome.NO_CONSENT),
            ),
            out_at=Max(step, filter=Q(outcome__in=OUT)),
            visits=Count("submission", distinct=True, filter=Q(outcome__in=EARNED)),
            **of_outcome,
        )
    )
    found = people.aggregate(
        agreed=Count("participant", filter=Q(at__gte=0)),
        done=Count("participant", filter=Q(at=last)),
        n_visits=Coalesce(Sum("visits"), 0),
        **{f"at_{i}": Count("participant", filter=Q(at__gte=i)) for i in range(1, last)},
        **{f"out_{i}": Count("participant", filter=Q(out_at=i) & ~Q(at=last)) for i in range(last)},
        **{f"all_{name}": Coalesce(Sum(f"n_{name}"), 0) for name in Outcome.values},
    )
    return {
        "agreed": found["agreed"],
        "done": found["done"],
        "reached": {name: found[f"at_{i}"] for i, name in enumerate(names, start=1)},
        "ended": {name: found[f"out_{i}"] for i, name in enumerate(["", *names])},
        "outcomes": {name: found[f"all_{name}"] for name in Outcome.values if found[f"all_{name}"]},
        "n_visits": found["n_visits"],
    }
