"""Ridge regression without one bot, for every bot, its penalty and blocks chosen without it too.

Hoerl and Kennard (1970), with nested leave-bot-out: to predict bot k, every candidate is fitted without k and
each other bot j in turn, and the one with the smallest squared error over the conversations of the bots j is
fitted without k. (Over conversations, not over the bots' means: a handful of means would choose by chance.)
Standardising, rater effects and rating noise are learned inside each of these fits.

A fit without any set of bots needs sums over its bots only: the rows of a bot are reduced once to their count,
sums and cross-products, and a fit adds those of its bots. (Least squares would lose digits that way; the
penalty keeps the system well-conditioned.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evaluation.hybrid.least_squares import LinearPredictor
from evaluation.hybrid.rating_noise import RatingNoise

CONSTANT = 1e-10
"""A column whose variance in a fold is less than this share of that over all bots is constant there."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns, by number, that enter together."""

    name: str
    columns: np.ndarray


@dataclass(frozen=True, slots=True)
class Candidate:
    """Blocks and the penalty per conversation on the slopes of the standardised columns."""

    blocks: tuple[str, ...]
    penalty: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """Slopes without some bots, for every candidate.

    Prediction is linear in the ratings, so slopes are kept as the answer to each bot's mean rating and, last,
    to what is left of the ratings besides the bots' means.

    Attributes:
        slopes: (C, p, K + 1) per unit of the inner columns.
        centre: (p,) weighted mean of the inner columns.
        level: (K + 1,) weighted mean rating.
        varies: (p,) columns that are not constant.
        gram: (p, p) correlations of the columns.
    """

    slopes: np.ndarray
    centre: np.ndarray
    level: np.ndarray
    varies: np.ndarray
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
        ratings: RatingNoise,
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
        self._blocks = {block.name: block.columns for block in blocks}
        # Columns are centred and scaled inside: fits stay the same and rounding errors stay small.
        self._x = (x - self.centre) / self.scale
        self._sums()
        self._singles = [self._fit((k,)) for k in range(len(names))]
        self._forms = self._error_forms()

    # --- sums

    def _sums(self) -> None:
        """Count rows and add up sums and cross-products of the inner columns, per bot and number of ratings."""
        n_bots, p = len(self.bots), self.n_features
        self._levels = np.unique(self._cells)
        shape = (n_bots, len(self._levels))
        self._number = np.zeros(shape)
        self._total = np.zeros((*shape, p))
        self._gram = np.zeros((*shape, p, p))
        self._with_rest = np.zeros((n_bots, p))
        self._rest_squared = np.bincount(self._codes, weights=self._rest**2, minlength=n_bots)
        for k in range(n_bots):
            mine = self._codes == k
            self._with_rest[k] = self._x[mine].T @ self._rest[mine]
            for c, level in enumerate(self._levels):
                rows = self._x[mine & (self._cells == level)]
                self._number[k, c] = len(rows)
                self._total[k, c] = rows.sum(axis=0)
                self._gram[k, c] = rows.T @ rows
        self._at = self._total.sum(axis=1) / self.counts[:, None]  # (K, p) bot means

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
        spread = np.where(varies, np.sqrt(np.clip(variance, CONSTANT, None)), 1.0)
        scaled = gram / np.outer(spread, spread)
        slopes = np.zeros((len(self.candidates), len(centre), right.shape[1]))
        for c, candidate in enumerate(self.candidates):
            used = np.zeros(len(centre), dtype=bool)
            for name in candidate.blocks:
                used[self._blocks[name]] = True
            used = np.flatnonzero(used & varies)
            if not len(used):
                continue  # nothing varies: the prediction is the mean
            system = scaled[np.ix_(used, used)]
            system[np.diag_indices(len(used))] += candidate.penalty
            solved = cho_solve(cho_factor(system, lower=True), right[used] / spread[used, None])
            slopes[c, used] = solved / spread[used, None]
        return _Fit(slopes, centre, level, varies, scaled)

    def _error_forms(self) -> np.ndarray:
        """Return squared errors as quadratic forms of the mean ratings (and 1): (K + 1, C, K + 1, K + 1).

        Form k is that of all conversations but bot k's, each predicted without k and its own bot, with one
        intercept for them; form K is that of all conversations.
        """
        n_bots = len(self.bots)
        found = np.zeros((n_bots + 1, len(self.candidates), n_bots + 1, n_bots + 1))
        for j in range(n_bots):
            found[n_bots] += self._form(self._singles[j], j, out=None)
        for pair in combinations(range(n_bots), 2):
            fit = self._fit(pair)
            for j, k in (pair, pair[::-1]):
                found[k] += self._form(fit, j, out=k)
        return found

    def _form(self, fit: _Fit, j: int, out: int | None) -> np.ndarray:
        """Sum the squared answers of the errors of j's conversations to the mean ratings: (C, K + 1, K + 1).

        The error of conversation i is (a + Sᵀ(x_i − c) − rest_i e) · (means, 1): a says how the intercept less
        j's own mean depends on the means, S are the slopes, c is the mean of all but `out`, e the last unit
        vector. A bot's `rest` sums to 0.
        """
        counts = self.counts.astype(float)
        if out is not None:
            counts[out] = 0.0
        share = counts / counts.sum()
        n, at, centre = float(self.counts[j]), self._at[j], share @ self._at
        a = np.append(share, 0.0)
        a[j] -= 1.0
        about_zero = self._gram[j].sum(axis=0)
        spread = about_zero - n * (np.outer(centre, at) + np.outer(at, centre) - np.outer(centre, centre))
        crossed = np.outer(n * (at - centre), a)  # (p, K + 1)
        crossed[:, -1] -= self._with_rest[j]
        form = n * np.outer(a, a)
        form[-1, -1] += self._rest_squared[j]
        turned = np.swapaxes(fit.slopes, 1, 2)  # (C, K + 1, p)
        mixed = turned @ crossed
        return form + mixed + np.swapaxes(mixed, 1, 2) + turned @ (spread @ fit.slopes)

    # --- what is chosen, and what follows

    def _errors(self, means: np.ndarray, k: int | None) -> np.ndarray:
        """Return the (P, C) mean squared error of each candidate, with bot k left out of everything.

        Args:
            means: (P, K) bots' mean ratings, real or permuted.
            k: None for the fit on all bots.
        """
        known = _with_one(means)
        form = self._forms[len(self.bots) if k is None else k]
        n = self.counts.sum() - (0 if k is None else self.counts[k])
        return np.einsum("pa,cab,pb->pc", known, form, known, optimize=True) / n

    def chosen(self, k: int | None) -> tuple[Candidate, np.ndarray]:
        """Return the candidate for the fit without bot k (None: for all bots), and all candidates' (C,) errors."""
        errors = self._errors(self.bot_means[None], k)[0]
        return self.candidates[int(errors.argmin())], errors

    def line(self, k: int | None) -> LinearPredictor:
        """Return the fit without bot k, or on all bots if k is None, in raw units."""
        fit = self._fit(()) if k is None else self._singles[k]
        candidate, _ = self.chosen(k)
        known = _with_one(self.bot_means[None])[0]
        inner = fit.slopes[self.candidates.index(candidate)] @ known
        slopes = inner / self.scale
        used = np.zeros(self.n_features, dtype=bool)
        used[np.concatenate([self._blocks[name] for name in candidate.blocks])] = True
        used &= fit.varies
        eigen = np.linalg.eigvalsh(fit.gram[np.ix_(used, used)]) + candidate.penalty
        level = float(fit.level @ known)
        intercept = level - float(fit.centre @ inner) - float(self.centre @ slopes)
        n = int(self.counts.sum() - (0 if k is None else self.counts[k]))
        condition = float(np.sqrt(eigen[-1] / eigen[0])) if len(eigen) else None
        return LinearPredictor(intercept, slopes, used, n, condition, candidate.penalty, candidate.blocks)

    def predictions(self, means: np.ndarray, points: Mapping[int, np.ndarray], *, common: bool) -> np.ndarray:
        """Return the predictions of the whole procedure, choices included, from these mean ratings.

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
            at = (point - self.centre) / self.scale
            step, level = (at, share) if common else (at - fit.centre, fit.level)
            answers = np.einsum("q,cqk->ck", step, fit.slopes) + level  # (C, K + 1)
            best = self._errors(means, k).argmin(axis=1)
            found[:, column] = np.einsum("pk,pk->p", known, answers[best])
        return found


def _spread(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _with_one(means: np.ndarray) -> np.ndarray:
    return np.column_stack([means, np.ones(len(means))])
