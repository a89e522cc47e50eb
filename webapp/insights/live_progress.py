"""Progress of a study that collects: totals, current steps, pace, and cost.

Totals read every task, so their cost grows with the study. In a large study the totals are reused for twenty times as
long as they took: an open page costs at most a twentieth of a core, and its numbers are some seconds old.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.core.cache import cache
from django.db.models import Case, Count, Max, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce, TruncHour
from django.utils import timezone

from evaluation.stats.means import share_interval
from webapp.bots.models import Spending
from webapp.bots.selectors import spending_spent
from webapp.core.clock import database_now
from webapp.insights.study_plan import Cost, cost_of
from webapp.pay.submissions import pay_owed
from webapp.ratings.paired_comparisons import answers_counted
from webapp.studies.models import LinkCount, Outcome, Study, Task, TaskCount, Whereabouts
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.links import SCRIPTS_FAILED
from webapp.studies.selectors import steps_asked

OUT = (Outcome.BOT_FAILED, Outcome.SCREENED_OUT, Outcome.FAILED_CHECK)
"""Outcomes not caused by the participant, and failed checks."""
LARGE = 2000
"""Minimum number of tasks from which a count is reused,"""
_REUSED_FOR = 20
"""for this many times its computing time,"""
_LONGEST_S = 60.0
"""but never longer than this."""


@dataclass(frozen=True, slots=True)
class StudyTotals:
    """Counts of all visitors.

    Attributes:
        agreed, done: participants; `reached`: participants by step that they ever reached.
        ended: participants whose only outcome was one of `OUT`, by their furthest step; "" means before the first step.
        outcomes: tasks by outcome.
        n_opened: openings of the link; one person may open it several times.
        refused: openings where nobody could begin, and pages whose scripts failed, by the reason's code.
    """

    agreed: int
    done: int
    reached: Mapping[str, int]
    ended: Mapping[str, int]
    outcomes: dict[str, int]
    n_opened: int
    refused: dict[str, int]


def totals_of(study: Study, names: Sequence[str], *, include_synthetic: bool) -> StudyTotals:
    """Return the study's counts.

    Those of a large study may be some seconds old.

    Args:
        names: steps to count, in order.
    """
    key = f"live-totals/{study.pk}/{include_synthetic}/{','.join(names)}"
    known: StudyTotals | None = cache.get(key)
    if known is not None:
        return known
    started = time.monotonic()
    totals = _count_totals(study, names, include_synthetic)
    if sum(totals.outcomes.values()) >= LARGE:
        took_s = time.monotonic() - started
        cache.set(key, totals, timeout=min(_REUSED_FOR * took_s, _LONGEST_S))
    return totals


def _count_totals(study: Study, names: Sequence[str], include_synthetic: bool) -> StudyTotals:
    tasks = Task.objects.filter(participant__study=study)
    openings = LinkCount.objects.filter(study=study)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
        openings = openings.filter(is_synthetic=False)
    by_reason = dict(openings.order_by().values_list("refused").annotate(times=Sum("n")))
    return StudyTotals(
        **_of_people(tasks, names),
        n_opened=sum(by_reason.values()) - sum(by_reason.get(code, 0) for code in SCRIPTS_FAILED),
        refused={code: n for code, n in by_reason.items() if code},
    )


def _of_people(tasks: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return each participant's furthest step, and all task counts.

    This takes one query.
    """
    last = len(names) + 1
    step = Case(
        *(When(whereabouts__furthest=name, then=Value(i)) for i, name in enumerate(names, start=1)), default=Value(0)
    )
    of_outcome = {f"n_{name}": Count("pk", filter=Q(outcome=name)) for name in Outcome.values}
    people = (
        tasks.order_by()
        .values("participant")
        .annotate(
            at=Max(
                Case(When(outcome=Outcome.RATED, then=Value(last)), default=step), filter=~Q(outcome=Outcome.NO_CONSENT)
            ),
            out_at=Max(step, filter=Q(outcome__in=OUT)),
            **of_outcome,
        )
    )
    sums = people.aggregate(
        agreed=Count("participant", filter=Q(at__gte=0)),
        done=Count("participant", filter=Q(at=last)),
        **{f"at_{i}": Count("participant", filter=Q(at__gte=i)) for i in range(1, last)},
        **{f"out_{i}": Count("participant", filter=Q(out_at=i) & ~Q(at=last)) for i in range(last)},
        **{f"all_{name}": Coalesce(Sum(f"n_{name}"), 0) for name in Outcome.values},
    )
    return {
        "agreed": sums["agreed"],
        "done": sums["done"],
        "reached": {name: sums[f"at_{i}"] for i, name in enumerate(names, start=1)},
        "ended": {name: sums[f"out_{i}"] for i, name in enumerate(["", *names])},
        "outcomes": {name: sums[f"all_{name}"] for name in Outcome.values if sums[f"all_{name}"]},
    }


QUIET = timedelta(minutes=15)
"""Participants without activity for this long have left."""
OPENED, AGREED, DONE = "opened", "agreed", "done"
_NOT_COUNTED = ("consent", "instructions", "done")
"""Steps covered by other stages: the first page by opened and agreed."""
_TITLES = {"questions": "Questions", "practice": "Practice", "quiz": "Quiz"}
"""Steps that share a heading with others."""


@dataclass(frozen=True, slots=True)
class FunnelStage:
    """Stage of a study's funnel.

    Attributes:
        n: participants who ever reached it; for the link, the number of openings.
        now: participants who are there now.
        on_way: active participants who got no further yet, even if they have gone back.
        ended: participants who were stopped there by a failed bot or a check, or, at the link, declined. They did not
            leave.
        n_left: participants who left there; None at the link and at the end.
        low, high: ends of the 95 % interval of `share`.
    """

    name: str
    title: Any
    n: int
    now: int = 0
    on_way: int = 0
    ended: int = 0
    n_left: int | None = None
    low: float | None = None
    high: float | None = None

    @property
    def share(self) -> float | None:
        """Share of participants who left, among those who left or continued.

        None if it is undefined.
        """
        at_risk = self.n - self.on_way - self.ended
        return self.n_left / at_risk if self.n_left is not None and at_risk > 0 else None


@dataclass(frozen=True, slots=True)
class ParticipantProgress:
    """Progress of all visitors.

    Attributes:
        stages: from the opened link to the end.
        totals: totals that the stages are computed from.
    """

    stages: tuple[FunnelStage, ...]
    totals: StudyTotals

    @property
    def n_inside(self) -> int:
        """Number of participants who have consented and are active now."""
        return sum(stage.now for stage in self.stages if stage.name != OPENED)

    @property
    def n_done(self) -> int:
        """Number of participants who have finished."""
        return self.stages[-1].n

    @property
    def n_agreed(self) -> int:
        """Number of participants who have consented."""
        return self.stages[1].n


def participant_progress(study: Study, *, include_synthetic: bool, now: datetime) -> ParticipantProgress:
    """Return the progress of participants, with scripted ones on request."""
    names = step_names(study)
    since = now - QUIET
    totals = totals_of(study, names, include_synthetic=include_synthetic)
    inside = _inside(study, since, include_synthetic=include_synthetic)
    return ParticipantProgress(_stages(study, names, totals, inside), totals)


def step_names(study: Study) -> list[str]:
    """Return the steps that have their own stages, in order."""
    return [name for name in steps_asked(study) if name not in _NOT_COUNTED]


def _inside(study: Study, since: datetime, *, include_synthetic: bool) -> tuple[Counter[str], Counter[str]]:
    """Count active participants by current and by furthest step.

    Three queries find activity by an index on time, because many tasks of participants who left stay open.
    """
    tasks = Task.objects.filter(participant__study=study, state=Task.State.OPEN)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    looked = Whereabouts.objects.filter(study=study, seen_at__gte=since)
    columns = ("pk", "whereabouts__step", "whereabouts__furthest")
    ways = (
        tasks.filter(updated_at__gte=since),
        tasks.filter(pk__in=looked.values("task")),
        tasks.filter(slots__chat__state="open", slots__chat__source="chat", slots__chat__updated_at__gte=since),
    )
    first, *further_ways = (way.order_by().values_list(*columns) for way in ways)
    rows = list(first.union(*further_ways))
    return (
        Counter(step or AGREED for _pk, step, _furthest in rows),
        Counter(furthest or AGREED for _pk, _step, furthest in rows),
    )


def _stages(
    study: Study, names: Sequence[str], totals: StudyTotals, inside: tuple[Mapping[str, int], Mapping[str, int]]
) -> tuple[FunnelStage, ...]:
    headings = {step.name: step.heading for step in protocols.get(study.protocol).steps}
    titles: dict[str, Any] = {
        OPENED: "Link opened",
        AGREED: "Agreed",
        **{name: _TITLES.get(name, headings[name]) for name in names},
        DONE: "Done",
    }
    counts = {AGREED: totals.agreed, **totals.reached, DONE: totals.done}
    now, on_way, out = (_by_stage(step_counts, names) for step_counts in (*inside, totals.ended))
    # Openings are not participants, so the funnel shows no one reading or leaving there.
    n_declined = totals.outcomes.get(Outcome.NO_CONSENT, 0)
    stages = [FunnelStage(OPENED, titles.pop(OPENED), totals.n_opened, ended=n_declined)]
    for name, after in pairwise(titles):
        n = counts[name]
        stage = FunnelStage(name, titles[name], n, now.get(name, 0), on_way.get(name, 0), min(out.get(name, 0), n))
        stages.append(_with_left(stage, counts[after]))
    return (*stages, FunnelStage(DONE, titles[DONE], counts[DONE]))


def _by_stage(counts: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """Return counts by stage from counts by step.

    Steps without a stage belong to participants who have agreed.
    """
    stage_counts = {name: n for name, n in counts.items() if name in names}
    return {**stage_counts, AGREED: sum(n for name, n in counts.items() if name not in names)}


def _with_left(stage: FunnelStage, n_after: int) -> FunnelStage:
    """Return the stage with the participants who left, and their share's interval."""
    n_left = max(0, stage.n - n_after - stage.on_way - stage.ended)
    low, high = share_interval(n_left, max(n_left, stage.n - stage.on_way - stage.ended)) or (None, None)
    return replace(stage, n_left=n_left, low=low, high=high)


def now_rounded() -> datetime:
    """Return the time to the second.

    Several reads of one page share it.
    """
    return database_now().replace(microsecond=0)


HOURS = 8
_RATE_OVER = timedelta(hours=2)
_LEAST_FOR_RATE = 3


@dataclass(frozen=True, slots=True)
class Hour:
    """Number of ratings in one hour; `is_running` marks the current hour."""

    start: datetime
    n: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class RatingPace:
    """Pace of a study's ratings.

    Attributes:
        hours: the latest hours, the current one last.
        n_done, n_wanted: tasks that are completely rated, and tasks wanted; 0: no limit.
        hours_left: hours until all wanted tasks are done, at the pace of the last two hours; None if unknown.
    """

    hours: tuple[Hour, ...]
    n_done: int
    n_wanted: int
    hours_left: float | None

    @property
    def n_this_hour(self) -> int:
        """Ratings in the last full hour."""
        return self.hours[-2].n if len(self.hours) > 1 else 0


@dataclass(frozen=True, slots=True)
class Money:
    """Cost of the study so far, as far as Confab knows.

    Attributes:
        people: pay and fees for all work that was not rejected, plus bonuses; None without pay.
        bots: charges of endpoints, in the currency of their prices; None without any.
        planned: planned cost.
    """

    people: float | None
    bots: float | None
    planned: Cost


def pace_of(study: Study, people: ParticipantProgress, *, include_synthetic: bool, now: datetime) -> RatingPace:
    """Return the pace of the study's ratings."""
    ratings = answers_counted(study, include_synthetic=include_synthetic)
    tasks = Task.objects.filter(participant__study=study, outcome=Outcome.RATED)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    this = timezone.localtime(now).replace(minute=0, second=0, microsecond=0)
    starts = [this - timedelta(hours=back) for back in reversed(range(HOURS))]
    counts_by_hour = dict(
        ratings.filter(submitted_at__gte=starts[0])
        .order_by()
        .values_list(TruncHour("submitted_at"))
        .annotate(n=Count("pk"))
    )
    hours = tuple(Hour(start, counts_by_hour.get(start, 0), start == this) for start in starts)
    n_done, planned = people.totals.outcomes.get(Outcome.RATED, 0), cost_of(study).n
    n_left, rate = planned - n_done, _hourly_rate(tasks, now)
    return RatingPace(hours, n_done, planned, n_left / rate if planned and n_left > 0 and rate else None)


def _hourly_rate(tasks: QuerySet[Task], now: datetime) -> float | None:
    """Return the number of these tasks per hour in the last two hours; None if there were too few."""
    n_lately = tasks.filter(ended_at__gte=now - _RATE_OVER).count()
    return n_lately / (_RATE_OVER.total_seconds() / 3600) if n_lately >= _LEAST_FOR_RATE else None


def tasks_per_hour(study: Study, now: datetime) -> float | None:
    """Return the participants' completed tasks per hour in the last two hours; None if there were too few."""
    return _hourly_rate(
        Task.objects.filter(participant__study=study, participant__is_synthetic=False, outcome=Outcome.RATED), now
    )


def completed_tasks(study: Study) -> int:
    """Return the number of tasks that participants have completed, from the stored count."""
    counts = TaskCount.objects.filter(study=study, is_synthetic=False, bot_id="", conversation=None, item=None)
    return counts.values_list("n_completed", flat=True).first() or 0


def money_of(study: Study) -> Money:
    """Return the study's cost so far.

    Scripted participants cost nothing.
    """
    planned, recruitment = cost_of(study), study.values.recruitment
    people = None
    if recruitment.pay_each is not None or any(part.pay is not None for part in study.values.sittings.parts):
        people = pay_owed(study) * (1 + recruitment.fee_share)
    spent = spending_spent(Spending.Of.STUDY, str(study.pk))
    return Money(people, spent or None, planned)
