"""The difference of two groups' means where a person may be in both: an interval, and the p-value of none.

Without ends of the scale it is the cluster-robust test (CR2) with Satterthwaite's degrees of freedom, which is
Welch's where everybody gave one value, and the paired one where everybody gave one to each group. With an end, values
are skewed towards it, and few people say little about that; the ends of each group's interval, which know the scale,
then give those of the difference (MOVER; Zou and Donner 2008, Statistics in Medicine 27). With the means m, their
ends l and u, and the covariance V of the two means,

    low  = m_1 − m_2 − s √((m_1 − l_1)² + (u_2 − m_2)²),   high = m_1 − m_2 + s √((u_1 − m_1)² + (m_2 − l_2)²)
    s² = (V_11 + V_22 − 2 V_12) / (V_11 + V_22)

so that people who are in both groups count by what they take from the difference's variance. (MOVER's own term for
them, the product of the two distances, takes away little where one distance is long and the other short: with one end
of the scale a paired difference would be as uncertain as any.) The p-value is 1 less the level at which the interval
ends at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.stats.gls import Gap, RaterGls, codes
from evaluation.stats.intervals import Spread, interval_ends, mean_spread

LEAST_P = 1e-12
"""A smaller p-value is given as this: levels nearer to 1 cannot be told from 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """First mean less second.

    Attributes:
        low, high: None where a group tells nothing of how far its mean can be off.
        p: of no difference.
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
    """Return the difference of two groups' means; None if one has fewer than two people or nothing varies.

    Args:
        values: (n,) and (m,) finite, on the scale.
        people: (n,) and (m,) the person of each value, by numbers that mean the same in both.
        level: of the interval.
        scale: limits of the values, where there are any; one of them may be infinite.
    """
    sides = [_Side(*side, scale) for side in zip(values, people, strict=True)]
    if any(side.spread is None for side in sides):
        return None
    varies = [side.spread is not None and side.spread.variance > 0 for side in sides]
    if not any(varies):
        return None
    fit = _fitted(values, people)
    gap = fit.gap(0, 1)
    if not gap.error:
        return None
    if scale is None or not np.isfinite(scale).any():
        return _robust(gap, level, tells=all(varies))
    covariance = fit.covariance
    apart = float(covariance[0, 0] + covariance[1, 1])
    shared = float(np.sqrt(max(1 - 2 * covariance[0, 1] / apart, 0.0)))
    first, second = sides

    def ends(at: float) -> tuple[float, float]:
        (down, up), (other_down, other_up) = first.reach(at), second.reach(at)
        difference = first.mean - second.mean
        return (
            difference - shared * float(np.hypot(down, other_up)),
            difference + shared * float(np.hypot(up, other_down)),
        )

    p = _p_value(ends)
    if first.ends(level) is None or second.ends(level) is None:
        return Difference(None, None, p)
    return Difference(*ends(level), p)


class _Side:
    """One group's mean and its uncertainty."""

    def __init__(
        self, values: np.ndarray, people: np.ndarray, scale: tuple[float, float] | None
    ) -> None:
        self.mean = float(values.mean())
        self.spread: Spread | None = mean_spread(values, codes(people))
        self._scale = scale

    def ends(self, level: float) -> tuple[float, float] | None:
        """Return the ends of the mean's interval; None where there is none."""
        if self.spread is None:
            return None
        return interval_ends(self.mean, self.spread, level, self._scale)

    def reach(self, level: float) -> tuple[float, float]:
        """Return the distances from the mean to the interval's lower and upper end; 0 without an interval."""
        found = self.ends(level)
        return (0.0, 0.0) if found is None else (self.mean - found[0], found[1] - self.mean)


def _fitted(
    values: tuple[np.ndarray, np.ndarray], people: tuple[np.ndarray, np.ndarray]
) -> RaterGls:
    group = np.repeat([0, 1], [len(one) for one in values])
    person = codes(np.concatenate(people))
    counts = np.zeros((int(person.max()) + 1, 2))
    np.add.at(counts, (person, group), 1.0)
    means = np.array([one.mean() for one in values])
    return RaterGls(means, group, person, np.concatenate(values) - means[group], counts, 0.0)


def _robust(gap: Gap, level: float, *, tells: bool) -> Difference:
    """Return the difference by Student's t; without an interval where a group does not vary."""
    from scipy.special import stdtr, stdtrit

    p = 2 * float(stdtr(gap.df, -abs(gap.difference) / gap.error))
    if not tells:
        return Difference(None, None, p)
    half = float(stdtrit(gap.df, 0.5 + level / 2)) * gap.error
    return Difference(gap.difference - half, gap.difference + half, p)


def _p_value(ends: Callable[[float], tuple[float, float]]) -> float:
    """Return 1 less the level at which an interval ends at 0."""
    from scipy.optimize import brentq

    def nearest(log_p: float) -> float:
        """Return the distance of 0 from the interval, below 0 where the interval contains it."""
        low, high = ends(1 - float(np.exp(log_p)))
        return max(low, -high)

    least, most = float(np.log(LEAST_P)), float(np.log1p(-1e-9))
    if nearest(least) > 0:
        return LEAST_P
    if nearest(most) < 0:
        return 1.0
    return float(np.exp(brentq(nearest, least, most)))
