"""Comparison of bots within conditions, with all conditions weighted equally.

If people meet bots under several conditions (scenarios, personas), a bot that more often had the pleasant ones would
look better. With m_bc the mean of bot b's ratings under condition c of C,

    m_b = Σ_c m_bc / C,    m_a − m_b = Σ_c (m_ac − m_bc) / C.

The m_bc are generalised least squares means (`evaluation.stats.gls`) with a cell for each bot and condition, so errors
are clustered by rater (CR2) whether raters see one condition or all of them. A condition counts only if every bot has
`FEWEST_RATERS` raters under it (`shared_conditions`), so that all bots are compared under the same conditions. Without
conditions every bot is its own cell, and the results equal those of `gls`.

A cell whose few ratings are all equal has no estimated variance, but its mean is not certain. If other cells of its bot
vary, it borrows the pooled variance of all cells that do (`RaterGls.borrowed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evaluation.stats.gls import Gap, RaterGls, fit_gls, label_codes
from evaluation.stats.means import NO_VALUE, ONE_GROUP, Interval, MeanSpread, interval_ends, mean_interval

FEWEST_RATERS = 2
"""Minimum number of raters of every bot under a condition; with one rater the spread is unknown."""
MOST_CELLS = 120
"""Maximum number of bots times conditions, because the cost is quadratic. Above it, conditions are ignored."""


def shared_conditions(bots: np.ndarray, conditions: np.ndarray, raters: np.ndarray) -> np.ndarray:
    """Select the ratings used to compare bots.

    Returns (k,), all False if no condition is shared or there are too many. A bot with fewer raters overall does not
    prevent comparisons of the others; its ratings stay.

    Args:
        bots, conditions, raters: (k,) of each rating.
    """
    people: dict[tuple[str, str | None], set[Any]] = {}
    for bot, condition, rater in zip(bots.tolist(), conditions.tolist(), raters.tolist(), strict=True):
        people.setdefault((bot, condition), set()).add(rater)
        people.setdefault((bot, None), set()).add(rater)
    every = {bot for bot in set(bots.tolist()) if len(people[bot, None]) >= FEWEST_RATERS}
    shared = [
        condition
        for condition in sorted(set(conditions.tolist()))
        if all(len(people.get((bot, condition), ())) >= FEWEST_RATERS for bot in every)
    ]
    if not every or not shared or len(shared) * len(every) > MOST_CELLS:
        return np.zeros(len(bots), dtype=bool)
    return np.isin(conditions, shared) | ~np.isin(bots, sorted(every))


@dataclass(frozen=True, eq=False)
class BotFit:
    """Means of bots over the cells of a fit.

    Attributes:
        fit: fit of the cells.
        weights: (B, K) weights of the cells in each bot's mean; rows sum to 1.
        bot: (k,) bot codes of the ratings.
    """

    fit: RaterGls
    weights: np.ndarray
    bot: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """(B,) means for the average rater, conditions weighted equally."""
        return self.weights @ self.fit.means

    @property
    def n_raters(self) -> np.ndarray:
        """(B,) number of raters of each bot."""
        return ((self.fit.counts @ (self.weights > 0).T) > 0).sum(axis=0)

    @property
    def fewest_raters(self) -> np.ndarray:
        """(B,) number of raters in each bot's smallest cell."""
        return np.array([self.fit.n_raters[row > 0].min() for row in self.weights])

    @cached_property
    def borrowed(self) -> np.ndarray:
        """(B,) variance borrowed for cells without variance.

        Each bot's mean borrows for its cells whose ratings are all equal.

        A bot that varies in no cell borrows nothing: its mean has no estimated variance at all
        (`evaluation.stats.score_differences`).
        """
        borrowed = self.weights**2 @ self.fit.borrowed
        varies = (self.weights > 0) @ (self.fit.borrowed == 0) > 0
        return np.where(varies, borrowed, 0.0)

    def gap(self, i: int, j: int) -> Gap:
        """Return the difference of two bots' means, i minus j.

        With its error and degrees of freedom.
        """
        gap = self.fit.combined(self.weights[i] - self.weights[j])
        added = float(self.borrowed[[i, j]].sum())
        return replace(gap, error=float(np.sqrt(gap.error**2 + added))) if gap.error and added else gap

    def variance(self, i: int) -> float:
        """Return a bot mean's variance, 0 if no cell varies."""
        return float(self.fit.combined(self.weights[i]).error ** 2 + self.borrowed[i])

    def clustered(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means' covariance over groups, and the numbers of groups.

        (B, B), and (B,) by bot.

        It is the sandwich of the groups' influences with the factor root n_a n_b / ((n_a − 1) (n_b − 1)) for cells a
        and b.

        Args:
            groups: (k,) codes.
        """
        n_groups, n_cells = int(groups.max()) + 1, len(self.fit.means)
        sums = np.zeros((n_groups, n_cells))
        np.add.at(sums, groups, self.fit.influence)
        has = np.zeros((n_groups, n_cells), dtype=bool)
        has[groups, self.fit.bot] = True
        n = has.sum(axis=0).astype(float)
        factor = np.sqrt(n / np.maximum(n - 1, 1))
        cells = (sums.T @ sums) * factor[:, None] * factor[None]
        of_bots = ((has.astype(float) @ (self.weights > 0).T) > 0).sum(axis=0).astype(float)
        return self.weights @ cells @ self.weights.T, of_bots


def fit_bots(y: np.ndarray, bot: np.ndarray, rater: np.ndarray, conditions: np.ndarray | None = None) -> BotFit:
    """Fit the bots' means, within conditions if there are any.

    Args:
        y, bot, rater: as `fit_gls`.
        conditions: (k,) condition label of each rating; every bot has ratings under each of them.
    """
    if conditions is None:
        fit = fit_gls(y, bot, rater)
        return BotFit(fit, np.eye(len(fit.means)), bot)
    condition = label_codes(conditions.astype(str))
    pairs, cell = np.unique(np.stack([bot, condition], axis=1), axis=0, return_inverse=True)
    return BotFit(fit_gls(y, cell.reshape(-1), rater), _weights(pairs[:, 0]), bot)


def _weights(bots: np.ndarray) -> np.ndarray:
    """Return equal weights of the cells of each bot: (B, K)."""
    membership = bots[None] == np.arange(int(bots.max()) + 1)[:, None]
    return membership / membership.sum(axis=1, keepdims=True)


def mean_within(
    values: np.ndarray,
    units: np.ndarray,
    level: float,
    *,
    conditions: np.ndarray | None = None,
    scale: tuple[float, float] | None = None,
    things: np.ndarray | None = None,
) -> Interval:
    """Return one bot's mean with its interval, conditions weighted equally.

    Without conditions this is `mean_interval`. With conditions, the mean is the average of their plain means;
    correlation within raters does not affect the weights. Its variance is the largest over raters, over things, and
    over both.

    Args:
        values, units, things, level, scale: as `mean_interval`; units and things as codes.
        conditions: (k,) condition label of each value.
    """
    if conditions is None:
        return mean_interval(values, units, level, scale=scale, things=things)
    keep = np.isfinite(values)
    y, cell = values[keep], label_codes(conditions[keep].astype(str))
    if not len(y):
        return Interval(None, None, None, 0, NO_VALUE)
    means = np.bincount(cell, weights=y) / np.bincount(cell)
    mean = float(means.mean())

    def over(groups: np.ndarray) -> MeanSpread | None:
        codes = label_codes(groups[keep])
        counts = np.zeros((int(codes.max()) + 1, len(means)))
        np.add.at(counts, (codes, cell), 1.0)
        if (np.count_nonzero(counts, axis=0) < FEWEST_RATERS).any():
            return None
        fit, weights = RaterGls(means, cell, codes, y - means[cell], counts, 0.0), np.full(len(means), 1 / len(means))
        gap = fit.borrow(fit.combined(weights), weights)
        return MeanSpread(gap.error**2, gap.df if gap.error else len(counts) - 1.0, len(counts))

    spread = over(units)
    if spread is None:
        return Interval(mean, None, None, len(y), ONE_GROUP)
    if things is not None and (of_things := over(things)) is not None:
        of_cells = over(units * (int(things.max()) + 1) + things)
        crossed = spread.variance + of_things.variance - (of_cells.variance if of_cells else 0.0)
        df = min(spread.df, of_things.df)
        widest = MeanSpread(crossed, df, min(spread.n_units, of_things.n_units))
        spread = max(spread, of_things, widest, key=lambda candidate: (candidate.variance, -candidate.n_units))
    low, high = interval_ends(mean, spread, level, scale) or (None, None)
    return Interval(mean, low, high, len(y))


def conditions_or_none(conditions: Sequence[Any] | np.ndarray | None) -> np.ndarray | None:
    """Return the labels of conditions as an array, or None."""
    return None if conditions is None else np.asarray(conditions, dtype=object)
