"""How people come through a study's steps: how many got how far, who is where now, who left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy

from evaluation.stats.proportion import share_interval
from webapp.studies.models import LinkOpening, Outcome, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import steps_asked

QUIET = timedelta(minutes=15)
"""Whoever did nothing for so long has left."""
OPENED, AGREED, DONE = "opened", "agreed", "done"
_NOT_COUNTED = ("consent", "instructions", "done")
"""Steps that other stages stand for: the first page for opened and agreed."""
_TITLES = {
    "questions": gettext_lazy("Questions"),
    "practice": gettext_lazy("Practice"),
    "quiz": gettext_lazy("Quiz"),
}
"""Steps that share their heading with others."""
_OUT = (Outcome.BOT_FAILED, Outcome.SCREENED_OUT, Outcome.FAILED_CHECK)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the way through a study.

    Attributes:
        n: people who ever got there.
        now: people who are there now.
        on_way: people inside who got no further yet, be it that they have gone back.
        ended: people whose way ended there, by a bot that failed or by a check; at the link those who said no or
            could not begin. That is not leaving.
        left: people who got no further, and are not there any more; None at the end, and where it is unknown.
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
        n_opened: browsers in which the link was opened.
        outcomes: how many tasks ended how, by outcome.
        turned_away: how many found that they could not begin, by the reason's code.
    """

    stages: tuple[Stage, ...]
    n_opened: int
    outcomes: dict[str, int]
    turned_away: dict[str, int]

    @property
    def n_inside(self) -> int:
        """How many have agreed and are at work now."""
        return sum(stage.now for stage in self.stages if stage.name != OPENED)

    @property
    def n_done(self) -> int:
        """How many have finished."""
        return self.stages[-1].n

    @property
    def n_agreed(self) -> int:
        """How many have agreed."""
        return self.stages[1].n


def people_of(study: Study, *, include_synthetic: bool, now: datetime) -> People:
    """Read how far the study's people are; scripted participants only where they are asked for."""
    names = [name for name in steps_asked(study) if name not in _NOT_COUNTED]
    tasks = Task.objects.filter(participant__study=study)
    openings = LinkOpening.objects.filter(study=study)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
        openings = openings.filter(is_synthetic=False)
    since = now - QUIET
    opened = openings.aggregate(
        n=Count("pk"), now=Count("pk", filter=Q(answered_at=None, refused="", seen_at__gte=since))
    )
    refused = openings.exclude(refused="").filter(answered_at=None).order_by()
    turned_away = dict(refused.values_list("refused").annotate(n=Count("pk")))
    reached, outcomes = _reached(tasks, names)
    inside = _inside(tasks, since)
    ended = _ended(tasks)
    return People(
        _stages(study, names, opened, turned_away, reached, outcomes, inside, ended),
        opened["n"],
        outcomes,
        turned_away,
    )


def _reached(tasks: QuerySet[Task], names: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Count who ever reached each step, and how many tasks ended how, in two queries."""
    done = Q(outcome=Outcome.RATED)
    counts: dict[str, Any] = {
        f"at_{name}": Count(
            "participant", distinct=True, filter=done | Q(whereabouts__furthest__in=names[i:])
        )
        for i, name in enumerate(names)
    }
    found = tasks.exclude(outcome=Outcome.NO_CONSENT).aggregate(
        agreed=Count("participant", distinct=True),
        done=Count("participant", distinct=True, filter=done),
        **counts,
    )
    reached = {name: found[f"at_{name}"] for name in names}
    ends = tasks.exclude(outcome="").order_by().values_list("outcome").annotate(n=Count("pk"))
    return {AGREED: found["agreed"], **reached, DONE: found["done"]}, dict(ends)


def _inside(tasks: QuerySet[Task], since: datetime) -> tuple[Counter[str], Counter[str]]:
    """Count the people at work now, by the step they look at and by the furthest they have reached."""
    seen = (
        Q(whereabouts__seen_at__gte=since)
        | Q(updated_at__gte=since)
        | Q(slots__chat__updated_at__gte=since)
    )
    rows = tasks.filter(seen, state=Task.State.OPEN).values_list(
        "pk", "whereabouts__step", "whereabouts__furthest"
    )
    found = list(rows.distinct())
    return (
        Counter(step or AGREED for _pk, step, _furthest in found),
        Counter(furthest or AGREED for _pk, _step, furthest in found),
    )


def _ended(tasks: QuerySet[Task]) -> Counter[str]:
    """Count those whose only end was none of their own doing, or a check, by the furthest step."""
    rated = tasks.filter(participant=OuterRef("participant"), outcome=Outcome.RATED)
    rows = tasks.filter(~Exists(rated), outcome__in=_OUT).order_by()
    counted = rows.values_list("whereabouts__furthest").annotate(
        n=Count("participant", distinct=True)
    )
    return Counter({step or AGREED: n for step, n in counted})


def _stages(
    study: Study,
    names: Sequence[str],
    opened: Mapping[str, int],
    turned_away: Mapping[str, int],
    reached: Mapping[str, int],
    outcomes: Mapping[str, int],
    inside: tuple[Mapping[str, int], Mapping[str, int]],
    ended: Mapping[str, int],
) -> tuple[Stage, ...]:
    headings = {step.name: step.heading for step in protocols.get(study.protocol).steps}
    titles: dict[str, Any] = {
        OPENED: gettext_lazy("Opened"),
        AGREED: gettext_lazy("Agreed"),
        **{name: _TITLES.get(name, headings[name]) for name in names},
        DONE: gettext_lazy("Done"),
    }
    n_came = reached[AGREED] + outcomes.get(Outcome.NO_CONSENT, 0)
    counted = {**reached, OPENED: max(opened["n"], n_came)}
    now, on_way, out = (_by_stage(one, names) for one in (*inside, ended))
    now[OPENED] = on_way[OPENED] = opened["now"]
    out[OPENED] = sum(turned_away.values()) + outcomes.get(Outcome.NO_CONSENT, 0)
    found = []
    for name, after in pairwise(titles):
        n = counted[name]
        stage = Stage(
            name, titles[name], n, now.get(name, 0), on_way.get(name, 0), min(out.get(name, 0), n)
        )
        is_known = name != OPENED or opened["n"] >= n_came
        found.append(_with_left(stage, counted[after]) if is_known else stage)
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
