"""Pace of a study's ratings, and its cost so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncHour
from django.utils import timezone

from webapp.bots.models import Spending
from webapp.bots.selectors import spending_spent
from webapp.dashboard.build.cost import Cost, cost_of
from webapp.dashboard.live.people import People
from webapp.dashboard.live.totals import Totals
from webapp.pay.models import Decision
from webapp.ratings.pairs import answers_counted
from webapp.studies.models import Outcome, Study, Task

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
class Pace:
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
        people: pay and fee of all work that earned it and was not rejected, plus bonuses; None without pay.
        bots: charges of endpoints, in the currency of their prices; None without charges.
        planned: cost by the plan.
    """

    people: float | None
    bots: float | None
    planned: Cost


def pace_of(study: Study, people: People, *, include_synthetic: bool, now: datetime) -> Pace:
    """Read how fast ratings come in."""
    ratings = answers_counted(study, include_synthetic=include_synthetic)
    tasks = Task.objects.filter(participant__study=study, outcome=Outcome.RATED)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    this = timezone.localtime(now).replace(minute=0, second=0, microsecond=0)
    starts = [this - timedelta(hours=back) for back in reversed(range(HOURS))]
    counted = dict(
        ratings.filter(submitted_at__gte=starts[0])
        .order_by()
        .values_list(TruncHour("submitted_at"))
        .annotate(n=Count("pk"))
    )
    hours = tuple(Hour(start, counted.get(start, 0), start == this) for start in starts)
    n_lately = tasks.filter(ended_at__gte=now - _RATE_OVER).count()
    n_done, planned = people.totals.outcomes.get(Outcome.RATED, 0), cost_of(study).n
    left = planned - n_done
    rate = n_lately / (_RATE_OVER.total_seconds() / 3600)
    is_known = planned and left > 0 and n_lately >= _LEAST_FOR_RATE
    return Pace(hours, n_done, planned, left / rate if is_known else None)


def money_of(study: Study, totals: Totals) -> Money:
    """Read what the study has cost so far.

    Args:
        totals: of people alone; scripted participants cost nothing.
    """
    planned, recruitment = cost_of(study), study.values.recruitment
    people = None
    if recruitment.pay_each is not None:
        decided = (
            Decision.objects.filter(participant__study=study)
            .exclude(state=Decision.State.UNDONE)
            .aggregate(
                rejected=Count("pk", filter=Q(action=Decision.Action.REJECT)),
                bonuses=Sum("amount", filter=Q(action=Decision.Action.BONUS)),
            )
        )
        pay = max(0, totals.n_visits - decided["rejected"]) * recruitment.pay_each
        if recruitment.pay_screened_out:
            pay += totals.outcomes.get(Outcome.SCREENED_OUT, 0) * recruitment.pay_screened_out
        people = (pay + float(decided["bonuses"] or 0)) * (1 + recruitment.fee_share)
    spent = spending_spent(Spending.Of.STUDY, str(study.pk))
    return Money(people, spent or None, planned)
