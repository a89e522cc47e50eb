"""Intervals between percentiles of resamples, as far apart as few units need.

Resamples of n units spread as little as the standard deviation that divides by n, and their percentiles are those of
a normal distribution, so that with few units they lie too close together. Percentiles further out make up for both:
√(n / (n − 1)) times Student's t with n − 1 degrees of freedom, as a probability of the normal distribution
(Hesterberg, 2015, What Teachers Should Know About the Bootstrap, The American Statistician 69, section 5.3). They
never leave the range of the statistic. Means need no resamples (`intervals`).
"""

from __future__ import annotations

import numpy as np


def expanded(level: float, n_units: int) -> tuple[float, float]:
    """Return the quantiles of resamples between which an interval lies.

    Args:
        level: of the interval; n_units: two or more units that were resampled.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(np.sqrt(n_units / (n_units - 1)) * stdtrit(n_units - 1, 0.5 - level / 2)))
    return tail, 1 - tail


def interval_of_draws(
    draws: np.ndarray, n_units: int, level: float, n_drawn: int | None = None
) -> tuple[float, float] | None:
    """Return the ends of the interval; None for one unit, or where fewer than half of the resamples are defined.

    Args:
        draws: (B,) of a statistic, NaN where it is undefined.
        n_drawn: how many were drawn, where undefined ones were left out already.
    """
    defined = draws[np.isfinite(draws)]
    if n_units < 2 or not len(defined) or len(defined) < (n_drawn or len(draws)) / 2:
        return None
    low, high = np.quantile(defined, expanded(level, n_units))
    return float(low), float(high)
