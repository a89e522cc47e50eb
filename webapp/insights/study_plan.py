"""Plan of a study: participants wanted, cost and power.

Power: the smallest detectable difference, and the number of ratings that detects the one of interest. The plan is that
of the page of comparisons (`evaluation.analysis.planning`): power of t-tests for all pairs of bots at the study's
level, which the pairs share, for the pair with the largest spread of ratings. The spread is that of the newest ratings
on an equally wide scale; without any, a typical value is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from django.core.cache import cache
from django.db.models import QuerySet

from evaluation.analysis.levels import order_alpha
from evaluation.analysis.planning import RaterPlan, plan_assumed, plan_raters, prediction_worth
from evaluation.data.ratings import SMALLEST_SHARE
from webapp.conversations.models import Conversation
from webapp.jobs.selectors.fits import fit_leading
from webapp.ratings.selectors import study_ratings, study_whole
from webapp.studies.models import Outcome, Study, Task
from webapp.studies.recruitment.completion import pay_in_all


@dataclass(frozen=True, slots=True)
class Cost:
    """Amounts in the study's currency.

    Attributes:
        each: pay per task; None while it is missing.
        an_hour: pay per hour; None while pay or minutes are missing.
        people, fee: total for all wanted participants; None while pay or their number is missing.
        n: number of participants wanted.
    """

    currency: str
    each: float | None
    an_hour: float | None
    people: float | None
    fee: float | None
    n: int

    @property
    def in_all(self) -> float | None:
        """Pay and fee together."""
        return None if self.people is None or self.fee is None else self.people + self.fee


def cost_of(study: Study, n_tasks: int | None = None) -> Cost:
    """Return the study's cost if each wanted task is done once.

    Args:
        n_tasks: number of tasks, in place of the wanted ones.
    """
    recruitment, minutes = study.values.recruitment, study.values.texts.minutes
    in_all, n = pay_in_all(study.values), n_wanted(study) if n_tasks is None else n_tasks
    each = in_all / (len(study.values.sittings.parts) or 1) if in_all is not None else None
    people = each * n if each is not None and n else None
    return Cost(
        currency=recruitment.currency,
        each=each,
        an_hour=each / minutes * 60 if each is not None and minutes else None,
        people=people,
        fee=people * recruitment.fee_share if people is not None else None,
        n=n,
    )


def n_wanted(study: Study) -> int:
    """Return the total number of tasks wanted; 0 without a limit."""
    values = study.values
    n_conversations = values.quotas.n_conversations_wanted
    by_bot = [values.assignment.quota_of(bot_id) for bot_id in study.bots]
    limits = [quota for quota in by_bot if quota is not None]
    all_bots = sum(limits) if limits and len(limits) == len(by_bot) else 0
    return min(n_conversations, all_bots) if n_conversations and all_bots else n_conversations or all_bots


_USUAL_SHARE = 0.23
"""Assumed standard deviation as a share of the scale's width: 1.4 points from 1 to 7."""
_NEWEST = 300
_KEPT_S = 600


@dataclass(frozen=True, slots=True)
class RatingSpread:
    """Spread of the ratings of one bot.

    Attributes:
        plan: plan with this spread, for the number of bots in that study.
        study: key of the study that it was measured in; empty if it is assumed.
        is_given: True if the researcher entered it.
        unusable: key of a study that was chosen for planning but lacks ratings on an equally wide scale.
    """

    plan: RaterPlan
    study: str = ""
    is_given: bool = False
    unusable: str = ""

    @property
    def sd(self) -> float:
        """Standard deviation of the pair with the largest spread, in points."""
        return round(self.plan.pairs[0].sd, 2)


@dataclass(frozen=True, slots=True)
class Reach:
    """Planned number of ratings and its statistical power.

    Attributes:
        n: planned ratings per bot; 0 without a plan.
        difference: smallest difference that n ratings detect with 80 % power; None without a plan.
        smallest: smallest difference of interest, in points.
        for_smallest: ratings per bot that detect this difference; None if no number does.
        with_prediction: ratings that a further bot needs with the hybrid fit's predictions; None without a fit.
        n_bots, n_pairs: numbers of bots and pairs compared.
        alpha: probability of any wrong order among all pairs.
        n_minutes: total time of all participants, in minutes; 0 without a plan.
        hours: time until all have finished, at the pace of the study that the spread comes from; None if unknown.
    """

    spread: RatingSpread
    n: int
    difference: float | None
    smallest: float
    for_smallest: int | None
    with_prediction: int | None
    n_bots: int
    n_pairs: int
    alpha: float
    n_minutes: int = 0
    hours: float | None = None


def reach_of(study: Study, width: float) -> Reach | None:
    """Return the power of the study's plan.

    None if it compares no two bots.

    Args:
        width: width in points of the scale that bots are ranked by.
    """
    n_bots = len(study.bots)
    if n_bots < 2 or width <= 0:
        return None
    values = study.values
    n_chats = values.quotas.n_conversations_wanted * values.assignment.bots_in_a_row
    n = values.assignment.max_per_bot or n_chats // n_bots
    spread = spread_for(study, width)
    smallest = values.quotas.smallest_difference or SMALLEST_SHARE * width
    plan = _planned(replace(spread.plan, alpha=order_alpha(values.quotas.level)), n_bots, n, smallest)
    need = plan.rows[0].independent
    for_smallest = None if need is None else need.n
    return Reach(
        spread=spread,
        n=n,
        difference=plan.detectable,
        smallest=smallest,
        for_smallest=for_smallest,
        with_prediction=None if for_smallest is None else _with_prediction(study, for_smallest),
        n_bots=n_bots,
        n_pairs=plan.n_comparisons,
        alpha=plan.alpha,
        n_minutes=n_wanted(study) * values.texts.minutes,
        hours=_hours_at_pace(spread.study, n_wanted(study)),
    )


_LEAST_FOR_PACE = 10


def _hours_at_pace(key: str, n_tasks: int) -> float | None:
    """Return the hours that so many tasks take at the pace of a study's newest ones; None if unknown."""
    tasks = Task.objects.filter(participant__study__key=key, participant__is_synthetic=False, outcome=Outcome.RATED)
    newest = tasks.order_by("-ended_at").values_list("ended_at", flat=True)[:_NEWEST] if key and n_tasks else ()
    times = [time for time in newest if time is not None]
    if len(times) < _LEAST_FOR_PACE or times[0] == times[-1]:
        return None
    return float((times[0] - times[-1]).total_seconds() / 3600 / (len(times) - 1) * n_tasks)


@lru_cache(maxsize=512)
def _planned(plan: RaterPlan, n_bots: int, n: int, smallest: float) -> RaterPlan:
    return plan.for_study(n_bots, n, [smallest])


def _with_prediction(study: Study, n: int) -> int | None:
    """Return the ratings that a further bot needs with predictions.

    None without a usable fit.

    A hybrid fit of another study does not count: it predicts no values here.
    """
    fit = fit_leading(study)
    if fit is None or not fit.result:
        return None
    worth = prediction_worth(fit.result, study_whole(study))
    return None if worth is None else worth.count_remaining(n)


def spread_for(study: Study, width: float) -> RatingSpread:
    """Return the spread of ratings for planning.

    It is that of this study, else that of the newest study with an equally wide scale, else a typical value.
    """
    quotas = study.values.quotas
    if quotas.planned_sd is not None:
        return RatingSpread(plan_assumed(quotas.planned_sd, width), is_given=True)
    key = f"spread:{study.pk}:{width:g}:{quotas.spread_of}"
    spread: RatingSpread | None = cache.get(key)
    if spread is None:
        spread = _spread(study, width)
        cache.set(key, spread, _KEPT_S)
    return spread


def _spread(study: Study, width: float) -> RatingSpread:
    rated = Conversation.objects.filter(state=Conversation.State.COMPLETED, is_synthetic=False, study__isnull=False)
    newest = rated.exclude(study=study).order_by("-created_at").values_list("study", flat=True)
    chosen = study.values.quotas.spread_of
    first = Study.objects.filter(key=chosen).values_list("pk", flat=True) if chosen else ()
    unusable = ""
    for study_id in dict.fromkeys([*first, study.pk, *newest[:1]]):
        rated_study = Study.objects.get(pk=study_id)
        plan = _measured(rated_study, rated.filter(study=study_id), width)
        if plan is not None:
            return RatingSpread(plan, rated_study.key, unusable=unusable)
        if rated_study.key == chosen:
            unusable = chosen
    return RatingSpread(plan_assumed(_USUAL_SHARE * width, width), unusable=unusable)


def _measured(study: Study, rated: QuerySet[Conversation], width: float) -> RaterPlan | None:
    ids = list(rated.order_by("-created_at").values_list("pk", flat=True)[:_NEWEST])
    if len(ids) < 20:
        return None
    ratings = study_ratings(study, only=[str(pk) for pk in ids])
    leading = ratings.leading
    if leading is None or leading.high - leading.low != width:
        return None
    plan = plan_raters(ratings)
    if plan.pairs or plan.sd is None:
        return plan if plan.pairs else None
    return plan_assumed(plan.sd, plan.reach)  # one rated bot, besides controls
