"""What a planned number of ratings can show: which difference is told apart, and how many tell half a point.

Power of t-tests for every pair of bots, the level shared among the pairs, as on the page of comparisons. The
spread is that of the newest ratings here on a scale as wide; without any, a usual one is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from django.core.cache import cache
from django.db.models import QuerySet

from evaluation.analysis.planning import pooled_sd
from evaluation.stats.sample_size import detectable_difference, n_pairs, raters_needed
from webapp.conversations.models import Conversation
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study

HALF = 0.5
POWER = 0.8
_USUAL_SHARE = 0.23
"""Of a scale's width: 1.4 points from 1 to 7."""
_NEWEST = 300
_KEPT_S = 600


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of ratings of one bot.

    Attributes:
        sd: in points.
        study: key of the study it was measured in; empty if it is assumed.
    """

    sd: float
    study: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is planned, and what it shows.

    Attributes:
        n: ratings a bot that are planned; 0 without a plan.
        difference: the smallest that n show in 8 studies out of 10; None without a plan.
        for_half: ratings a bot that tell half a point apart; None where no number does.
        n_bots, n_pairs: how many are compared.
    """

    spread: Spread
    n: int
    difference: float | None
    for_half: int | None
    n_bots: int
    n_pairs: int


def reach_of(study: Study, width: float) -> Reach | None:
    """Return what the study's plan shows; None where no two bots are compared.

    Args:
        width: of the scale that bots are ranked by, in points.
    """
    n_bots = len(study.bots)
    if n_bots < 2 or width <= 0:
        return None
    values = study.values
    n = values.assignment.max_per_bot or values.quotas.n_conversations_wanted // n_bots
    spread = spread_for(study, width)
    pairs = n_pairs(n_bots)
    return Reach(
        spread=spread,
        n=n,
        difference=_shown_by(n, spread.sd, pairs) if n >= 2 else None,
        for_half=_needed(HALF, spread.sd, pairs),
        n_bots=n_bots,
        n_pairs=pairs,
    )


@lru_cache(maxsize=512)
def _shown_by(n: int, sd: float, pairs: int) -> float:
    return detectable_difference(n, sd, power=POWER, n_comparisons=pairs)


@lru_cache(maxsize=512)
def _needed(difference: float, sd: float, pairs: int) -> int | None:
    return raters_needed(difference, sd, power=POWER, n_comparisons=pairs).n


def spread_for(study: Study, width: float) -> Spread:
    """Return the spread of this study's own ratings, else of the newest study's on a scale as wide, else a usual one."""
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
        sd = _measured(other, rated.filter(study=study_id), width)
        if sd is not None:
            return Spread(round(sd, 2), other.key)
    return Spread(round(_USUAL_SHARE * width, 2))


def _measured(study: Study, rated: QuerySet[Conversation], width: float) -> float | None:
    ids = list(rated.order_by("-created_at").values_list("pk", flat=True)[:_NEWEST])
    if len(ids) < 20:
        return None
    ratings = study_ratings(study, only=[str(pk) for pk in ids])
    leading = ratings.leading
    if leading is None or leading.high - leading.low != width:
        return None
    values = ratings.values()
    return pooled_sd(ratings.where(values == values))
