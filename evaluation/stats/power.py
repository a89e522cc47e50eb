"""Power and sample size: raters per bot for a significant difference.

Power of the two-sided t-test (noncentral t distribution), by statsmodels; Cohen (1988), Statistical Power Analysis,
chapter 2. With several bots every pair is compared, and the level is shared among the pairs (Bonferroni, the
first step of Holm's correction, which `comparisons.py` uses).
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
"""More raters than this are no plan."""
NO_DIFFERENCE = Reason("no_difference", "no difference can be shown")
NO_SMALLEST = Reason("no_smallest", "no smallest difference of interest is named, and the scale is not known")
_NODES = np.polynomial.legendre.leggauss(200)
Design = Literal["independent", "paired"]


@dataclass(frozen=True, slots=True)
class RaterNeed:
    """An answer to "how many raters per bot?".

    Attributes:
        n: raters per bot (paired: raters, who rate both bots); None with a reason.
        power: reached with n.
        alpha: the two-sided level per comparison, after the correction.
        difference, sd: the requested one, in points of the scale.
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
    """Two bots of a study, and the number of raters each that show the smallest difference of interest.

    The observed difference makes no plan: the power for it says no more than its p-value (Hoenig and Heisey, 2001,
    The American Statistician 55).

    Attributes:
        difference: mean of a − mean of b; low, high: its interval, not corrected.
        sd: of a rater's verdict on a bot in this study's design, so that √(2/n)·sd is the error of the
            difference with n raters per bot.
        n_a, n_b: raters that the bots have.
        needed: for the smallest difference of interest; None where no number is enough.
        reason: why something is missing.
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
    """Count the comparisons among all pairs of bots."""
    return comb(n_bots, 2)


def power_reached(
    n: int,
    difference: float,
    sd: float,
    *,
    alpha: float = 0.05,
    design: Design = "independent",
    correlation: float = 0.0,
) -> float:
    """Return the chance that a two-sided t-test with n raters per bot shows the difference.

    Args:
        n: raters per bot, at least 2.
        difference: true difference of the bots' means; sd: of the ratings of one bot; both in points.
        alpha: level of the test.
        design: "paired": the same raters rate both bots.
        correlation: between a rater's two ratings, where paired.
    """
    _check(difference, sd, alpha, correlation)
    if n < 2:
        raise ValueError(f"n is {n}; a test needs at least 2 raters per bot")
    return _power(n, abs(difference), sd, alpha, design, correlation)


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
    """Return the fewest raters per bot that show a difference with the requested power.

    Args:
        difference: to detect; sd: of single ratings of one bot; both in points of the scale.
        power: chance to show it.
        alpha: chance of any wrong verdict among all comparisons.
        n_comparisons: that share alpha; `n_pairs(bots)` for all pairs.
        design: "independent": each bot has raters of its own; "paired": every rater rates both.
        correlation: between a rater's two ratings, where paired (the raters' share of the variance).
        ratings_per_rater: conversations that one rater rates per bot; their mean counts.
        rater_share: of the variance of the ratings of one bot, how much is between raters; with several
            ratings per rater it is what more of them cannot take away.

    Raises:
        ValueError: an sd or share that is none, a power outside (alpha, 1).
    """
    from scipy import stats

    _check(difference, sd, alpha, correlation)
    if not alpha < power < 1:
        raise ValueError(f"power is {power}; it must lie between alpha ({alpha}) and 1")
    if ratings_per_rater < 1 or not 0 <= rater_share <= 1:
        raise ValueError(
            f"{ratings_per_rater} ratings per rater and a rater share of {rater_share}; at least 1, and from 0 to 1"
        )
    level = corrected_alpha(alpha, n_comparisons)
    m = ratings_per_rater
    rater_sd = sd * float(np.sqrt((1 + (m - 1) * rater_share) / m))
    if difference == 0:
        return RaterNeed(None, None, level, difference, sd, design, NO_DIFFERENCE)

    def reached(n: int) -> float:
        return _power(n, abs(difference), rater_sd, level, design, correlation)

    # By the normal distribution, which asks for a little less than the t-test.
    quantiles = float(stats.norm.ppf(1 - level / 2) + stats.norm.ppf(power))
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
    """Return the smallest difference, in points, that n raters per bot show with the requested power."""
    from scipy import optimize

    _check(1.0, sd, alpha, correlation)
    if n < 2:
        raise ValueError(f"n is {n}; a test needs at least 2 raters per bot")
    level = corrected_alpha(alpha, n_comparisons)

    def lacking(difference: float) -> float:
        return _power(n, difference, sd, level, design, correlation) - power

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
    """Return for every pair of bots the raters that show the smallest difference of interest, by this study's spread.

    Error and interval of a pair are those of its test (`compare.pairwise`), so what a design gains, and how much the
    ratings of just these two bots spread, is kept.

    Args:
        values, bots, raters, things, conditions, scale: as in `comparisons.pairwise`.
        smallest: smallest difference of interest, in points; None where none is known.
        power, alpha: as in `raters_needed`; alpha is shared among the pairs.
    """
    tested = pairwise(values, bots, raters, things, conditions=conditions, level=1 - alpha, scale=scale)
    n_bots = len({name for pair in tested.pairs for name in (pair.a, pair.b)})
    return [_pair(pair, tested.n_raters, n_bots, smallest, power, alpha) for pair in tested.pairs]


def _pair(
    pair: Comparison, n_raters: Mapping[str, int], n_bots: int, smallest: float | None, power: float, alpha: float
) -> PairPlan:
    n_a, n_b = n_raters.get(pair.a, 0), n_raters.get(pair.b, 0)
    if min(n_a, n_b) < 2:
        reason = Reason("too_few_raters", "a bot has fewer than two raters: its spread is unknown")
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
        raise ValueError(f"difference {difference} and sd {sd}; numbers, and sd above 0")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; it must lie between 0 and 1")
    if not -1 <= correlation < 1:
        raise ValueError(f"correlation is {correlation}; it must lie in [−1, 1)")


def _power(n: int, difference: float, sd: float, alpha: float, design: Design, correlation: float) -> float:
    """Return the power as statsmodels has it, or by own integration where its noncentral t has no value."""
    from statsmodels.stats.power import ttest_power

    if design == "paired":
        df, error = n - 1, sd * np.sqrt(2 * (1 - correlation) / n)
    else:
        df, error = 2 * (n - 1), sd * np.sqrt(2 / n)
    shift = float(difference / error)
    with np.errstate(all="ignore"):
        # Its effect is per root observation, so that of one observation is the shift itself.
        power = float(ttest_power(shift, 1, alpha, df=df))
    return power if np.isfinite(power) else power_integrated(shift, df, alpha)


def power_integrated(shift: float, df: int, alpha: float) -> float:
    """Return the power of a two-sided t-test by integration, where SciPy's noncentral t gives NaN (large shifts).

    P(T > t) is the mean of Φ(shift − t·s) over s = √(χ²/df).

    Args:
        shift: difference over its standard error; df: degrees of freedom; alpha: level.
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
    """Find the smallest n ≥ 2 with enough power, which grows with n; the search begins at a guess."""
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
