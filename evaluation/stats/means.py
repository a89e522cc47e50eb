"""Means and shares with intervals that are valid for few, dependent raters.

The mean of k raters' n = Σ n_g ratings is m = Σ s_g / n, s_g the sum of rater g. Rater g contributes e_g = s_g − n_g m
to its error. The cluster-robust variance, corrected to be unbiased if ratings of one rater have correlation rho and
raters are independent (CR2; Bell and McCaffrey 2002; Pustejovsky and Tipton 2018), with d_g = n_g (1 − rho) + n_g² rho
and D = Σ d_g in place of the ratings' variances,

    v = Σ a_g² e_g² / n²,  a_g² = d_g / (d_g (1 − 2 n_g / n) + D n_g² / n²)

rho is estimated by analysis of variance. v is used with Student's t and Satterthwaite's degrees of freedom, which
account for a few raters with many ratings: df = tr(Q)² / tr(Q²), Q the covariance of the a_g e_g under that rho (Imbens
and Kolesár 2016, Review of Economics and Statistics 98). With equal numbers of ratings these are s² / k and k − 1.

Without a scale the interval is m ± t √v. With one from a to b, it is all mu with

    (m − mu)² ≤ t² v (mu − a) (b − mu) / ((m − a) (b − m)),

the score interval of a quasi-likelihood whose variance falls to 0 at the ends of the scale (Wedderburn 1974; Papke and
Wooldridge 1996). It stays on the scale and extends further towards the middle, because ratings near an end are skewed.
With only one end a, as for counts and lengths, it is the limit for b → ∞, with t² v (mu − a) / (m − a) on the right.
Real texts are more skewed than this implies, so the interval reaches at least as far as the one corrected for the
skewness of the units' sums (Hall 1992, Journal of the Royal Statistical Society B 54), with T = (m − mu) / √v and κ
their standardised third moment over √k:

    |T + κ T² / 3 + κ² T³ / 27 + κ / 6| ≤ t,

with degrees of freedom limited by the excess kurtosis of the units' sums (`resampling`), because one long text can
dominate their variance.

For zeros and ones it is Wilson's interval with the effective sample size m (1 − m) / v (Korn and Graubard 1998; Franco,
Little, Louis and Slud 2019). If all raters agree, v cannot be estimated and the maximum that the scale allows is used,
(m − a) (b − m) / k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.resampling import FEWEST_UNITS, freedom_of

NO_VALUE = Reason("no_value", "no value")
ONE_VALUE = Reason("one_value", "only one value, so no interval")
ONE_GROUP = Reason("one_group", "all values come from one group, so no interval")
ALL_ALIKE = Reason("all_alike", "all values are equal, so the error of the mean is unknown")
NO_SCALE = Reason("no_scale", "the scale is unknown, and without it the error of the mean is unknown; specify it")
SHARE = (0.0, 1.0)
"""Scale of zeros and ones."""
_ROUNDING = 1e-6
"""Share of the scale or of the values below which a distance counts as rounding error."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean with its confidence interval.

    Attributes:
        mean: None without values.
        low, high: ends of the interval; None if there is none.
        n: number of values used.
        reason: reason for missing numbers.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class MeanSpread:
    """Uncertainty of a mean.

    Attributes:
        variance: variance of the mean; 0 if all values are equal.
        df: degrees of freedom of that variance.
        n_units: number of independent units, or of equal ones with the same information.
        skew: skewness of the mean, from the units' contributions to its error.
        tails_df: upper limit of the degrees of freedom, based on the tails of these contributions; for scales with one
            end.
    """

    variance: float
    df: float
    n_units: float
    skew: float = 0.0
    tails_df: float = np.inf


def mean_interval(
    values: Sequence[float] | np.ndarray,
    groups: Sequence[Any] | np.ndarray | None = None,
    level: float = 0.90,
    *,
    scale: tuple[float, float] | None = None,
    things: Sequence[Any] | np.ndarray | None = None,
) -> Interval:
    """Return the mean of the finite values with its interval.

    Args:
        values: (k,), NaN if undefined.
        groups: (k,) independent unit of each value, e.g. its rater. Ratings by one person are correlated; treating them
            as independent would make intervals too narrow.
        level: confidence level of the interval.
        scale: limits of the values, if any; one of them may be infinite.
        things: (k,) rated object, if several people rated the same one, because ratings of one object are also
            correlated. The largest variance over groups, things and both is used (Cameron, Gelbach and Miller 2011).

    Raises:
        ValueError: if a value lies outside the scale.
    """
    array = np.asarray(values, dtype=float)
    keep = np.isfinite(array)
    array = array[keep]
    if not len(array):
        return Interval(None, None, None, 0, NO_VALUE)
    if scale is not None:
        array = _clip_to_scale(array, scale)
    units = np.arange(len(array)) if groups is None else _codes(groups, keep)
    spread = mean_spread(array, units, None if things is None else _codes(things, keep))
    mean = float(array.mean())
    if spread is None:
        alone = ONE_VALUE if len(array) == 1 else ONE_GROUP
        return Interval(mean, None, None, len(array), alone)
    ends = interval_ends(mean, spread, level, scale)
    low, high = ends or (None, None)
    return Interval(mean, low, high, len(array), None if ends else ALL_ALIKE)


def mean_spread(values: np.ndarray, units: np.ndarray, things: np.ndarray | None = None) -> MeanSpread | None:
    """Return the uncertainty of a mean; None if all values have one unit.

    Args:
        values: (k,) finite.
        units, things: (k,) as `groups` and `things` of `mean_interval`, by number.
    """
    over_units = _spread(values, units)
    if things is None or over_units is None:
        return over_units
    over_things = _spread(values, things)
    if over_things is None:
        return over_units  # with a single thing, the mean refers only to it
    crossed = units * (int(things.max()) + 1) + things
    cells = _spread(values, np.unique(crossed, return_inverse=True)[1])
    of_cells = MeanSpread(
        over_units.variance + over_things.variance - (cells.variance if cells else 0.0),
        min(over_units.df, over_things.df),
        min(over_units.n_units, over_things.n_units),
    )
    # If no grouping varies, use the one with the fewest units.
    return max(over_units, over_things, of_cells, key=lambda candidate: (candidate.variance, -candidate.n_units))


def interval_ends(
    mean: float, spread: MeanSpread, level: float, scale: tuple[float, float] | None = None
) -> tuple[float, float] | None:
    """Return the ends of a mean's interval; None if its error is unknown.

    Args:
        level: of the interval.
        scale: as in `mean_interval`.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(spread.df, 0.5 + level / 2))
    if scale is None or not np.isfinite(scale).any():
        half = t * float(np.sqrt(spread.variance))
        return (mean - half, mean + half) if spread.variance > 0 else None
    low, high = scale
    if not np.isfinite(scale).all():
        t = float(stdtrit(min(spread.df, spread.tails_df), 0.5 + level / 2))
    if np.isinf(low):
        ends = _ends_above(high - mean, replace(spread, skew=-spread.skew), t)
        return ends and (high - ends[1], high - ends[0])
    if np.isinf(high):
        ends = _ends_above(mean - low, spread, t)
        return ends and (low + ends[0], low + ends[1])
    return score_ends(mean, spread, t, scale)


def score_ends(mean: float, spread: MeanSpread, t: float, scale: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the score interval of a mean.

    Args:
        t: half width in standard errors.
        scale: its two ends.
    """
    low, high = scale
    max_variance = max((mean - low) * (high - mean), 0.0)
    reach = t**2 * _variance_share(mean, spread, scale)
    middle = (mean + reach * (low + high) / 2) / (1 + reach)
    half = float(np.sqrt(reach * max_variance + (reach * (high - low) / 2) ** 2)) / (1 + reach)
    return max(low, middle - half), min(high, middle + half)


def _ends_above(above: float, spread: MeanSpread, t: float) -> tuple[float, float] | None:
    """Return the interval of a mean relative to its scale's only end."""
    error = float(np.sqrt(spread.variance))
    if not (error > 0 and above > 0):
        return None
    added = t**2 * spread.variance / above / 2
    half = float(np.hypot(t * error, added))
    low, high = above + added - half, above + added + half
    if abs(spread.skew) > _ROUNDING:
        k = spread.skew
        turned = [3 / k * (np.cbrt(1 + k * (end - k / 6)) - 1) for end in (t, -t)]
        low, high = min(low, above - error * turned[0]), max(high, above - error * turned[1])
    return max(low, 0.0), high


def mean_p_value(
    mean: float, spread: MeanSpread, null_mean: float, scale: tuple[float, float] | None = None
) -> float | None:
    """Return the two-sided p-value of the true mean being `null_mean`.

    It is below 1 − level if the interval of that level excludes `null_mean`, and None if the error is unknown.

    Args:
        null_mean: within the scale, not at its ends.
        scale: as in `mean_interval`.
    """
    from scipy.special import stdtr

    variance = spread.variance
    if scale is not None:
        variance = _variance_share(mean, spread, scale) * (null_mean - scale[0]) * (scale[1] - null_mean)
    if not variance > 0:
        return None
    return 2 * float(stdtr(spread.df, -abs(mean - null_mean) / np.sqrt(variance)))


def _variance_share(mean: float, spread: MeanSpread, scale: tuple[float, float]) -> float:
    """Return a mean's variance as a share of the possible maximum.

    The maximum depends on the mean's position on the scale.
    """
    max_variance = (mean - scale[0]) * (scale[1] - mean)
    return spread.variance / max_variance if spread.variance > 0 and max_variance > 0 else 1 / spread.n_units


def _clip_to_scale(values: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    """Return the values with rounding errors beyond the scale clipped."""
    low, high = scale
    least, greatest = float(values.min()), float(values.max())
    margin = _ROUNDING * (high - low if np.isfinite(high - low) else max(abs(least), abs(greatest)))
    if least < low - margin or greatest > high + margin:
        raise ValueError(f"values from {least:g} to {greatest:g} are outside the scale of {low:g} to {high:g}")
    return np.clip(values, low, high)


def _codes(labels: Sequence[Any] | np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return the number of each kept label among the distinct ones."""
    kept_labels = np.asarray(labels)[keep]
    if kept_labels.dtype.kind not in "iu":
        kept_labels = np.asarray(labels, dtype=object)[keep].astype(str)
    return np.unique(kept_labels, return_inverse=True)[1].reshape(-1)


def _spread(values: np.ndarray, units: np.ndarray) -> MeanSpread | None:
    """Return the uncertainty of a mean over independent units, or None.

    None for a single unit.
    """
    n = np.bincount(units).astype(float)
    n_units, n_all = len(n), len(values)
    if n_units < 2:
        return None
    mean = values.mean()
    apart = np.bincount(units, weights=values - mean)
    rho = _resemblance(values - mean, apart, n)
    d, share = n * (1 - rho) + n**2 * rho, n / n_all
    total = d.sum()
    a2 = d / (d * (1 - 2 * share) + share**2 * total)
    variance = float((a2 * apart**2).sum()) / n_all**2
    if variance * n_units <= _ROUNDING**2 * max(float((values**2).mean()), 1e-300):
        variance = 0.0
    # Q = diag(c) − u pᵀ − p uᵀ + D u uᵀ, whose traces need no matrix over units.
    a = np.sqrt(a2)
    u, p, c = a * share, a * d, a2 * d
    correction = total * u**2 - 2 * u * p
    trace = float((c + correction).sum())
    squares = float(
        (c**2 + 2 * c * correction).sum()
        + 2 * (u @ u) * (p @ p)
        + 2 * (u @ p) ** 2
        + total**2 * (u @ u) ** 2
        - 4 * total * (u @ p) * (u @ u)
    )
    parts = a * apart
    enough = n_units >= FEWEST_UNITS and variance > 0
    tails = freedom_of(parts) if enough else np.inf
    return MeanSpread(variance, trace**2 / squares, n_units, _skew(parts), tails)


def _skew(parts: np.ndarray) -> float:
    """Return the skewness of a sum of independent parts.

    It uses SciPy's unbiased skewness of a part; 0 for two parts.
    """
    k, squares = len(parts), float((parts**2).sum())
    if k < 3 or not squares > 0:
        return 0.0
    return float((parts**3).sum()) / squares**1.5 * np.sqrt(k * (k - 1)) / (k - 2)


def _resemblance(apart: np.ndarray, sums: np.ndarray, n: np.ndarray) -> float:
    """Return the within-unit correlation by analysis of variance, 0 to 1.

    0 if each unit has one value.

    Args:
        apart: (k,) values minus their mean.
        sums: (units,) their sums.
        n: (units,) number of values.
    """
    n_all, n_units = len(apart), len(n)
    if n_all == n_units:
        return 0.0
    between = float((sums**2 / n).sum())
    within = max(float((apart**2).sum()) - between, 0.0) / (n_all - n_units)
    size = (n_all - float((n**2).sum()) / n_all) / (n_units - 1)
    of_units = max((between / (n_units - 1) - within) / size, 0.0)
    return of_units / (of_units + within) if of_units + within > 0 else 0.0


def share_interval(k: int, n: int, *, level: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of the share `k` of `n`; None for `n` = 0.

    Both ends are from 0 to 1.

    The score interval of Wilson (1927), Journal of the American Statistical Association 22.

    Raises:
        ValueError: if the count is below 0 or above `n`.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a valid share; the first number must be from 0 to the second")
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, extra = k / n, z * z / n
    middle = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * sqrt(share * (1 - share) / n + extra / (4 * n))
    return (0.0 if k == 0 else middle - half), (1.0 if k == n else middle + half)


def wilson(shares: np.ndarray, n: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval of each share.

    They stay between 0 and 1.

    Args:
        n: number of observations.
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    middle = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
