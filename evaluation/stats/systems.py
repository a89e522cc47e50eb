"""Differences between pairs of systems, with one-sided permutation p-values.

The unit is the cell: the mean of a system's replies to a context. Two systems are compared on their shared contexts if
these make up at least half of each system's, otherwise on all cells of both. On shared contexts the signs of the
differences are permuted, otherwise the systems of the cells. All permutations are used if there are at most
`N_PERMUTATIONS`. Permuted differences equal to the observed one count half, so that the order of the two systems does
not matter.

The normal limit has the permutation variance: Σ d² for the sum of shared differences d, and s² (1/n₁ + 1/n₂) for the
difference of two means, where s² is the pooled variance of both systems' cells. It needs only sums, so many resamples
take a few matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from evaluation.stats.constants import MOST_NUMBERS

N_PERMUTATIONS = 1000
FEWEST_CELLS = 3
"""Minimum number of contexts per system."""


@dataclass(frozen=True)
class SystemCells:
    """Cells of several score columns, NaN for missing ones.

    Attributes:
        values: (columns, contexts, systems); people's scores come first.
        systems: names.
        left_out: systems with too few contexts.
    """

    values: np.ndarray
    systems: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_columns(cls, columns: Sequence[np.ndarray], contexts: np.ndarray, systems: np.ndarray) -> SystemCells:
        """Average each system's replies to each context.

        Replies without a system's name, or with a missing value in any column, are excluded.

        Args:
            columns: each (N,), NaN if undefined.
            contexts, systems: (N,) names, empty if unknown.
        """
        known = np.isfinite(np.vstack(columns)).all(axis=0) & (systems != "")
        names = sorted({str(name) for name in systems[known]})
        _, context_codes = np.unique(contexts[known].astype(str), return_inverse=True)
        system_codes = np.searchsorted(names, systems[known].astype(str)) if names else context_codes
        shape = (int(context_codes.max()) + 1 if len(context_codes) else 0, len(names))
        place = context_codes * len(names) + system_codes
        counts = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.stack(
                [np.bincount(place, column[known], minlength=counts.size).reshape(shape) / counts for column in columns]
            )
        enough = (counts > 0).sum(axis=0) >= FEWEST_CELLS
        cells = values[:, :, enough]
        cells = cells[:, np.isfinite(cells[0]).any(axis=1)]
        return cls(
            cells,
            tuple(name for name, is_kept in zip(names, enough, strict=True) if is_kept),
            tuple(name for name, is_kept in zip(names, enough, strict=True) if not is_kept),
        )

    @property
    def filled(self) -> np.ndarray:
        """Return the values minus their column's mean; 0 for missing cells."""
        return np.nan_to_num(self.values - np.nanmean(self.values, axis=(1, 2), keepdims=True))

    @property
    def presence(self) -> np.ndarray:
        """Return (contexts, systems) with 1 for cells with a value, otherwise 0."""
        return np.isfinite(self.values[0]).astype(float)

    def pairs(self) -> SystemPairs:
        """Return the pairs of systems."""
        first, second = np.triu_indices(len(self.systems), k=1)
        presence = self.presence
        shared = presence[:, first] * presence[:, second]
        n = presence.sum(axis=0)
        return SystemPairs(first, second, shared, 2 * shared.sum(axis=0) >= np.maximum(n[first], n[second]))

    def means(self, weights: np.ndarray) -> np.ndarray:
        """Return weighted means, (columns, B, systems); NaN where a system has no cell."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((weights @ np.nan_to_num(self.values)) / (weights @ self.presence))


@dataclass(frozen=True)
class SystemPairs:
    """P pairs of systems.

    Attributes:
        first, second: (P,) numbers of the systems.
        both: (contexts, P) 1 if both have a cell.
        is_shared: (P,) True if compared on these contexts only.
    """

    first: np.ndarray
    second: np.ndarray
    shared: np.ndarray
    is_shared: np.ndarray

    def differences(self, filled: np.ndarray) -> np.ndarray:
        """Return (…, contexts, P) differences on shared contexts, 0 elsewhere."""
        return np.asarray((filled[..., self.first] - filled[..., self.second]) * self.shared)

    def compared(
        self, n: np.ndarray, sums: np.ndarray, squares: np.ndarray, n_both: np.ndarray, d: np.ndarray, dd: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean differences and one-sided p in the normal limit, (B, P) each.

        Args:
            n, sums, squares: (B, systems) of the cells.
            n_both, d, dd: (B, P) of the shared differences.
        """
        from scipy.special import ndtr

        a, b = self.first, self.second
        with np.errstate(invalid="ignore", divide="ignore"):
            total, pooled = n[:, a] + n[:, b], sums[:, a] + sums[:, b]
            apart = sums[:, a] / n[:, a] - sums[:, b] / n[:, b]
            variance = (squares[:, a] + squares[:, b] - pooled**2 / total) / (total - 1)
            error = np.sqrt(np.maximum(variance, 0.0) * total / (n[:, a] * n[:, b]))
            apart = np.where(self.is_shared, d / n_both, apart)
            error = np.where(self.is_shared, np.sqrt(dd) / n_both, error)
            z = np.where(error > 0, apart / error, np.where(np.isfinite(apart), 0.0, np.nan))
        return apart, np.asarray(ndtr(-z))


def clear_rounding(values: np.ndarray) -> np.ndarray:
    """Return values with rounding errors replaced by 0."""
    size = np.max(np.abs(np.nan_to_num(values)), initial=0.0)
    return np.where(np.abs(values) <= 1e-12 * size, 0.0, values)


def weighted_p(
    cells: SystemCells, pairs: SystemPairs, column: int, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a column's mean differences and p in the normal limit, (B, P) each."""
    filled = cells.filled[column]
    d = pairs.differences(filled)
    return pairs.compared(
        weights @ cells.presence,
        weights @ filled,
        weights @ filled**2,
        weights @ pairs.shared,
        weights @ d,
        weights @ d**2,
    )


def permutation_p(cells: SystemCells, pairs: SystemPairs, rng: np.random.Generator) -> np.ndarray:
    """Return (columns, P) one-sided p-values, using the same permutations for all columns."""
    p_values = np.full((len(cells.values), len(pairs.first)), np.nan)
    shared_pairs = np.flatnonzero(pairs.is_shared)
    step = max(1, MOST_NUMBERS // N_PERMUTATIONS)
    signs = 1.0 - 2.0 * choices_of(cells.values.shape[1], rng) if len(shared_pairs) else np.zeros((0, 0))
    for part in (shared_pairs[start : start + step] for start in range(0, len(shared_pairs), step)):
        d = pairs.differences(cells.filled)[:, :, part]
        p_values[:, part] = [
            _compute_share_above(signs @ difference, difference.sum(axis=0), np.abs(difference).sum(axis=0))
            for difference in d
        ]
    for k in np.flatnonzero(~pairs.is_shared):
        sides = [
            cells.values[:, np.isfinite(cells.values[0, :, system]), system]
            for system in (pairs.first[k], pairs.second[k])
        ]
        values = np.concatenate(sides, axis=1) - np.concatenate(sides, axis=1).mean(axis=1, keepdims=True)
        n, n_first = values.shape[1], sides[0].shape[1]
        if comb(n, n_first) <= N_PERMUTATIONS:
            labels = np.zeros((comb(n, n_first), n))
            for row, chosen in enumerate(combinations(range(n), n_first)):
                labels[row, list(chosen)] = 1.0
        else:
            labels = rng.permuted(np.tile(np.arange(n) < n_first, (N_PERMUTATIONS, 1)), axis=1).astype(float)
        p_values[:, k] = _compute_share_above(
            labels @ values.T, values[:, :n_first].sum(axis=1), np.abs(values).sum(axis=1)
        )
    return p_values


def choices_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows of n zeros and ones: all if few enough, otherwise random ones."""
    if 2**n <= N_PERMUTATIONS:
        return (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return rng.integers(0, 2, size=(N_PERMUTATIONS, n))


def _compute_share_above(draws: np.ndarray, observed: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the share of draws above the observed value, (P,); ties count half."""
    apart = draws - observed
    near = np.abs(apart) <= 1e-9 * size
    return np.asarray(((apart > 0) & ~near).mean(axis=0) + near.mean(axis=0) / 2)


def compute_permutation_p(reached: int, n: int, *, is_all: bool) -> float:
    """Return p: the exact share, or for random permutations (b + 1) / (n + 1)."""
    return reached / n if is_all else (reached + 1) / (n + 1)
