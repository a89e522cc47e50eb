"""Means with bootstrap intervals, resampling whole participants, raters or bots if asked.

Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 8 (clusters). Percentiles of resamples are
too close together where units are few, so those further out are taken: Hesterberg (2015), What Teachers Should Know About
the Bootstrap, The American Statistician 69, section 5.3 (expanded percentiles).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.reasons import Reason

NO_VALUE = Reason("no_value", "no value")
BOOTSTRAP_LIMIT = 2_500
"""With more units than this the interval is the normal distribution's: the two then agree, and resampling
takes long."""
_BLOCK = 4_000_000  # draws held at once: 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and how far it can be trusted.

    Attributes:
        mean: None without any value.
        low, high: ends of the interval; None where there is none.
        n: values used.
        reason: why something is missing.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    reason: Reason | None = None


def mean_interval(
    values: Sequence[float] | np.ndarray,
    groups: Sequence[Any] | None = None,
    level: float = 0.90,
    n: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return the mean of the finite values with an interval between expanded percentiles of its resamples.

    Args:
        values: (k,), NaN where undefined.
        groups: (k,) what is resampled whole, e.g. the participant of each rating: one person's ratings
            resemble each other, and treated as independent they would promise too much.
        level: of the interval.
        n: number of resamples.
        seed: of the resampling.
    """
    array = np.asarray(values, dtype=float)
    keep = np.isfinite(array)
    units = None if groups is None else np.asarray(groups, dtype=object)[keep]
    array = array[keep]
    if not len(array):
        return Interval(None, None, None, 0, NO_VALUE)
    mean = float(array.mean())
    sums, counts = unit_sums(array, units)
    if len(counts) < 2:
        alone = Reason("one_value", "one value: no interval")
        grouped = Reason("one_group", "all values of one group: no interval")
        return Interval(mean, None, None, len(array), alone if len(array) == 1 else grouped)
    if len(counts) > BOOTSTRAP_LIMIT:
        from scipy.special import ndtri

        half = float(ndtri(0.5 + level / 2) * np.sqrt(unit_covariance(sums, counts)[0, 0]))
        return Interval(mean, mean - half, mean + half, len(array))
    draws = mean_draws(sums, counts, n, np.random.default_rng(seed))
    low, high = np.quantile(draws, expanded(level, len(counts)))
    return Interval(mean, float(low), float(high), len(array))


def expanded(level: float, n_units: int) -> tuple[float, float]:
    """Return the quantiles of resampled means between which an interval lies.

    Resamples of n units spread as little as the standard deviation that divides by n, and their percentiles are those of
    a normal distribution. The quantiles make up for both: √(n / (n − 1)) times Student's t with n − 1 degrees of freedom,
    as a probability of the normal distribution (Hesterberg, 2015).

    Args:
        level: of the interval; n_units: two or more units that were resampled.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(np.sqrt(n_units / (n_units - 1)) * stdtrit(n_units - 1, 0.5 - level / 2)))
    return tail, 1 - tail


def unit_sums(values: np.ndarray, units: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each unit, each (n_units,)."""
    if units is None:
        return values, np.ones(len(values))
    _, codes = np.unique(units.astype(str), return_inverse=True)
    return np.bincount(codes, weights=values), np.bincount(codes).astype(float)


def unit_covariance(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the covariance of means whose units are drawn whole, for many units: what resampling tends to.

    A mean is a ratio of sums over units, so its error is that of the units' residuals (Cochran, 1977,
    Sampling Techniques, section 6.4, on ratio estimators).

    Args:
        sums, counts: (n_units,) or (n_units, m) of m means over the same units.

    Returns:
        (m, m).
    """
    sums, counts = sums.reshape(len(sums), -1), counts.reshape(len(counts), -1)
    number = counts.sum(axis=0)
    apart = sums - counts * (sums.sum(axis=0) / number)
    return len(sums) / (len(sums) - 1) * (apart.T @ apart) / np.outer(number, number)


def mean_draws(
    sums: np.ndarray, counts: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the means of n resamples of the units: (n,)."""
    n_units = len(sums)
    equal = bool((counts == counts[0]).all())
    draws = np.empty(n)
    step = max(1, _BLOCK // n_units)
    for start in range(0, n, step):
        size = min(step, n - start)
        chosen = rng.integers(0, n_units, size=(size, n_units))
        total = sums[chosen].sum(axis=1)
        number = counts[0] * n_units if equal else counts[chosen].sum(axis=1)
        draws[start : start + size] = total / number
    return draws
