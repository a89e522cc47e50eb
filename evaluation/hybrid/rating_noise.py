"""Rater effects and noise of mean ratings.

Both are estimated before a fit, from the bots of a fold only. Rater effects are random and bot effects fixed
(Henderson's mixed model equations), so effects of raters with few ratings are shrunk strongly, and differences between
bots are never attributed to raters. The reliability of ratings of one conversation is estimated by moments (Searle,
Casella and McCulloch 1992, ch. 3).

Adjusted bot means are mean ratings minus rater effects (equation (1) of the preset `strong`, version 3). The model of a
rating is bot + rater u + conversation c + e, with Var(u) = tau², Var(c) = omega² and Var(e) = sigma². tau² and omega² +
sigma² come from the restricted likelihood of raters, as in every comparison of two bots (`evaluation.stats.gls`);
omega² is that sum times the intraclass correlation of ratings of one conversation, adjusted for rater effects. Rater
effects are best linear unbiased predictions with fixed bot effects (Henderson 1975):

    b = L⁺ (Xᵀy − T C Zᵀy),  u = C (Zᵀy − Tᵀ b),  C = diag(1 / (m_g + (omega² + sigma²) / tau²)),  L = Xᵀ X − T C Tᵀ

where X and Z are the indicator columns of bots and raters, T = XᵀZ contains the numbers of ratings, and m_g is the
number of a rater. A bot's adjusted mean averages its conversations' means of y − u. It is linear in the ratings, m = A
y, so that

    Cov(m) = tau² A Z Zᵀ Aᵀ + omega² A Z_c Z_cᵀ Aᵀ + sigma² A Aᵀ,  A = P − H Zᵀ + F Xᵀ,
    H = P Z C + F T C,  F = P Z C Tᵀ L⁺

where P averages. No matrix is larger than bots × raters or bots × conversations. Unnamed raters have no effect; if all
are unnamed, Cov(m) is diagonal: s² / n_eff with n_eff = n / (1 + (k − 1) ICC) for k ratings of each conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.stats.gls import Likelihood, most_likely_share

MOST_RATINGS = 5
"""Maximum number of ratings counted per conversation; beyond it the noise of their mean hardly decreases."""


@dataclass(frozen=True, slots=True)
class RatingNoise:
    """Individual ratings of a design's conversations, as arrays of codes.

    Attributes:
        value: (R,) target value from this rater.
        row: (R,) row of the conversation in the design.
        bot: (R,) bot codes.
        rater: (R,) rater codes, −1 if unknown.
        n_rows: number of conversations.
        n_bots: number of bots.
    """

    value: np.ndarray
    row: np.ndarray
    bot: np.ndarray
    rater: np.ndarray
    n_rows: int
    n_bots: int

    @classmethod
    def match(
        cls, ratings: Ratings | None, targets: Sequence[str], ids: np.ndarray, bots: np.ndarray, y: np.ndarray
    ) -> RatingNoise:
        """Match ratings with a design's rows, bots and raters.

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
        # factorize assigns codes in order of first appearance, −1 without a name.
        rater = pd.factorize(ratings.rater)[0]
        keep = np.isfinite(row) & np.isfinite(value)
        row = row[keep].astype(int)
        return cls(value[keep], row, bots[row], rater[keep], n_rows, n_bots)

    @property
    def counts(self) -> np.ndarray:
        """(n,) ratings per conversation, at least 1 and at most `MOST_RATINGS`."""
        return np.clip(np.bincount(self.row, minlength=self.n_rows), 1, MOST_RATINGS)

    def reliability(self, bots: np.ndarray) -> float:
        """Return the intraclass correlation of ratings of one conversation.

        It is computed within these bots and 0 if unknown.

        Args:
            bots: (K,) mask of the bots to include.
        """
        keep = bots[self.bot]
        value, row, bot = self.value[keep], self.row[keep], self.bot[keep]
        number = np.bincount(row, minlength=self.n_rows).astype(float)
        is_rated = number > 0
        mean = np.divide(
            np.bincount(row, weights=value, minlength=self.n_rows), number, out=np.zeros(self.n_rows), where=is_rated
        )
        n_free = len(value) - is_rated.sum()
        if n_free < 1:
            return 0.0
        within = float(((value - mean[row]) ** 2).sum() / n_free)
        bot_mean = _group_means(value, bot, self.n_bots)
        n_between = is_rated.sum() - len(np.unique(bot))
        if n_between < 1:
            return 0.0
        between = float(((mean[row] - bot_mean[bot]) ** 2).sum() / n_between)
        size = (len(value) - (number**2).sum() / len(value)) / max(is_rated.sum() - 1, 1)
        true = max(0.0, (between - within) / size)
        return true / (true + within) if true + within > 0 else 0.0

    def precision(self, bots: np.ndarray) -> np.ndarray:
        """Return conversation weights by number of ratings, (`MOST_RATINGS` + 1,).

        The weight for one rating is 1.

        The variance of the mean of m ratings is proportional to ρ + (1 − ρ) / m (Spearman-Brown).
        """
        m = np.arange(MOST_RATINGS + 1)
        return m / (1.0 + (m - 1.0) * self.reliability(bots))


def _group_means(values: np.ndarray, groups: np.ndarray, n: int) -> np.ndarray:
    number = np.bincount(groups, minlength=n)
    total = np.bincount(groups, weights=values, minlength=n)
    return np.divide(total, number, out=np.zeros(n), where=number > 0)


_MOST_SHARE = 0.999
"""Maximum share of variance between raters; a larger one changes no mean but costs precision."""


@dataclass(frozen=True, slots=True)
class AdjustedMeans:
    """Bot means adjusted for rater effects.

    Attributes:
        rows: (n,) mean rating of each conversation, adjusted for rater effects if its bot is included.
        mean: (K,) bot means.
        covariance: (K, K) covariance of the means.
        df: (K,) Satterthwaite's degrees of freedom of their variances.
        variance: s² = omega² + sigma², variance of a rating within bots and raters; 0 if ratings do not vary within
            bots.
    """

    rows: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    df: np.ndarray
    variance: float


@dataclass(frozen=True, slots=True)
class _Raters:
    """Raters of ratings with bot codes 0 … K − 1.

    Attributes:
        table: (K, G) ratings that each rater gave to each bot, T.
        shrink: (G,) the diagonal of C; 0 where raters do not differ.
        inverse: (K, K) L⁺.
        effect: (G,) u.
        spread: tau².
        error: omega² + sigma².
        df: of the mean squares between raters and within them.
    """

    table: np.ndarray
    shrink: np.ndarray
    inverse: np.ndarray
    effect: np.ndarray
    spread: float
    error: float
    df: tuple[float, float]


def adjusted_means(y: np.ndarray, codes: np.ndarray, ratings: RatingNoise, members: np.ndarray) -> AdjustedMeans:
    """Return the adjusted means of selected bots, using their ratings only.

    Args:
        y: (n,) mean rating of each conversation.
        codes: (n,) bot codes.
        ratings: ratings of these conversations.
        members: (K',) selected bots.
    """
    indices = np.flatnonzero(members)
    place = np.full(len(members), -1)
    place[indices] = np.arange(len(indices))
    keep = members[ratings.bot]
    value, row, bot = ratings.value[keep], ratings.row[keep], place[ratings.bot[keep]]
    rater = np.where(ratings.rater[keep] >= 0, ratings.rater[keep], -1)
    known = rater >= 0
    names, number = np.unique(rater[known], return_inverse=True)
    raters = _raters(value[known], bot[known], number.reshape(-1), len(indices), len(names))
    effect = np.zeros(len(value))
    effect[known] = raters.effect[number]
    less = value - effect
    pooled, free = _pooled(less, bot, len(indices))

    n_given = np.bincount(row, minlength=len(y))
    moved = np.bincount(row, weights=effect, minlength=len(y)) / np.maximum(n_given, 1)
    rows = np.flatnonzero(members[codes])
    of_row = place[codes[rows]]
    n_rows = np.bincount(of_row, minlength=len(indices))
    less_of_row = y - moved
    mean = np.bincount(of_row, weights=less_of_row[rows], minlength=len(indices)) / n_rows
    error = raters.error if raters.spread > 0 else pooled
    icc = _icc(ratings, keep, less, members)
    parts = _parts(raters, row, bot, known, number.reshape(-1), n_rows)
    # A conversation without individual ratings counts as one rating by an unknown rater.
    unrated = np.diag(np.bincount(of_row[n_given[rows] == 0], minlength=len(indices)) / n_rows**2)
    between, together, alike = (part + unrated for part in parts)
    covariance = raters.spread * between + error * (icc * together + (1 - icc) * alike)
    variances = np.diag(covariance)
    df = _freedom(variances, np.diag(between), raters, free)
    return AdjustedMeans(less_of_row, mean, covariance, df, error)


def _raters(value: np.ndarray, bot: np.ndarray, rater: np.ndarray, n_bots: int, n_raters: int) -> _Raters:
    """Estimate rater effects and variances by restricted maximum likelihood."""
    table = np.zeros((n_bots, n_raters))
    np.add.at(table, (bot, rater), 1.0)
    bots, place = np.unique(bot, return_inverse=True)
    nothing = _Raters(
        table, np.zeros(n_raters), np.zeros((n_bots, n_bots)), np.zeros(n_raters), *(0.0, 0.0, (np.inf, np.inf))
    )
    if not len(bots) < len(value) or not 1 < n_raters < len(value):
        return nothing  # with one rating each, rater effects and noise cannot be separated
    likelihood = Likelihood(value, place.reshape(-1), rater, len(bots), n_raters)
    if likelihood.no_error():
        return nothing
    share = min(most_likely_share(likelihood)[0], _MOST_SHARE)
    if share <= 0:
        return nothing
    error = likelihood.solve(share)[2]
    spread = error * share / (1 - share)
    shrink = 1 / (table.sum(axis=0) + error / spread)
    matrix = np.diag(table.sum(axis=1)) - (table * shrink) @ table.T
    inverse = np.linalg.pinv(matrix, hermitian=True)
    centre = float(value.mean())
    sums = np.bincount(rater, weights=value - centre, minlength=n_raters)
    right = np.bincount(bot, weights=value - centre, minlength=n_bots) - (table * shrink) @ sums
    effect = shrink * (sums - (inverse @ right) @ table)
    groups = _groups(table)
    df_between = float(n_raters - groups)
    df_within = float(len(value) - len(bots) - n_raters + groups)
    return _Raters(table, shrink, inverse, effect, spread, error, (df_between, df_within))


def _groups(table: np.ndarray) -> int:
    """Count the connected components of the graph of bots and raters."""
    from scipy.sparse import bmat, csr_matrix
    from scipy.sparse.csgraph import connected_components

    bot_table = csr_matrix(table[table.sum(axis=1) > 0])
    return int(connected_components(bmat([[None, bot_table], [bot_table.T, None]]), directed=False)[0])


def _icc(ratings: RatingNoise, keep: np.ndarray, less: np.ndarray, members: np.ndarray) -> float:
    """Return the intraclass correlation within conversations, adjusted for raters."""
    value = ratings.value.copy()
    value[keep] = less
    return replace(ratings, value=value).reliability(members)


def _pooled(value: np.ndarray, bot: np.ndarray, n_bots: int) -> tuple[float, float]:
    """Return the pooled variance within bots and its degrees of freedom."""
    number = np.bincount(bot, minlength=n_bots)
    mean = np.bincount(bot, weights=value, minlength=n_bots) / np.maximum(number, 1)
    free = len(value) - int((number > 0).sum())
    return (float(((value - mean[bot]) ** 2).sum() / free) if free > 0 else 0.0), float(free)


def _parts(
    raters: _Raters, row: np.ndarray, bot: np.ndarray, known: np.ndarray, rater: np.ndarray, n_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the noise covariance's terms A Z Zᵀ Aᵀ, A Z_c Z_cᵀ Aᵀ and A Aᵀ, (K, K) each.

    Args:
        row, bot: (R,) codes of the ratings.
        known: (R,) mask of ratings with a named rater.
        rater: codes of these raters.
        n_rows: (K,) number of conversations of each bot.
    """
    rows, place, n_each = np.unique(row, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    weight = 1 / (n_each[place] * n_rows[bot])
    table = raters.table
    averaged = np.zeros_like(table)
    np.add.at(averaged, (bot[known], rater), weight[known])  # P Z
    shrunk = averaged * raters.shrink
    f = shrunk @ table.T @ raters.inverse
    h = shrunk + f @ (table * raters.shrink)

    nobody = np.bincount(bot[~known], weights=weight[~known] ** 2, minlength=len(table))
    moved = averaged + f @ table - h * table.sum(axis=0)  # A Z
    between = moved @ moved.T + np.diag(nobody)

    of_row = np.zeros((len(rows), len(table)))
    np.add.at(of_row, (place, bot), weight)
    np.add.at(of_row, place[known], (f[:, bot[known]] - h[:, rater]).T)
    together = of_row.T @ of_row

    squared_weights = np.bincount(bot, weights=weight**2, minlength=len(table))
    once = averaged.sum(axis=1)[:, None] * f.T - averaged @ h.T - f @ table @ h.T
    alike = np.diag(squared_weights) + once + once.T
    alike += (f * table.sum(axis=1)) @ f.T + (h * table.sum(axis=0)) @ h.T
    return between, together, alike


def _freedom(variances: np.ndarray, shares: np.ndarray, raters: _Raters, free: float) -> np.ndarray:
    """Return (K,) Satterthwaite's degrees of freedom.

    They follow from the mean squares between and within raters.

    Args:
        shares: (K,) share of tau² in each variance.
        free: degrees of freedom if raters do not differ.
    """
    if not raters.spread > 0:
        return np.full(len(variances), max(free, 1.0))
    df_between, df_within = (max(df, 1.0) for df in raters.df)
    # The expected mean square between raters is about size · tau² + error.
    size = float(raters.table.sum()) / raters.table.shape[1]
    between = size * raters.spread + raters.error
    of_between = shares / size * between
    of_within = variances - of_between
    return np.asarray(variances**2 / (of_between**2 / df_between + of_within**2 / df_within))
