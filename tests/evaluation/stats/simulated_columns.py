"""Skewed columns with mass at 0, as BLEU has over replies, beside ratings: do p and the interval hold their level?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from evaluation.stats.correlation import Method, correlate

LEVEL = 0.95
DESIGNS = ((20, 1, 0.8, 1.0), (30, 1, 0.9, 0.7), (30, 1, 0.9, 1.0), (50, 3, 0.9, 2.0), (150, 1, 0.5, 1.0))
"""Contexts, replies to each, share of zeros, and the standard deviation of the logarithm of the others, 1 at most."""
_MANY = 400_000


@dataclass(frozen=True, slots=True)
class Held:
    """How often an interval held the truth.

    Attributes:
        n: studies with an interval, of all that were simulated.
        told: studies with p < .05.
        contrary: studies whose p and interval say different things.
    """

    n: int
    held: int
    told: int
    contrary: int
    width: float


def draw(
    rng: np.random.Generator, design: tuple[int, int, float, float], slope: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a column, ratings that grow with what is not 0, and the contexts, which raise all their ratings alike."""
    n_contexts, n_each, zeros, sigma = design
    n = n_contexts * n_each
    size = rng.normal(size=n)
    x = np.where(rng.random(n) < zeros, 0.0, np.minimum(0.2 * np.exp(sigma * size), 1.0))
    y = slope * np.where(x > 0, 1 + size, -0.2) + rng.normal(size=n)
    return x, y + np.repeat(rng.normal(0, 0.7, n_contexts), n_each), np.repeat(np.arange(n_contexts), n_each)


def held(design: tuple[int, int, float, float], slope: float, method: Method, n_studies: int, seed: int = 3) -> Held:
    """Simulate studies of a design."""
    rng = np.random.default_rng(seed)
    x, y, _contexts = draw(rng, (_MANY, 1, *design[2:]), slope)
    true = np.corrcoef(*([x, y] if method == "pearson" else map(rankdata, (x, y))))[0, 1] if slope else 0.0
    n = within = told = contrary = 0
    width = 0.0
    for _ in range(n_studies):
        x, y, contexts = draw(rng, design, slope)
        result = correlate(x, y, method, level=LEVEL, units=contexts)
        if result.low is None:
            assert result.p is None
            continue
        n += 1
        within += result.low <= true <= result.high
        told += result.p < 1 - LEVEL
        contrary += (result.p < 1 - LEVEL) == (result.low <= 0 <= result.high)
        width += result.high - result.low
    return Held(n, within, told, contrary, width / max(n, 1))
