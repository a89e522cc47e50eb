"""Rater effects and the noise of a mean rating, estimated before a fit.

Both are estimated from the bots of a fold alone. Rater effects are random effects together with fixed bot effects
(Henderson's mixed model equations), their variance by moments (Searle, Casella and McCulloch 1992, ch. 3), so
that a rater with few ratings is hardly moved and what differs between bots is never taken for a rater's habit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.ratings import Ratings

MOST_RATINGS = 5
"""More ratings of one conversation count as so many: the noise of their mean hardly falls any further."""


@dataclass(frozen=True, slots=True)
class RatingNoise:
    """Every single rating of the conversations of a design, by number.

    Attributes:
        value: (R,) the target as this rater gave it.
        row: (R,) the conversation's row in the design.
        bot: (R,) number of its bot.
        rater: (R,) number of its rater, −1 where unknown.
        n_rows: conversations in all.
        n_bots: bots in all.
    """

    value: np.ndarray
    row: np.ndarray
    bot: np.ndarray
    rater: np.ndarray
    n_rows: int
    n_bots: int

    @classmethod
    def of(
        cls,
        ratings: Ratings | None,
        targets: Sequence[str],
        ids: np.ndarray,
        bots: np.ndarray,
        y: np.ndarray,
    ) -> RatingNoise:
        """Match the ratings with the rows, bots and raters of a design.

        Args:
            ratings: None if the raters are unknown: each conversation's target then counts as one rating.
            targets: dimensions whose mean is predicted.
            ids, bots, y: (n,) conversation, bot number and target of the design's rows.
        """
        n_rows, n_bots = len(y), int(bots.max(initial=-1)) + 1
        if ratings is None:
            rows = np.arange(n_rows)
            return cls(y, rows, bots, np.full(n_rows, -1), n_rows, n_bots)
        import pandas as pd

        place = pd.Series(np.arange(n_rows), index=ids)
        row = pd.Series(ratings.conversation).map(place).to_numpy(dtype=float)
        value = ratings.values(targets)
        # Numbers by hash are the order of first appearance, −1 where there is no name.
        rater = pd.factorize(ratings.rater)[0]
        keep = np.isfinite(row) & np.isfinite(value)
        row = row[keep].astype(int)
        return cls(value[keep], row, bots[row], rater[keep], n_rows, n_bots)

    @property
    def counts(self) -> np.ndarray:
        """(n,) ratings per conversation, at least 1 and at most `MOST_RATINGS`."""
        return np.clip(np.bincount(self.row, minlength=self.n_rows), 1, MOST_RATINGS)

    def reliability(self, bots: np.ndarray) -> float:
        """Return the intraclass correlation of two ratings of one conversation within these bots; 0 if unknown.

        Args:
            bots: (K,) which bots take part.
        """
        keep = bots[self.bot]
        value, row, bot = self.value[keep], self.row[keep], self.bot[keep]
        number = np.bincount(row, minlength=self.n_rows).astype(float)
        there = number > 0
        mean = np.divide(
            np.bincount(row, weights=value, minlength=self.n_rows),
            number,
            out=np.zeros(self.n_rows),
            where=there,
        )
        n_free = len(value) - there.sum()
        if n_free < 1:
            return 0.0
        within = float(((value - mean[row]) ** 2).sum() / n_free)
        bot_mean = _group_means(value, bot, self.n_bots)
        n_between = there.sum() - len(np.unique(bot))
        if n_between < 1:
            return 0.0
        between = float(((mean[row] - bot_mean[bot]) ** 2).sum() / n_between)
        size = (len(value) - (number**2).sum() / len(value)) / max(there.sum() - 1, 1)
        true = max(0.0, (between - within) / size)
        return true / (true + within) if true + within > 0 else 0.0

    def precision(self, bots: np.ndarray) -> np.ndarray:
        """Return (`MOST_RATINGS` + 1,) weights of a conversation by its number of ratings; 1 for one rating.

        The variance of the mean of m ratings is proportional to ρ + (1 − ρ) / m (Spearman-Brown).
        """
        m = np.arange(MOST_RATINGS + 1)
        return m / (1.0 + (m - 1.0) * self.reliability(bots))

    def rater_effects(self, bots: np.ndarray) -> np.ndarray:
        """Return by how much the raters of each conversation rate above others, (n,), learned from these bots.

        It is 0 where the raters are unknown or did not rate these bots.
        """
        moved = np.zeros(self.n_rows)
        number = np.bincount(self.row, minlength=self.n_rows)
        total = np.bincount(self.row, weights=self._effects(bots), minlength=self.n_rows)
        return np.divide(total, number, out=moved, where=number > 0)

    def _effects(self, bots: np.ndarray) -> np.ndarray:
        """Return the effect of each rating's rater, (R,); 0 where unknown."""
        keep = bots[self.bot] & (self.rater >= 0)
        if not keep.any():
            return np.zeros(len(self.value))
        effects = _random_effects(
            self.value[keep],
            self.bot[keep],
            self.rater[keep],
            self.n_bots,
            int(self.rater.max()) + 1,
        )
        return np.where(self.rater >= 0, effects[self.rater], 0.0)


def _random_effects(
    value: np.ndarray, bot: np.ndarray, rater: np.ndarray, n_bots: int, n_raters: int
) -> np.ndarray:
    """Return (n_raters,) best linear unbiased predictions of the raters' effects together with fixed bot effects."""
    zero = np.zeros(n_raters)
    number = np.bincount(rater, minlength=n_raters).astype(float)
    there = number > 0
    n_within = len(value) - there.sum()
    if there.sum() < 2 or n_within < 1:
        return zero  # one rating each: a rater's habit and chance cannot be told apart
    rest = value - _group_means(value, bot, n_bots)[bot]
    mean = _group_means(rest, rater, n_raters)
    error = float(((rest - mean[rater]) ** 2).sum() / n_within)
    between = float((number * mean**2).sum() / (there.sum() - 1))
    size = (len(value) - (number**2).sum() / len(value)) / (there.sum() - 1)
    spread = (between - error) / size
    if spread <= 0 or error <= 0:
        return zero
    weight = number + error / spread
    table = np.zeros((n_bots, n_raters))
    np.add.at(table, (bot, rater), 1.0)
    left = np.diag(table.sum(axis=1)) - (table / weight) @ table.T
    sums = np.bincount(rater, weights=value, minlength=n_raters)
    right = np.bincount(bot, weights=value, minlength=n_bots) - (table / weight) @ sums
    fixed = np.linalg.lstsq(left, right, rcond=None)[0]
    return (sums - fixed @ table) / weight


def _group_means(values: np.ndarray, groups: np.ndarray, n: int) -> np.ndarray:
    number = np.bincount(groups, minlength=n)
    total = np.bincount(groups, weights=values, minlength=n)
    return np.divide(total, number, out=np.zeros(n), where=number > 0)
