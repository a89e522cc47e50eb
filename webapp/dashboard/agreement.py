"""How a study's answers spread, which dimensions move together, whether raters agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from evaluation.ratings import Dimension, Ratings
from evaluation.stats.correlation import Correlation
from webapp.dashboard.plots.likert import Spread
from webapp.ratings.bots import BotInfo, study_bots
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study

_MOST_STEPS = 11


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the page shows.

    Attributes:
        dimension: the one whose answers are spread out.
        steps: values of its scale.
        correlations: Spearman by (row, column) of `dimensions`.
        n_shared: conversations rated by two or more.
        agreement: mean difference between two raters of one conversation on the scale, and what two
            strangers differ; None without shared conversations.
    """

    dimensions: list[Dimension]
    dimension: Dimension
    steps: list[float]
    spreads: list[Spread]
    correlations: dict[tuple[int, int], Correlation]
    n_ratings: int
    n_conversations: int
    n_shared: int
    difference: float | None
    difference_by_chance: float | None


def with_link(spread: Spread, href: str) -> Spread:
    """Return the spread with an address behind its marks."""
    return replace(spread, href=href)


def study_agreement(study: Study, chosen: str, *, include_synthetic: bool) -> Agreement | None:
    """Return everything on the agreement page; None without a rating."""
    ratings = study_ratings(study, include_synthetic=include_synthetic)
    dimensions = list(ratings.dimensions)
    if not dimensions or not len(ratings):
        return None
    dimension = next((d for d in dimensions if d.key == chosen), dimensions[0])
    values = ratings.values(dimension.key)
    steps = steps_of(dimension, values)
    bots = study_bots(study)
    spreads = [spread_of(bot, values[ratings.bot == bot_id], steps) for bot_id, bot in bots.items()]
    spreads.sort(key=lambda s: (float("inf") if s.mean is None else -s.mean, s.bot.slot))
    n_shared, within, between = _pairs(ratings.once(), dimension.key)
    return Agreement(
        dimensions=dimensions,
        dimension=dimension,
        steps=steps,
        spreads=spreads,
        correlations=dimension_correlations(ratings),
        n_ratings=len(ratings),
        n_conversations=ratings.n_conversations,
        n_shared=n_shared,
        difference=within,
        difference_by_chance=between,
    )


def spread_of(bot: BotInfo, values: np.ndarray, steps: Sequence[float]) -> Spread:
    """Count how often a bot got each answer; values between two steps count for the nearer one."""
    mine = values[np.isfinite(values)]
    nearest = np.abs(mine[:, None] - np.asarray(steps, dtype=float)).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(steps)).tolist()
    return Spread(bot, counts, float(mine.mean()) if len(mine) else None)


def steps_of(dimension: Dimension, values: np.ndarray) -> list[float]:
    """Return the whole steps of the scale; else the values seen; else the middles of eleven equal bins."""
    if float(dimension.low).is_integer() and dimension.high - dimension.low < _MOST_STEPS:
        n = int(dimension.high - dimension.low)
        return [dimension.low + i for i in range(n + 1)]
    seen = sorted(set(values[np.isfinite(values)].tolist()))
    if 0 < len(seen) <= _MOST_STEPS:
        return seen
    return [float(v) for v in np.linspace(dimension.low, dimension.high, _MOST_STEPS).round(2)]


def dimension_correlations(ratings: Ratings) -> dict[tuple[int, int], Correlation]:
    """Correlate dimensions by Spearman, keyed by (row, column), over conversations with their ratings averaged.

    Intervals are Fisher's.
    """
    from evaluation.stats.correlation import correlate

    means = ratings.per_conversation()
    return {
        (i, j): correlate(
            means[a.key].to_numpy(), means[b.key].to_numpy(), "spearman", interval="fisher"
        )
        for (i, a), (j, b) in combinations(enumerate(ratings.dimensions), 2)
    }


def _pairs(ratings: Ratings, key: str) -> tuple[int, float | None, float | None]:
    """Return how many conversations are shared, and mean absolute differences.

    Returns:
        The number of conversations with several ratings; the mean absolute difference within them, and
        between any two ratings. The differences are None where no conversation is shared.
    """
    groups: dict[str, list[float]] = {}
    for conversation, value in zip(ratings.conversation, ratings.values(key).tolist(), strict=True):
        if value == value:
            groups.setdefault(conversation, []).append(value)
    shared = [np.sort(np.array(group)) for group in groups.values() if len(group) > 1]
    if not shared:
        return 0, None, None
    sums = [_mean_difference(group) for group in shared]
    everything = np.sort(np.concatenate([np.array(group) for group in groups.values()]))
    return len(shared), float(np.mean(sums)), _mean_difference(everything)


def _mean_difference(ordered: np.ndarray) -> float:
    """Return the mean absolute difference of all pairs of a sorted array."""
    n = len(ordered)
    weights = 2 * np.arange(n) - n + 1
    return float((weights * ordered).sum() / (n * (n - 1) / 2))
