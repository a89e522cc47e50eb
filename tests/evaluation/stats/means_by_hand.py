"""Intervals of means by matrices of all ratings and by roots of polynomials: another way to the same numbers."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import stats

from evaluation.stats.means import MeanSpread


def dense(values: np.ndarray, units: np.ndarray) -> MeanSpread:
    """Return the same by matrices of all ratings: the moments of Imbens and Kolesár, with rho by analysis of
    variance.
    """
    k, n = len(np.unique(units)), len(values)
    same = (units[:, None] == units).astype(float)
    groups = [values[units == unit] for unit in np.unique(units)]
    sizes = np.array([len(group) for group in groups])
    # Mean squares as an analysis of variance prints them.
    rest = n - k  # without any, nothing tells ratings of one unit apart from those of others
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / max(rest, 1)
    between = sum(len(g) * (g.mean() - values.mean()) ** 2 for g in groups) / (k - 1)
    usual = (n - (sizes**2).sum() / n) / (k - 1)
    of_units = max((between - within) / usual, 0)
    rho = of_units / (of_units + within) if rest else 0.0
    phi = (1 - rho) * np.eye(n) + rho * same
    residual = np.eye(n) - np.full((n, n), 1 / n)
    rows = []
    for unit in np.unique(units):
        one = (units == unit).astype(float)
        left = one @ residual
        # Scaled to have the variance of the sum of the unit's own ratings.
        rows.append(left * np.sqrt((one @ phi @ one) / (left @ phi @ left)) / n)
    rows = np.array(rows)
    q = rows @ phi @ rows.T
    return MeanSpread(float(((rows @ values) ** 2).sum()), float(np.trace(q) ** 2 / (q**2).sum()), k)


def over_both(values: np.ndarray, units: np.ndarray, things: np.ndarray) -> MeanSpread:
    """Return the spread over raters, over things, or over both: whichever has the largest variance."""
    one, other = dense(values, units), dense(values, things)
    cells = dense(values, np.array([f"{u} {t}" for u, t in zip(units, things, strict=True)]))
    both = MeanSpread(
        one.variance + other.variance - cells.variance, min(one.df, other.df), min(one.n_units, other.n_units)
    )
    return max(one, other, both, key=lambda result: result.variance)


def ends(mean: float, spread: MeanSpread, level: float, scale: tuple[float, float]) -> list[float]:
    """Return where (m − mu)² is t² times the variance that the scale leaves at mu."""
    t2 = float(stats.t.ppf(0.5 + level / 2, spread.df)) ** 2
    low, high = scale
    ratio = t2 * spread.variance / ((mean - low) * (high - mean))
    polynomial = [1 + ratio, -2 * mean - ratio * (low + high), mean**2 + ratio * low * high]
    return sorted(np.roots(polynomial).real.tolist())


@dataclass(frozen=True, slots=True)
class Welch:
    """Interval of mean(x) − mean(y), and the p-value of no difference."""

    low: float
    high: float
    p: float


def welch(x: np.ndarray, y: np.ndarray, level: float) -> Welch:
    """Compare two samples of at least two values, one of which varies.

    Args:
        level: confidence level of the interval, e.g. 0.90.
    """
    with warnings.catch_warnings():
        # SciPy warns about precision loss if one sample is constant, but its variance of 0 is exact.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test = stats.ttest_ind(x, y, equal_var=False)
        ends = test.confidence_interval(level)
    return Welch(float(ends.low), float(ends.high), float(test.pvalue))
