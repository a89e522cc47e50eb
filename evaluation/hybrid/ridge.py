"""Ridge regression without one bot, for every bot, its penalty and blocks chosen without it too.

Hoerl and Kennard (1970), with nested leave-bot-out: to predict bot k, every candidate is fitted without k and
each other bot j in turn, and the one whose predictions come closest to the other bots' mean ratings is
fitted without k. Standardising, rater effects and rating noise are learned inside each of these fits.

A fit without any set of bots needs sums over its bots only: the rows of a bot are reduced once to their count,
sums and cross-products, and a fit adds those of its bots. (Least squares would lose digits that way; the
penalty keeps the system well-conditioned.) Where there are fewer conversations than columns, blocks are
turned into the space that the conversations span, which changes no ridge prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evaluation.hybrid.leastsquares import Line
from evaluation.hybrid.ratings import Ratings

CONSTANT = 1e-10
"""A column whose variance in a fold is less than this share of that over all bots is constant there."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that enter together.

    Attributes:
        columns: which of the design's.
        together: one scale for all, as for the directions of an embedding, which mean something only
            relative to each other; otherwise each column has its own.
    """

    name: str
    columns: np.ndarray
    together: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """Blocks and the penalty per conversation on the slopes of the standardised columns."""

    blocks: tuple[str, ...]
    penalty: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """Slopes without some bots, for every candidate.

    Prediction is linear in the ratings, so slopes are kept as the answer to each bot's mean rating and, last,
    to what is left of the ratings beside the bots' means.

    Attributes:
        slopes: (C, q, K + 1) per unit of the inner columns.
        centre: (q,) weighted mean of the inner columns.
        level: (K + 1,) weighted mean rating.
        varies: (q,) columns that are not constant.
        spread: (q,) standard deviations by which columns were divided.
    """

    slopes: np.ndarray
    centre: np.ndarray
    level: np.ndarray
    varies: np.ndarray
    spread: np.ndarray
    gram: np.ndarray


class RidgeFolds:
    """All fits that leave out one bot or two.

    Args:
        x: (n, p) features.
        y: (n,) targets.
        codes: (n,) number of each row's bot, 0 … K−1.
        names: (K,) the bots.
        blocks: of the columns; every column in one.
        candidates: what to choose from.
        ratings: of these rows.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        codes: np.ndarray,
        names: Sequence[str],
        blocks: Sequence[Block],
        candidates: Sequence[Candidate],
        ratings: Ratings,
    ) -> None:
        self.bots = tuple(names)
        self.candidates = tuple(candidates)
        self.n_features = x.shape[1]
        self.centre = x.mean(axis=0)
        self.scale = _spread(x.std(axis=0))
        self.target_mean = float(y.mean())
        self.counts = np.bincount(codes, minlength=len(names))
        self.bot_means = np.bincount(codes, weights=y, minlength=len(names)) / self.counts
        self._codes = codes
        self._ratings = ratings
        self._cells = ratings.counts
        self._rest = y - self.bot_means[codes]
        self._turn(x, blocks)
        self._sums(codes)
        members = {k: (k,) for k in range(len(names))}
        self._singles = {k: self._fit(out) for k, out in members.items()}
        self._inner = self._inner_responses()  # (K, K, C, K + 1)

    # --- sums

    def _turn(self, x: np.ndarray, blocks: Sequence[Block]) -> None:
        """Inner columns: centred, of unit size, blocks in the space that the conversations span."""
        parts, self._blocks, self._bases = [], {}, []
        start = 0
        for block in blocks:
            mine = x[:, block.columns] - self.centre[block.columns]
            size = np.sqrt((mine**2).mean(axis=0))
            size = np.full_like(size, np.sqrt((size**2).mean())) if block.together else size
            mine = mine / _spread(size)
            basis = None
            if block.together and len(mine) < mine.shape[1]:
                basis, triangle = np.linalg.qr(mine.T)  # (p_b, n), (n, n)
                mine = triangle.T
            parts.append(mine)
            stop = start + mine.shape[1]
            self._blocks[block.name] = slice(start, stop)
            self._bases.append((block, slice(start, stop), basis, _spread(size)))
            start = stop
        self._x = np.ascontiguousarray(np.concatenate(parts, axis=1))  # (n, q)

    def _sums(self, codes: np.ndarray) -> None:
        """Per bot and number of ratings: rows, sums and cross-products of the inner columns."""
        n_bots, q = len(self.bots), self._x.shape[1]
        self._levels = np.unique(self._cells)
        shape = (n_bots, len(self._levels))
        self._number = np.zeros(shape)
        self._total = np.zeros((*shape, q))
        self._gram = np.zeros((*shape, q, q))
        for k in range(n_bots):
            for c, level in enumerate(self._levels):
                rows = self._x[(codes == k) & (self._cells == level)]
                self._number[k, c] = len(rows)
                self._total[k, c] = rows.sum(axis=0)
                self._gram[k, c] = rows.T @ rows
        self.at = self._total.sum(axis=1) / self.counts[:, None]  # (K, q) bot means

    # --- fits

    def _fit(self, out: Sequence[int]) -> _Fit:
        """Fit every candidate without these bots."""
        from scipy.linalg import cho_factor, cho_solve

        members = np.ones(len(self.bots), dtype=bool)
        members[list(out)] = False
        precision = self._ratings.precision(members)
        weight = np.where(members[:, None], precision[self._levels], 0.0)  # (K, C)
        n = float((weight * self._number).sum())
        totals = np.einsum("kc,kcq->kq", weight, self._total)
        centre = totals.sum(axis=0) / n
        gram = np.tensordot(weight, self._gram, 2) / n - np.outer(centre, centre)

        row_weight = np.where(members[self._codes], precision[self._cells], 0.0)
        rest = row_weight * (self._rest - self._ratings.rater_effects(members))
        numbers = (weight * self._number).sum(axis=1)
        level = np.append(numbers, rest.sum()) / n  # (K + 1,)
        right = np.column_stack([totals.T, self._x.T @ rest]) / n - np.outer(centre, level)

        variance = np.diag(gram)
        varies = variance > CONSTANT
        spread = np.ones(len(centre))
        for block, columns, _, _ in self._bases:
            inside = np.clip(variance[columns], 0.0, None)
            if block.together:
                # A column more or less (the turned space) must not matter, so the sum over the block's own.
                inside = np.full_like(inside, inside.sum() / len(block.columns))
            spread[columns] = np.sqrt(inside)
        spread = np.where(varies, _spread(spread), 1.0)
        scaled = gram / np.outer(spread, spread)
        slopes = np.zeros((len(self.candidates), len(centre), right.shape[1]))
        for c, candidate in enumerate(self.candidates):
            used = np.zeros(len(centre), dtype=bool)
            for name in candidate.blocks:
                used[self._blocks[name]] = True
            used = np.flatnonzero(used & varies)
            system = scaled[np.ix_(used, used)]
            system[np.diag_indices(len(used))] += candidate.penalty
            solved = cho_solve(cho_factor(system, lower=True), right[used] / spread[used, None])
            slopes[c, used] = solved / spread[used, None]
        return _Fit(slopes, centre, level, varies, spread, scaled)

    def _inner_responses(self) -> np.ndarray:
        """(K, K, C, K + 1) answer of j's mean prediction without k and j, in the frame of all but k."""
        n_bots = len(self.bots)
        found = np.zeros((n_bots, n_bots, len(self.candidates), n_bots + 1))
        for k in range(n_bots):
            found[k, k] = self._common(self._singles[k], k, out=None)
        for pair in combinations(range(n_bots), 2):
            fit = self._fit(pair)
            for j, k in (pair, pair[::-1]):
                found[k, j] = self._common(fit, j, out=k)
        return found

    def _common(self, fit: _Fit, j: int, out: int | None) -> np.ndarray:
        """(C, K + 1) answer of the mean prediction of bot j with the intercept of all bots but `out`."""
        counts = self.counts.astype(float)
        if out is not None:
            counts[out] = 0.0
        share = counts / counts.sum()
        point = self.at[j] - share @ self.at
        return np.einsum("q,cqk->ck", point, fit.slopes) + np.append(share, 0.0)

    # --- what is chosen, and what follows

    def _errors(self, means: np.ndarray, k: int | None) -> np.ndarray:
        """(P, C) mean squared error over the bots but k of each candidate that saw neither them nor k.

        Args:
            means: (P, K) bots' mean ratings, real or permuted.
            k: None for the fit on all bots.
        """
        known = _with_one(means)
        others = [j for j in range(len(self.bots)) if j != k]
        error = np.zeros((len(means), len(self.candidates)))
        for j in others:
            predicted = known @ self._inner[j if k is None else k, j].T
            error += (predicted - means[:, [j]]) ** 2
        return error / len(others)

    def chosen(self, k: int | None) -> tuple[Candidate, np.ndarray]:
        """The candidate for the fit without bot k (None: for all bots), and all candidates' (C,) errors."""
        errors = self._errors(self.bot_means[None], k)[0]
        return self.candidates[int(errors.argmin())], errors

    def line(self, k: int | None) -> Line:
        """The fit without bot k, or on all bots, in raw units."""
        fit = self._fit(()) if k is None else self._singles[k]
        candidate, _ = self.chosen(k)
        known = _with_one(self.bot_means[None])[0]
        inner = fit.slopes[self.candidates.index(candidate)] @ known
        slopes, used = np.zeros(self.n_features), np.zeros(self.n_features, dtype=bool)
        eigen = [np.zeros(0)]
        for block, columns, basis, size in self._bases:
            if block.name not in candidate.blocks:
                continue
            mine = inner[columns] if basis is None else basis @ inner[columns]
            slopes[block.columns] = mine / size
            used[block.columns] = fit.varies[columns] if basis is None else size > 0
        columns = np.flatnonzero(fit.varies & (inner != 0))
        eigen = np.linalg.eigvalsh(fit.gram[np.ix_(columns, columns)]) + candidate.penalty
        level = float(fit.level @ known)
        intercept = level - float(fit.centre @ inner) - float(self.centre @ slopes)
        n = int(self.counts.sum() - (0 if k is None else self.counts[k]))
        condition = float(np.sqrt(eigen[-1] / eigen[0])) if len(eigen) else None
        return Line(intercept, slopes, used, n, condition, candidate.penalty, candidate.blocks)

    def predictions(
        self, means: np.ndarray, points: Mapping[int, np.ndarray], *, common: bool
    ) -> np.ndarray:
        """What the whole procedure, choices included, predicts from these mean ratings.

        Args:
            means: (P, K) bots' mean ratings, e.g. permuted.
            points: by bot number the (p,) mean features of the conversations predicted, raw units.
            common: whether all folds share one intercept.

        Returns:
            (P, len(points)).
        """
        known = _with_one(means)
        share = np.append(self.counts / self.counts.sum(), 0.0)
        found = np.empty((len(means), len(points)))
        for column, (k, point) in enumerate(points.items()):
            fit = self._singles[k]
            at = self._inside(point)
            step, level = (at, share) if common else (at - fit.centre, fit.level)
            answers = np.einsum("q,cqk->ck", step, fit.slopes) + level  # (C, K + 1)
            best = self._errors(means, k).argmin(axis=1)
            found[:, column] = np.einsum("pk,pk->p", known, answers[best])
        return found

    def _inside(self, point: np.ndarray) -> np.ndarray:
        """(p,) raw to (q,) inner columns."""
        found = np.zeros(len(self.at[0]))
        for block, columns, basis, size in self._bases:
            mine = (point[block.columns] - self.centre[block.columns]) / size
            found[columns] = mine if basis is None else mine @ basis
        return found


def _spread(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _with_one(means: np.ndarray) -> np.ndarray:
    return np.column_stack([means, np.ones(len(means))])
