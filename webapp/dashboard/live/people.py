"""Participants' progress through a study's steps: counts per step, current steps, and dropouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.utils import timezone

from evaluation.stats.proportion import share_interval
from webapp.dashboard.live.totals import Totals, totals_of
from webapp.studies.models import Outcome, Study, Task, Whereabouts
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import steps_asked

QUIET = timedelta(minutes=15)
"""Whoever did nothing for so long has left."""
OPENED, AGREED, DONE = "opened", "agreed", "done"
_NOT_COUNTED = ("consent", "instructions", "done")
"""Steps that other stages stand for: the first page for opened and agreed."""
_TITLES = {
    "questions": "Questions",
    "practice": "Practice",
    "quiz": "Quiz",
}
"""Steps that share their heading with others."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the way through a study.

    Attributes:
        n: people who ever got there; of the link the openings, which are no people.
        now: people who are there now.
        on_way: people inside who got no further yet, be it that they have gone back.
        ended: people whose way ended there, by a bot that failed or by a check; at the link those who said no. That is
            not leaving.
        left: people who got no further, and are not there any more; None at the link and at the end.
        low, high: ends of the 95 % interval of `share`.
    """

    name: str
    title: Any
    n: int
    now: int = 0
    on_way: int = 0
    ended: int = 0
    left: int | None = None
    low: float | None = None
    high: float | None = None

    @property
    def share(self) -> float | None:
        """The share of those who left, among those who went on or left; None without any."""
        at_risk = self.n - self.on_way - self.ended
        return self.left / at_risk if self.left is not None and at_risk > 0 else None


@dataclass(frozen=True, slots=True)
class People:
    """Everybody who came.

    Attributes:
        stages: from the opened link to the end.
        totals: what they are counted from.
    """

    stages: tuple[Stage, ...]
    totals: Totals

    @property
    def n_inside(self) -> int:
        """Number of participants who have consented and are at work now."""
        return sum(stage.now for stage in self.stages if stage.name != OPENED)

    @property
    def n_done(self) -> int:
        """Number of participants who have finished."""
        return self.stages[-1].n

    @property
    def n_agreed(self) -> int:
        """Number of participants who have consented."""
        return self.stages[1].n


def people_of(study: Study, *, include_synthetic: bool, now: datetime) -> People:
    """Read how far the study's people are; scripted participants only where they are asked for."""
    names = step_names(study)
    since = now - QUIET
    totals = totals_of(study, names, include_synthetic=include_synthetic)
    inside = _inside(study, since, include_synthetic=include_synthetic)
    return People(_stages(study, names, totals, inside), totals)


def step_names(study: Study) -> list[str]:
    """Return the steps that are stages of their own, in their order."""
    return [name for name in steps_asked(study) if name not in _NOT_COUNTED]


def _inside(
    study: Study, since: datetime, *, include_synthetic: bool
) -> tuple[Counter[str], Counter[str]]:
    """Count the people at work now, by the step they look at and by the furthest they have reached.

    Three ways to be at work, each by an index on time: many tasks stay open when their people have left.
    """
    tasks = Task.objects.filter(participant__study=study, state=Task.State.OPEN)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    looked = Whereabouts.objects.filter(study=study, seen_at__gte=since)
    columns = ("pk", "whereabouts__step", "whereabouts__furthest")
    ways = (
        tasks.filter(updated_at__gte=since),
        tasks.filter(pk__in=looked.values("task")),
        tasks.filter(
            slots__chat__state="open",
            slots__chat__source="chat",
            slots__chat__updated_at__gte=since,
        ),
    )
    first, *others = (way.order_by().values_list(*columns) for way in ways)
    found = list(first.union(*others))
    return (
        Counter(step or AGREED for _pk, step, _furthest in found),
        Counter(furthest or AGREED for _pk, _step, furthest in found),
    )


def _stages(
    study: Study,
    names: Sequence[str],
    totals: Totals,
    inside: tuple[Mapping[str, int], Mapping[str, int]],
) -> tuple[Stage, ...]:
    headings = {step.name: step.heading for step in protocols.get(study.protocol).steps}
    titles: dict[str, Any] = {
        OPENED: "Link opened",
        AGREED: "Agreed",
        **{name: _TITLES.get(name, headings[name]) for name in names},
        DONE: "Done",
    }
    counted = {AGREED: totals.agreed, **totals.reached, DONE: totals.done}
    now, on_way, out = (_by_stage(one, names) for one in (*inside, totals.ended))
    # Openings are no people, so nothing is said of who reads or has left there.
    n_declined = totals.outcomes.get(Outcome.NO_CONSENT, 0)
    found = [Stage(OPENED, titles.pop(OPENED), totals.n_opened, ended=n_declined)]
    for name, after in pairwise(titles):
        n = counted[name]
        stage = Stage(
            name, titles[name], n, now.get(name, 0), on_way.get(name, 0), min(out.get(name, 0), n)
        )
        found.append(_with_left(stage, counted[after]))
    return (*found, Stage(DONE, titles[DONE], counted[DONE]))


def _by_stage(counted: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """Return counts by step as counts by stage: steps that are no stage belong to those who have agreed."""
    found = {name: n for name, n in counted.items() if name in names}
    return {**found, AGREED: sum(n for name, n in counted.items() if name not in names)}


def _with_left(stage: Stage, n_after: int) -> Stage:
    """Return the stage with those who left there, and the interval of their share."""
    left = max(0, stage.n - n_after - stage.on_way - stage.ended)
    low, high = share_interval(left, max(left, stage.n - stage.on_way - stage.ended)) or (
        None,
        None,
    )
    return replace(stage, left=left, low=low, high=high)


def now_rounded() -> datetime:
    """Return the time to the second, which several reads of one page share."""
    return timezone.now().replace(microsecond=0)
