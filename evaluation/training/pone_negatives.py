"""Negative responses for a true one: at random, similar to it, or sharing its words (PONE, section 3).

A sampler gives each of N true responses the number of another response of the training data, which is never the same
text, nor an augmented response to the same utterance. Similar ones are drawn from a pool: candidates uniformly with
replacement, then one of them with p = softmax(cosine to the true response / T). T → ∞ draws uniformly, T → 0 takes
the most similar one. The released code keeps the cosines of all pairs (N² numbers); here a pool's are computed when
it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from evaluation.training.bm25 import Bm25

Sampler = Literal["random", "weighted", "bm25"]
_ROWS = 512
_TRIES = 100
_BM25_SUBSET, _BM25_BEST = 5000, 100


def text_numbers(texts: Sequence[str]) -> np.ndarray:
    """Return (N,) a number for each text, the same for texts that differ only in case and blanks."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(" ".join(t.casefold().split()), len(known)) for t in texts])


def random_negatives(
    texts: np.ndarray, rng: np.random.Generator, owners: np.ndarray | None = None
) -> np.ndarray:
    """Return (N,) numbers of responses drawn uniformly among those with another text and another owner.

    Args:
        texts: (N,) `text_numbers` of the responses.
        owners: (N,) which true response each is, or was made of; None: all are true ones. Where nothing else has
            another text, the owner does not count.

    Raises:
        ValueError: all responses have the same text.
    """
    _several(texts)
    drawn = rng.integers(len(texts), size=len(texts))
    if owners is not None:
        for _ in range(_TRIES):
            same = (texts[drawn] == texts) | (owners[drawn] == owners)
            if not same.any():
                break
            drawn[same] = rng.integers(len(texts), size=int(same.sum()))
    while (same := texts[drawn] == texts).any():
        drawn[same] = rng.integers(len(texts), size=int(same.sum()))
    return drawn


def weighted_negatives(
    vectors: np.ndarray,
    texts: np.ndarray,
    rng: np.random.Generator,
    *,
    temperature: float,
    pool: int,
    owners: np.ndarray | None = None,
) -> np.ndarray:
    """Return (N,) numbers of responses, each drawn from a pool by its similarity to the true one.

    Args:
        vectors: (N, d) of the responses, rows of length 1.
        texts: (N,) their `text_numbers`.
        temperature: T, above 0.
        pool: candidates of each.
        owners: as `random_negatives`.
    """
    _several(texts)
    drawn = np.empty(len(texts), dtype=int)
    for start in range(0, len(texts), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(texts)))
        candidates = rng.integers(len(texts), size=(len(rows), pool))
        alike = np.einsum("nd,npd->np", vectors[rows], vectors[candidates])
        same = texts[candidates] == texts[rows, None]
        if owners is not None:
            same |= owners[candidates] == owners[rows, None]
        p = weights(alike, same, temperature)
        drawn[rows] = candidates[np.arange(len(rows)), chosen(p, rng)]
    same = texts[drawn] == texts  # a pool of nothing but the response itself
    if owners is not None:
        same |= owners[drawn] == owners
    if same.any():
        drawn[same] = random_negatives(texts, rng, owners)[same]
    return drawn


def weights(alike: np.ndarray, same: np.ndarray, temperature: float) -> np.ndarray:
    """Return (N, P) probabilities softmax(alike / T) over each row's candidates, 0 for those of the same text.

    A row in which all are the same text is uniform.
    """
    scaled = np.where(same, -np.inf, alike / temperature)
    top = scaled.max(axis=1, keepdims=True)
    p = np.exp(scaled - np.where(np.isfinite(top), top, 0))
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / alike.shape[1])


def chosen(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from each row of (N, P) probabilities; returns (N,) columns."""
    at = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)  # rounding may end a row below 1
    return np.minimum(at, last)


class WordNegatives:
    """Negatives that share words with the true response: one of its best BM25 matches among a random subset.

    Args:
        responses: of the training data.
        owners: as `random_negatives`.
        subset: how many of them are indexed.
        best: of how many matches one is drawn.
    """

    def __init__(
        self,
        responses: Sequence[str],
        rng: np.random.Generator,
        owners: np.ndarray | None = None,
        *,
        subset: int = _BM25_SUBSET,
        best: int = _BM25_BEST,
    ) -> None:
        self.texts, self.owners = text_numbers(responses), owners
        _several(self.texts)
        drawn = rng.permutation(len(responses))[:subset]
        _, firsts = np.unique(self.texts[drawn], return_index=True)
        self._indexed = drawn[np.sort(firsts)]  # each text once
        self._best = best
        index = Bm25([responses[k] for k in self._indexed])
        # The matches do not change between epochs: more than needed, as they may include the response and its copies.
        own = 1 if owners is None else int(np.bincount(owners).max())
        self._matches = index.best(responses, best + own)  # (N, best + own)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return (N,) numbers of responses; where all matches are the same text, a random one."""
        found = self._indexed[self._matches]
        same = self.texts[found] == self.texts[:, None]
        if self.owners is not None:
            same |= self.owners[found] == self.owners[:, None]
        order = np.argsort(same, axis=1, kind="stable")  # others first, best first
        others = (~same).sum(axis=1)
        take = (rng.random(len(found)) * np.minimum(others, self._best)).astype(int)
        rows = np.arange(len(found))
        drawn = found[rows, order[rows, take]]
        return np.where(others > 0, drawn, random_negatives(self.texts, rng, self.owners))


def _several(texts: np.ndarray) -> None:
    if len(texts) < 2 or (texts == texts[0]).all():
        raise ValueError("negatives need at least two different responses")
