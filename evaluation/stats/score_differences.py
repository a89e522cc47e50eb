"""Differences of two means on a scale, from their score intervals.

Student's t uses the observed spread of a bot's few ratings: for four ratings of 5 it is 0, and for twelve near the end
of a scale it is small exactly in those studies whose mean is too high. With [l, u] the score interval of each mean
(`evaluation.stats.means`), the difference has the interval (Newcombe 1998, Statistics in Medicine 17, method 10; Zou
and Donner 2008, Statistics in Medicine 27)

    low  = m_a − m_b − c √((m_a − l_a)² + (u_b − m_b)²)
    high = m_a − m_b + c √((u_a − m_a)² + (m_b − l_b)²),    c² = Var(m_a − m_b) / (Var(m_a) + Var(m_b)),

and at least Student's interval. A mean whose raters do not differ has no estimated variance; it gets the maximum that
its position on the scale allows, c is at least 1, and Student's interval is not used. The p-value is 1 minus the level
of the interval that ends at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from evaluation.stats.gls import Gap
from evaluation.stats.means import MeanSpread, score_ends

_MOST_T = 1e6
"""Value of t beyond which p counts as 0."""


@dataclass(frozen=True, slots=True)
class ScaledMean:
    """A mean on a scale.

    Attributes:
        variance: variance of the mean; 0 if its raters do not differ.
        n_units: number of raters, or of equally active raters with the same information.
        n: number of ratings.
    """

    mean: float
    variance: float
    n_units: float
    n: int

    def reach(self, t: float, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the distances from the mean to its interval's ends.

        Lower end first.

        Args:
            t: half width in standard errors.
            scale: its two ends.
        """
        # Adjusting for raters can move a mean to the end of its scale or beyond.
        mean = min(max(self.mean, scale[0]), scale[1])
        max_variance = (mean - scale[0]) * (scale[1] - mean) / max(self.n_units - 1, 1)
        spread = MeanSpread(min(self.variance, max_variance), 0.0, self.n_units)
        low, high = score_ends(mean, spread, t, scale)
        return mean - low, high - mean


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """Difference of two means with its interval at any level.

    Attributes:
        gap: by Student's t; its error counts only with `has_error`.
        first, second: the means.
        scale: its two ends; None for Student's interval alone, which requires `has_error`.
    """

    gap: Gap
    first: ScaledMean
    second: ScaledMean
    scale: tuple[float, float] | None

    @property
    def has_error(self) -> bool:
        """Return True if both bots' raters and their differences vary."""
        return min(self.gap.error, self.first.variance, self.second.variance) > 0

    def ends(self, level: float) -> tuple[float, float]:
        """Return the ends of the interval."""
        from scipy.special import stdtrit

        below, above = self._reach(float(stdtrit(self._df, 0.5 + level / 2)))
        return self.gap.difference - below, self.gap.difference + above

    def p_value(self) -> float:
        """Return the two-sided p-value of the hypothesis that the means are equal."""
        from scipy.optimize import brentq
        from scipy.special import stdtr

        difference = self.gap.difference

        def distance_of_0(t: float) -> float:
            below, above = self._reach(t)
            return difference - below if difference > 0 else -difference - above

        # If applicable, Student's interval is never the wider one beyond its own t.
        t = abs(difference) / self.gap.error if self.has_error else _MOST_T
        if difference == 0:
            t = 0.0
        elif self.scale is not None and distance_of_0(t) < 0:
            t = float(brentq(distance_of_0, 0.0, t, xtol=1e-12, rtol=1e-12))
        return 2 * float(stdtr(self._df, -t))

    @property
    def _df(self) -> float:
        if self.has_error:
            return self.gap.df
        sides = (self.first, self.second)
        unknown = [side for side in sides if not side.variance > 0] or sides
        return max(min(self.gap.df, *(side.n_units - 1 for side in unknown)), 1.0)

    def _reach(self, t: float) -> tuple[float, float]:
        """Return the distances from the difference to its interval's ends.

        Lower end first.
        """
        least = t * self.gap.error
        if self.scale is None:
            return least, least
        (down, up), (other_down, other_up) = (side.reach(t, self.scale) for side in (self.first, self.second))
        total = self.first.variance + self.second.variance
        shrink = self.gap.error / sqrt(total) if total > 0 else 1.0
        if not self.has_error:
            shrink, least = max(shrink, 1.0), 0.0
        return max(shrink * hypot(down, other_up), least), max(shrink * hypot(up, other_down), least)
