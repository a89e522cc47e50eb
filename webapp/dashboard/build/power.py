"""Statistical power of a study's planned number of ratings.

It gives the smallest detectable difference, and the number of ratings that detects half a point. The plan is that of
the page of comparisons (`evaluation.analysis.planning`): power of t-tests for every pair of bots, at the level that
decides which bot is better, shared among the pairs, for the pair with the largest spread of ratings. The spread is
that of the newest ratings here on an equally wide scale; without any, a usual one is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from django.core.cache import cache
from django.db.models import QuerySet

from evaluation.analysis.planning import RaterPlan, plan_assumed, plan_raters, prediction_worth
from webapp.conversations.models import Conversation
from webapp.ratings.selectors import study_ratings, study_whole
from webapp.runs.selectors.fits import fit_leading
from webapp.studies.models import Study

HALF = 0.5
_USUAL_SHARE = 0.23
"""Of a scale's width: 1.4 points from 1 to 7."""
_NEWEST = 300
_KEPT_S = 600


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the ratings of one bot.

    Attributes:
        plan: plan with this spread, for the number of bots rated in that study.
        study: key of the study that it was measured in; empty if it is assumed.
    """

    plan: RaterPlan
    study: str = ""

    @property
    def sd(self) -> float:
        """The standard deviation of the pair of bots that spreads most, in points."""
        return round(self.plan.pairs[0].sd, 2)


@dataclass(frozen=True, slots=True)
class Reach:
    """Planned number of ratings and its statistical power.

    Attributes:
        n: planned ratings per bot; 0 without a plan.
        difference: smallest difference that n ratings detect with 80 % power; None without a plan.
        for_half: ratings per bot that detect half a point; None if no number does.
        with_prediction: ratings that a further bot needs with the hybrid fit's predictions; None without a fit.
        n_bots, n_pairs: numbers of bots and pairs compared.
        alpha: probability of any wrong order among all pairs.
    """

    spread: Spread
    n: int
    difference: float | None
    for_half: int | None
    with_prediction: int | None
    n_bots: int
    n_pairs: int
    alpha: float


def reach_of(study: Study, width: float) -> Reach | None:
    """Return the power of the study's plan, or None if it compares no two bots.

    Args:
        width: width in points of the scale that bots are ranked by.
    """
    n_bots = len(study.bots)
    if n_bots < 2 or width <= 0:
        return None
    values = study.values
    n = values.assignment.max_per_bot or values.quotas.n_conversations_wanted // n_bots
    spread = spread_for(study, width)
    plan = _planned(spread.plan, n_bots, n)
    need = plan.rows[0].independent
    for_half = None if need is None else need.n
    return Reach(
        spread=spread,
        n=n,
        difference=plan.detectable,
        for_half=for_half,
        with_prediction=None if for_half is None else _with_prediction(study, for_half),
        n_bots=n_bots,
        n_pairs=plan.n_comparisons,
        alpha=plan.alpha,
    )


@lru_cache(maxsize=512)
def _planned(plan: RaterPlan, n_bots: int, n: int) -> RaterPlan:
    return plan.for_study(n_bots, n, [HALF])


def _with_prediction(study: Study, n: int) -> int | None:
    """Return the ratings that a further bot needs with predictions, or None without a usable fit.

    A hybrid fit of another study does not count: it predicts no values here.
    """
    fit = fit_leading(study)
    if fit is None or not fit.result:
        return None
    worth = prediction_worth(fit.result, study_whole(study))
    return None if worth is None else worth.left(n)


def spread_for(study: Study, width: float) -> Spread:
    """Return the spread of ratings: this study's, else the newest on an equally wide scale, else a usual one."""
    key = f"spread:{study.pk}:{width:g}"
    found: Spread | None = cache.get(key)
    if found is None:
        found = _spread(study, width)
        cache.set(key, found, _KEPT_S)
    return found


def _spread(study: Study, width: float) -> Spread:
    rated = Conversation.objects.filter(
        state=Conversation.State.COMPLETED, is_synthetic=False, study__isnull=False
    )
    newest = rated.exclude(study=study).order_by("-created_at").values_list("study", flat=True)
    for study_id in dict.fromkeys([study.pk, *newest[:1]]):
        other = Study.objects.get(pk=study_id)
        plan = _measured(other, rated.filter(study=study_id), width)
        if plan is not None:
            return Spread(plan, other.key)
    return Spread(plan_assumed(_USUAL_SHARE * width, width))


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
    return plan_assumed(plan.sd, plan.reach)  # one bot is rated, controls aside
