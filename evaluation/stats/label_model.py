"""Dawid and Skene's model of labels: true labels, and the errors of each rater.

Dawid and Skene (1979, Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm, Applied Statistics
28). Every item has one true label with prior p, and rater r gives label k to an item whose true label is c with
probability e_r[k, c], independently of the other raters. EM starts from the shares of the labels of each item, so the
true label is the one that raters tend to give. `crowd-kit` has the same estimator; it fits one data set at a time,
and this module fits all resamples of a bootstrap at once, as columns of one product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_TINY = 1e-10
"""Smallest probability, as in crowd-kit: an error that was never seen is possible."""
MOST_STEPS = 500
_CLOSE = 1e-6
"""Change of all posterior probabilities below which EM stops."""


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Labels of items as a sparse table.

    Attributes:
        counts: (n, R·K) scipy.sparse array: how often rater r gave label k to each item, in column r·K + k.
        n_raters, n_labels: R and K.
    """

    counts: Any
    n_raters: int
    n_labels: int

    @classmethod
    def from_columns(cls, item: np.ndarray, rater: np.ndarray, label: np.ndarray, n_labels: int) -> LabelTable:
        """Arrange labels, given as whole numbers from 0 in columns of one length."""
        from scipy.sparse import csr_array

        n_raters = int(rater.max()) + 1
        shape = (int(item.max()) + 1, n_raters * n_labels)
        return cls(csr_array((np.ones(len(item)), (item, rater * n_labels + label)), shape=shape), n_raters, n_labels)


@dataclass(frozen=True, slots=True)
class LabelModel:
    """Fitted model, for each of B sets of weights.

    Attributes:
        posterior: (n, B, K) probability of each true label of an item.
        prior: (B, K) probability of each true label.
        errors: (R, K, B, K) probability that a rater gives a label (second axis) for a true label (last axis).
        n_labels: (R, B) weighted number of labels by each rater.
        n_correct: (R, B) expected number of these that are the true ones.
        n_chance: (R, B) the same if raters gave the same labels to random items among their own.
        is_converged: whether all posterior probabilities stopped changing.
    """

    posterior: np.ndarray
    prior: np.ndarray
    errors: np.ndarray
    n_labels: np.ndarray
    n_correct: np.ndarray
    n_chance: np.ndarray
    is_converged: bool


def fit_label_model(
    table: LabelTable,
    weights: np.ndarray | None = None,
    *,
    start: np.ndarray | None = None,
    most_steps: int = MOST_STEPS,
) -> LabelModel:
    """Fit the model by EM.

    Args:
        weights: (n, B) weight of every item in each fit, such as how often a resample has it; None for one fit.
        start: (n, K) posterior probabilities to start from; None for the shares of each item's labels.
    """
    n_items, n_labels, n_raters = table.counts.shape[0], table.n_labels, table.n_raters
    weight = np.ones((n_items, 1)) if weights is None else np.asarray(weights, dtype=float)
    n_fits = weight.shape[1]
    if start is None:
        votes = table.counts.toarray().reshape(n_items, n_raters, n_labels).sum(axis=1)
        start = votes / votes.sum(axis=1, keepdims=True)
    posterior = np.repeat(np.asarray(start)[:, None, :], n_fits, axis=1)
    transposed = table.counts.T.tocsr()
    for _step in range(most_steps):
        tallies = _tally(transposed, posterior, weight, table)
        prior, errors = _maximise(posterior, weight, tallies)
        scores = table.counts @ np.log(errors).reshape(n_raters * n_labels, n_fits * n_labels)
        scores = scores.reshape(n_items, n_fits, n_labels) + np.log(prior)
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
        change = float(np.abs(scores - posterior).max())
        posterior = scores
        if change < _CLOSE:
            break
    tallies = _tally(transposed, posterior, weight, table)
    prior, errors = _maximise(posterior, weight, tallies)
    n_given = tallies.sum(axis=(1, 3))
    by_chance = np.einsum("rbk,rkb->rb", tallies.sum(axis=1), tallies.sum(axis=3)) / np.maximum(n_given, _TINY)
    return LabelModel(posterior, prior, errors, n_given, np.einsum("rkbk->rb", tallies), by_chance, change < _CLOSE)


def _tally(transposed: Any, posterior: np.ndarray, weight: np.ndarray, table: LabelTable) -> np.ndarray:
    """Count each rater's labels by expected true label: (R, K, B, K)."""
    n_items, n_fits, n_labels = posterior.shape
    counts = transposed @ (posterior * weight[:, :, None]).reshape(n_items, n_fits * n_labels)
    return np.asarray(counts).reshape(table.n_raters, n_labels, n_fits, n_labels)


def _maximise(posterior: np.ndarray, weight: np.ndarray, tallies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the priors and the errors of raters that are most likely."""
    prior = np.maximum((posterior * weight[:, :, None]).sum(axis=0) / weight.sum(axis=0)[:, None], _TINY)
    errors = np.maximum(tallies, _TINY)
    return prior, errors / errors.sum(axis=1, keepdims=True)
