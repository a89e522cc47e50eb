"""Coverage of one mean's interval in simulated studies: few in the suite, all in `tests.validation.coverage`."""

from collections.abc import Callable
from functools import cache

import numpy as np

from evaluation.stats.means import mean_interval

SCALE = (1.0, 5.0)


def even(n_raters: int) -> np.ndarray:
    """Return how many ratings each rater gives: three."""
    return np.full(n_raters, 3)


def uneven(n_raters: int) -> np.ndarray:
    """Return from twelve ratings down to one."""
    return np.maximum(1, np.round(np.geomspace(12, 1, n_raters))).astype(int)


def one(n_raters: int) -> np.ndarray:
    """Return half of all ratings for the first rater, one for each other."""
    return np.r_[n_raters - 1, np.ones(n_raters - 1, dtype=int)]


def alone(n_raters: int) -> np.ndarray:
    """Return one rating of each rater, as items have."""
    return np.ones(n_raters, dtype=int)


def free(rng: np.random.Generator, raters: np.ndarray) -> np.ndarray:
    """Return ratings without ends, half of whose variance is the raters'."""
    return rng.normal(0, 0.7, raters.max() + 1)[raters] + rng.normal(0, 0.7, len(raters))


def rounded(centre: float) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """Return what draws ratings in whole points of a scale of 1 to 5; a third of their variance is the raters'."""

    def drawn(rng: np.random.Generator, raters: np.ndarray) -> np.ndarray:
        inner = rng.normal(0, 0.6, raters.max() + 1)[raters] + rng.normal(0, 0.8, len(raters))
        return np.clip(np.round(centre + inner), *SCALE)

    return drawn


DESIGNS = {
    f"{draws}, {sizes.__name__}": (draws, sizes)
    for draws in ("free", "4.0 of 5", "4.6 of 5")
    for sizes in (even, uneven, one, alone)
}
_DRAWN = {"free": free, "4.0 of 5": rounded(4.0), "4.6 of 5": rounded(4.7)}


@cache
def true_mean(draws: str) -> float:
    """Return the mean of very many raters."""
    if draws == "free":
        return 0.0
    return float(_DRAWN[draws](np.random.default_rng(0), np.arange(4_000_000)).mean())


def held(design: str, n_raters: int, level: float, n_studies: int, seed: int = 3) -> tuple[float, float]:
    """Return in what share of studies the interval held the mean of all raters, and its mean width."""
    draws, sizes = DESIGNS[design]
    raters = np.repeat(np.arange(n_raters), sizes(n_raters))
    rng, truth = np.random.default_rng(seed), true_mean(draws)
    scale = None if draws == "free" else SCALE
    inside, width = 0, 0.0
    for _ in range(n_studies):
        result = mean_interval(_DRAWN[draws](rng, raters), raters, level, scale=scale)
        inside += result.low <= truth <= result.high
        width += result.high - result.low
    return inside / n_studies, width / n_studies


def held_crossed(
    n_raters: int, n_things: int, spreads: tuple[float, float], level: float, n_studies: int, seed: int = 1
) -> tuple[float, float]:
    """Return the same where everybody rates the same things, and both raters and things differ.

    Args:
        spreads: standard deviation of raters and of things, beside .7 of a rating.
    """
    raters, things = (np.repeat(np.arange(n_raters), n_things), np.tile(np.arange(n_things), n_raters))
    rng = np.random.default_rng(seed)
    inside, width = 0, 0.0
    for _ in range(n_studies):
        of_raters = rng.normal(0, spreads[0], n_raters)[raters]
        values = of_raters + rng.normal(0, spreads[1], n_things)[things]
        result = mean_interval(values + rng.normal(0, 0.7, len(values)), raters, level, things=things)
        inside += result.low <= 0 <= result.high
        width += result.high - result.low
    return inside / n_studies, width / n_studies
