"""Trajectories over turns, and the difference between two groups' means.

Difference of two groups' means; a person can be in both groups. Unbounded scales use the cluster-robust test (CR2) with
Satterthwaite's degrees of freedom. It equals Welch's test with one value per person, and the paired test with one value
per person and group. On bounded scales values are skewed, which a small sample may not show; there the interval of the
difference is computed from each group's interval, which accounts for the scale (MOVER; Zou and Donner 2008, Statistics
in Medicine 27). With means m, interval ends l and u, and covariance V of the two means,

    low  = m_1 − m_2 − s √((m_1 − l_1)² + (u_2 − m_2)²),   high = m_1 − m_2 + s √((u_1 − m_1)² + (m_2 − l_2)²)
    s² = (V_11 + V_22 − 2 V_12) / (V_11 + V_22)

so people in both groups reduce the variance of the difference. (MOVER's own covariance term, the product of the two
distances, has little effect if one distance is long and the other short: on a scale with one limit, pairing would
hardly reduce the uncertainty.) The p-value is 1 minus the level at which the interval ends at 0.

Trajectories over turns compare the best with the worst conversations, or two kinds of bots, as in figures 3 and 4 of
Ghandeharioun et al. (2019): at each turn, the mean and interval over all conversations that reach it. Few conversations
reach late turns, and these are not representative, so every point includes its number of conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import Array, pluralise
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.gls import Gap, RaterGls, label_codes
from evaluation.stats.means import MeanSpread, interval_ends, mean_interval, mean_spread
from evaluation.stats.zscores import rater_codes

LEAST_P = 1e-12
"""Smallest reported p-value: levels closer to 1 are indistinguishable from 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two means, first minus second.

    Attributes:
        low, high: None if a group's standard error is unknown.
        p: p-value for equal means.
    """

    low: float | None
    high: float | None
    p: float


def difference_of_means(
    values: tuple[np.ndarray, np.ndarray],
    people: tuple[np.ndarray, np.ndarray],
    level: float,
    scale: tuple[float, float] | None = None,
) -> Difference | None:
    """Compare two groups' means.

    Returns None if a group has fewer than two people or nothing varies.

    If one group does not vary, there is an interval only on a scale with two limits. Otherwise p assumes that group's
    variance equals the other's.

    Args:
        values: (n,) and (m,) finite, on the scale.
        people: (n,) and (m,) person of each value; a number denotes the same person in both.
        level: confidence level of the interval.
        scale: limits of the values, if any; one of them may be infinite.
    """
    sides = [_Side(*side, scale) for side in zip(values, people, strict=True)]
    if any(side.spread is None for side in sides):
        return None
    varies = [side.spread is not None and side.spread.variance > 0 for side in sides]
    if not any(varies):
        return None
    fit = _fit_groups(values, people)
    gap = fit.gap(0, 1)
    if not gap.error:
        return None
    if scale is None or not np.isfinite(scale).any():
        return _test_by_student(gap, level) if all(varies) else _test_by_other_variance(gap, sides)
    covariance = fit.covariance
    apart = float(covariance[0, 0] + covariance[1, 1])
    shared = float(np.sqrt(max(1 - 2 * covariance[0, 1] / apart, 0.0)))
    first, second = sides

    def ends(level: float) -> tuple[float, float]:
        (down, up), (other_down, other_up) = first.reach(level), second.reach(level)
        difference = first.mean - second.mean
        return (
            difference - shared * float(np.hypot(down, other_up)),
            difference + shared * float(np.hypot(up, other_down)),
        )

    if first.ends(level) is None or second.ends(level) is None:
        return _test_by_other_variance(gap, sides)
    return Difference(*ends(level), _p_value(ends))


class _Side:
    """Mean of one group and its uncertainty."""

    def __init__(self, values: np.ndarray, people: np.ndarray, scale: tuple[float, float] | None) -> None:
        self.mean = float(values.mean())
        self.spread: MeanSpread | None = mean_spread(values, label_codes(people))
        self._scale = scale

    def ends(self, level: float) -> tuple[float, float] | None:
        """Return the ends of the mean's interval; None if there is none."""
        if self.spread is None:
            return None
        return interval_ends(self.mean, self.spread, level, self._scale)

    def reach(self, level: float) -> tuple[float, float]:
        """Return the distances from the mean to the interval's ends; 0 without one."""
        ends = self.ends(level)
        return (0.0, 0.0) if ends is None else (self.mean - ends[0], ends[1] - self.mean)


def _fit_groups(values: tuple[np.ndarray, np.ndarray], people: tuple[np.ndarray, np.ndarray]) -> RaterGls:
    group = np.repeat([0, 1], [len(side) for side in values])
    person = label_codes(np.concatenate(people))
    counts = np.zeros((int(person.max()) + 1, 2))
    np.add.at(counts, (person, group), 1.0)
    means = np.array([side.mean() for side in values])
    return RaterGls(means, group, person, np.concatenate(values) - means[group], counts, 0.0)


def _test_by_student(gap: Gap, level: float) -> Difference:
    """Test the difference by Student's t."""
    from scipy.special import stdtr, stdtrit

    p = 2 * float(stdtr(gap.df, -abs(gap.difference) / gap.error))
    half = float(stdtrit(gap.df, 0.5 + level / 2)) * gap.error
    return Difference(gap.difference - half, gap.difference + half, p)


def _test_by_other_variance(gap: Gap, sides: Sequence[_Side]) -> Difference:
    """Test the difference using the other group's variance for a constant group."""
    from scipy.special import stdtr

    spreads = [side.spread for side in sides if side.spread is not None]
    unit_variance = max(spread.variance * spread.n_units for spread in spreads)
    lacking = [spread.n_units for spread in spreads if not spread.variance > 0]
    error = float(np.sqrt(gap.error**2 + sum(unit_variance / n for n in lacking)))
    df = max(min(gap.df, *(n - 1 for n in lacking)), 1.0) if lacking else gap.df
    return Difference(None, None, 2 * float(stdtr(df, -abs(gap.difference) / error)))


def _p_value(ends: Callable[[float], tuple[float, float]]) -> float:
    """Return 1 minus the level at which an interval ends at 0."""
    from scipy.optimize import brentq

    def nearest(log_p: float) -> float:
        """Return the distance of 0 from the interval; negative if inside."""
        low, high = ends(1 - float(np.exp(log_p)))
        return max(low, -high)

    least, greatest = float(np.log(LEAST_P)), float(np.log1p(-1e-9))
    if nearest(least) > 0:
        return LEAST_P
    if nearest(greatest) < 0:
        return 1.0
    return float(np.exp(brentq(nearest, least, greatest)))


N_EXTREME = 100
"""Number of conversations per group in the paper."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """Conversations with the best and the worst ratings.

    Attributes:
        best, worst: indices into the scores, best first and worst first, without overlap.
        lowest_best, highest_worst: the groups' boundary scores; None if empty.
        n_tied: number of conversations tied at each boundary, of which some were drawn.
        reason: reason for returning fewer conversations than requested, if so.
    """

    best: np.ndarray
    worst: np.ndarray
    lowest_best: float | None
    highest_worst: float | None
    n_tied: tuple[int, int]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """Mean and interval at each of T turns; NaN if undefined.

    Attributes:
        mean, low, high: over the conversations with a value at the turn; an interval needs two people who differ, or
            a scale with two ends.
        n: number of those conversations.
    """

    mean: Array
    low: Array
    high: Array
    n: Array


def extremes(scores: Sequence[float] | np.ndarray, k: int = N_EXTREME, *, seed: int = 0) -> Extremes:
    """Select the k highest and the k lowest scored conversations.

    Ties at a boundary are broken at random, using the seed.

    Args:
        scores: (n,) scores; conversations with NaN are unrated and never selected.
        k: size of each group; with fewer than 2k scores, half of them each.
        seed: seed of the draw among ties.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    values = np.asarray(scores, dtype=float)
    rated = np.flatnonzero(np.isfinite(values))
    n_chosen = min(k, len(rated) // 2)
    reason = None
    if n_chosen < k:
        n = len(rated)
        text = f"{pluralise(n, 'conversation')} rated; {k} best and {k} worst require {2 * k}"
        reason = Reason("few_rated", text, n_conversations=n, k=k, needed=2 * k)
    nothing = np.array([], dtype=int)
    if n_chosen == 0 or np.ptp(values[rated]) == 0:
        if n_chosen:
            reason = Reason("rated_alike", "all conversations have the same rating")
        return Extremes(nothing, nothing, None, None, (0, 0), reason)
    shuffled = np.random.default_rng(seed).permutation(rated)
    order = shuffled[np.argsort(values[shuffled], kind="stable")]  # lowest first, ties by chance
    worst, best = order[:n_chosen], order[::-1][:n_chosen]
    ends = float(values[best[-1]]), float(values[worst[-1]])
    tied = tuple(int((values[rated] == end).sum()) for end in ends)
    return Extremes(best, worst, *ends, n_tied=(tied[0], tied[1]), reason=reason)


def course(
    rows: Sequence[Sequence[float | None]],
    people: Sequence[Any] | None = None,
    *,
    level: float = RATING_LEVEL,
    scale: tuple[float, float] | None = None,
) -> Course:
    """Return means by turn with the usual intervals of means (`intervals`).

    Args:
        rows: values of each conversation by turn, None or NaN if undefined; lengths may differ.
        people: (n,) person of each conversation, because a person's conversations are correlated; None if all differ.
        level: confidence level of the interval.
        scale: limits of the values, if any; one of them may be infinite.
    """
    n_turns = max((len(row) for row in rows), default=0)
    table = np.full((len(rows), n_turns), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = [np.nan if value is None else value for value in row]
    units = np.arange(len(rows)) if people is None else rater_codes(people)
    intervals = [mean_interval(turn, units, level, scale=scale) for turn in table.T]
    mean, low, high = (
        np.array([np.nan if end is None else end for end in ends], dtype=float)
        for ends in (
            [interval.mean for interval in intervals],
            [interval.low for interval in intervals],
            [interval.high for interval in intervals],
        )
    )
    return Course(mean, low, high, np.array([interval.n for interval in intervals], dtype=int))
