"""Power and sample size: raters per bot for a significant difference.

Power of the two-sided t-test (noncentral t distribution); Cohen (1988), Statistical Power Analysis, chapter 2. With
several bots every pair is compared, and the level is divided among the pairs (Bonferroni, the first step of Holm's
correction used by `comparisons.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.comparisons import NO_ERROR, Comparison, pairwise

MOST = 10_000_000
"""Maximum number of raters of a realistic plan."""
NO_DIFFERENCE = Reason("no_difference", "no difference can be detected")
NO_SMALLEST = Reason("no_smallest", "no smallest difference of interest is set, and the scale is unknown")
_NODES = np.polynomial.legendre.leggauss(200)
Design = Literal["independent", "paired"]


@dataclass(frozen=True, slots=True)
class RaterNeed:
    """Required number of raters per bot.

    Attributes:
        n: raters per bot (paired: raters, who rate both bots); None with a reason.
        power: power reached with n.
        alpha: two-sided level per comparison, after the correction.
        difference, sd: requested values, in points of the scale.
    """

    n: int | None
    power: float | None
    alpha: float
    difference: float
    sd: float
    design: Design
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Sample size plan for two bots of a study.

    It is the number of raters per bot that detects the smallest difference of interest. Do not plan with the observed
    difference: its power carries the same information as its p-value (Hoenig and Heisey, 2001, The American
    Statistician 55).

    Attributes:
        difference: mean of a − mean of b.
        low, high: its uncorrected interval.
        sd: standard deviation of a rater's mean for a bot in this study's design, so that √(2/n)·sd is the error of the
            difference with n raters per bot.
        n_a, n_b: current number of raters of the bots.
        needed: for the smallest difference of interest; None if no number is enough.
        reason: reason for missing numbers.
    """

    a: str
    b: str
    difference: float | None
    low: float | None
    high: float | None
    sd: float | None
    n_a: int
    n_b: int
    needed: int | None
    reason: Reason | None = None


def corrected_alpha(
    alpha: float, n_comparisons: int, correction: Literal["bonferroni", "sidak"] = "bonferroni"
) -> float:
    """Return the level of one comparison among several.

    It is alpha / m by Bonferroni and 1 − (1 − alpha)^(1/m) by Šidák, for m comparisons.
    """
    if n_comparisons < 1:
        raise ValueError(f"n_comparisons is {n_comparisons}; it must be at least 1")
    if correction == "sidak":
        return float(1 - (1 - alpha) ** (1 / n_comparisons))
    return alpha / n_comparisons


def n_pairs(n_bots: int) -> int:
    """Return the number of comparisons among all pairs of bots."""
    return comb(n_bots, 2)


def raters_needed(
    difference: float,
    sd: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    n_comparisons: int = 1,
    design: Design = "independent",
    correlation: float = 0.0,
    ratings_per_rater: int = 1,
    rater_share: float = 0.0,
) -> RaterNeed:
    """Return the minimum number of raters per bot for a given power.

    Args:
        difference: difference to detect.
        sd: standard deviation of single ratings of one bot; both in points of the scale.
        power: probability of detecting it.
        alpha: probability of any false positive among all comparisons.
        n_comparisons: number of comparisons that share alpha; `n_pairs(bots)` for all pairs.
        design: "independent": each bot has its own raters; "paired": every rater rates both.
        correlation: correlation of a rater's two ratings, if paired (the raters' share of the variance).
        ratings_per_rater: number of conversations per rater and bot; their mean counts.
        rater_share: share of the variance of one bot's ratings that lies between raters; more ratings per rater cannot
            reduce it.

    Raises:
        ValueError: if sd or a share is invalid, or the power lies outside (alpha, 1).
    """
    from scipy import special

    _check(difference, sd, alpha, correlation)
    if not alpha < power < 1:
        raise ValueError(f"power is {power}; it must be between alpha ({alpha}) and 1")
    if ratings_per_rater < 1 or not 0 <= rater_share <= 1:
        raise ValueError(
            f"{ratings_per_rater} ratings per rater and a rater share of {rater_share}; they must be at least 1, and "
            "from 0 to 1"
        )
    level = corrected_alpha(alpha, n_comparisons)
    m = ratings_per_rater
    rater_sd = sd * float(np.sqrt((1 + (m - 1) * rater_share) / m))
    if difference == 0:
        return RaterNeed(None, None, level, difference, sd, design, NO_DIFFERENCE)

    def reached(n: int) -> float:
        return power_reached(n, difference, rater_sd, level, design, correlation)

    # Start from the normal approximation, which requires slightly fewer raters than the t-test.
    quantiles = float(special.ndtri(1 - level / 2) + special.ndtri(power))
    variance_factor = 1 - correlation if design == "paired" else 1.0
    n = _find_least_n(reached, power, 2 * variance_factor * (quantiles * rater_sd / difference) ** 2)
    if n is None:
        reason = Reason("too_many_raters", f"more than {MOST:,} raters per bot", most=MOST)
        return RaterNeed(None, None, level, difference, sd, design, reason)
    return RaterNeed(n, reached(n), level, difference, sd, design)


def detectable_difference(
    n: int,
    sd: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    n_comparisons: int = 1,
    design: Design = "independent",
    correlation: float = 0.0,
) -> float:
    """Return the smallest detectable difference in points, given n and power."""
    from scipy import optimize

    _check(1.0, sd, alpha, correlation)
    if n < 2:
        raise ValueError(f"n is {n}; a test needs at least 2 raters per bot")
    level = corrected_alpha(alpha, n_comparisons)

    def lacking(difference: float) -> float:
        return power_reached(n, difference, sd, level, design, correlation) - power

    top = sd
    while lacking(top) < 0:
        top *= 2
    return float(optimize.brentq(lacking, 0.0, top))


def plan_from_ratings(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    smallest: float | None,
    power: float = 0.8,
    alpha: float = 0.05,
    conditions: Sequence[Any] | None = None,
    scale: tuple[float, float] | None = None,
) -> list[PairPlan]:
    """Return the raters needed for the smallest difference, for every pair.

    The error and interval of a pair are those of its test (`comparisons.pairwise`), so they reflect the design and the
    spread of these two bots' ratings.

    Args:
        values, bots, raters, things, conditions, scale: as in `comparisons.pairwise`.
        smallest: smallest difference of interest, in points; None if unknown.
        power, alpha: as in `raters_needed`; alpha is divided among the pairs.
    """
    tested = pairwise(values, bots, raters, things, conditions=conditions, level=1 - alpha, scale=scale)
    n_bots = len({name for pair in tested.pairs for name in (pair.a, pair.b)})
    return [_pair(pair, tested.n_raters, n_bots, smallest, power, alpha) for pair in tested.pairs]


def _pair(
    pair: Comparison, n_raters: Mapping[str, int], n_bots: int, smallest: float | None, power: float, alpha: float
) -> PairPlan:
    n_a, n_b = n_raters.get(pair.a, 0), n_raters.get(pair.b, 0)
    if min(n_a, n_b) < 2:
        reason = Reason("too_few_raters", "a bot has fewer than two raters, so its spread is unknown")
        return _undefined_plan(pair, n_a, n_b, reason)
    if pair.error is None or pair.low is None or pair.high is None or pair.difference is None:
        return _undefined_plan(pair, n_a, n_b, pair.reason or NO_ERROR)
    sd = pair.error * float(np.sqrt(1 / (1 / n_a + 1 / n_b)))
    need = None
    if smallest is not None:
        need = raters_needed(smallest, sd, power=power, alpha=alpha, n_comparisons=n_pairs(n_bots))
    needed = None if need is None else need.n
    missing: Reason | None = NO_SMALLEST if need is None else need.reason
    return PairPlan(pair.a, pair.b, pair.difference, pair.low, pair.high, sd, n_a, n_b, needed, missing)


def _undefined_plan(pair: Comparison, n_a: int, n_b: int, reason: Reason | None) -> PairPlan:
    return PairPlan(pair.a, pair.b, pair.difference, None, None, None, n_a, n_b, None, reason)


def _check(difference: float, sd: float, alpha: float, correlation: float) -> None:
    if not (np.isfinite(difference) and np.isfinite(sd) and sd > 0):
        raise ValueError(f"difference is {difference} and sd is {sd}; both must be numbers, and sd above 0")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; it must be between 0 and 1")
    if not -1 <= correlation < 1:
        raise ValueError(f"correlation is {correlation}; it must be in [−1, 1)")


def power_reached(
    n: int, difference: float, sd: float, alpha: float = 0.05, design: Design = "independent", correlation: float = 0.0
) -> float:
    """Return the power of a two-sided t-test with n raters per bot, integrated if SciPy's noncentral t fails."""
    from scipy import special

    if design == "paired":
        df, error = n - 1, sd * np.sqrt(2 * (1 - correlation) / n)
    else:
        df, error = 2 * (n - 1), sd * np.sqrt(2 / n)
    shift = float(abs(difference) / error)
    limit = special.stdtrit(df, 1 - alpha / 2)
    # `scipy.stats` takes 15 times as long for one number. The second tail is mirrored, where fewer values are NaN.
    power = float(2 - special.nctdtr(df, shift, limit) - special.nctdtr(df, -shift, limit))
    return power if np.isfinite(power) else power_integrated(shift, df, alpha)


def power_integrated(shift: float, df: int, alpha: float) -> float:
    """Return the power of a two-sided t-test by numerical integration.

    For large shifts, where SciPy's noncentral t gives NaN.

    P(T > t) is the mean of Φ(shift − t·s) over s = √(χ²/df).

    Args:
        shift: difference over its standard error.
        df: degrees of freedom.
        alpha: level.
    """
    from scipy import stats

    limit = float(stats.t.ppf(1 - alpha / 2, df))
    if df > 200_000:
        return float(stats.norm.sf(limit - shift) + stats.norm.cdf(-limit - shift))
    first, last = np.sqrt(stats.chi2.ppf([1e-13, 1 - 1e-13], df) / df)
    nodes, weights = _NODES
    s = (first + last) / 2 + (last - first) / 2 * nodes
    density = stats.chi2.pdf(df * s**2, df) * 2 * df * s * (last - first) / 2
    inside = stats.norm.cdf(shift - limit * s) + stats.norm.cdf(-shift - limit * s)
    return float((weights * density) @ inside)


def _find_least_n(reached: Callable[[int], float], power: float, guess: float) -> int | None:
    """Find the smallest n ≥ 2 with enough power, from a guess.

    Power increases with n.
    """
    if guess > MOST:
        return None
    low, step = max(2, int(guess)), 1
    while low > 2 and reached(low) >= power:
        low, step = max(2, low - step), 2 * step
    high, step = low, 1
    while reached(high) < power:
        low, high, step = high + 1, high + step, 2 * step
    while low < high:
        middle = (low + high) // 2
        if reached(middle) < power:
            low = middle + 1
        else:
            high = middle
    return high
