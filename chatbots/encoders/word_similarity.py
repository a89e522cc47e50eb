"""Similarity of two texts by word vectors: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system"; Ghandeharioun et al. (2019), fact sheet section
1.4. NumPy alone; tokens without a vector are left out before, and with none left on a side all are NaN (the
released code says 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

import numpy as np

_CHUNK = 1_000_000  # entries of one block of cosines: 10,000-word turns must not need a gigabyte


class Vectors(Protocol):
    """Static word vectors: those distilled here, or a file's."""

    def vectors(self, tokens: Sequence[str]) -> list[np.ndarray | None]:
        """Return the vector of each token, None for a token that has none."""
        ...


def average(x: np.ndarray) -> np.ndarray:
    """Return the mean of the word vectors: (n, D) to (D,)."""
    return x.mean(axis=0)


def extrema(x: np.ndarray) -> np.ndarray:
    """Return per dimension the largest value, or the smallest where its size is greater: (n, D) to (D,)."""
    high, low = x.max(axis=0), x.min(axis=0)
    return np.where(np.abs(low) <= high, high, low)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Scale the rows of (n, D) to length 1; rows without length are left out."""
    norms = np.linalg.norm(x, axis=1)
    return x[norms > 0] / norms[norms > 0, None]


def greedy_both(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return G(X→Y) and G(Y→X): each word's best cosine on the other side, averaged over the words.

    Args:
        x: (n, D) rows of length 1, n > 0.
        y: (m, D) rows of length 1, m > 0.
    """
    step = max(1, _CHUNK // len(y))
    total = 0.0
    best_y = np.full(len(y), -np.inf)
    for start in range(0, len(x), step):
        block = x[start : start + step] @ y.T  # (step, m)
        total += float(block.max(axis=1).sum(dtype=float))
        np.maximum(best_y, block.max(axis=0), out=best_y)
    return total / len(x), float(best_y.mean(dtype=float))


@dataclass(frozen=True, slots=True)
class WordSimilarity:
    """The four measures of one pair of texts; NaN where undefined."""

    average: float
    extrema: float
    greedy: float
    greedy_ref: float


UNDEFINED = WordSimilarity(float("nan"), float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True, slots=True)
class TextWords:
    """Values of one text that all its pairs need."""

    average: np.ndarray
    extrema: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> TextWords | None:
        """Summarise the vectors of a text's words, (n, D); None if none of them has a length."""
        rows = unit_rows(x)
        if not len(rows):
            return None
        return cls(_unit(average(x)), _unit(extrema(x)), rows)


def word_similarity(x: TextWords | None, y: TextWords | None) -> WordSimilarity:
    """Compute all four measures of two texts.

    `greedy` is symmetric, ½ (G(X→Y) + G(Y→X)). `greedy_ref`, as the released code has it, is G(X→Y): the
    first text's words look for their best match in the second.
    """
    if x is None or y is None:
        return UNDEFINED
    forth, back = greedy_both(x.rows, y.rows)
    values = (x.average @ y.average, x.extrema @ y.extrema, (forth + back) / 2, forth)
    return WordSimilarity(*(float(np.clip(value, -1.0, 1.0)) for value in values))


KINDS = ("average", "extrema", "greedy", "greedy_ref")
"""The measures, in the order of `WordSimilarity`."""


def pair_similarities(
    pairs: Sequence[tuple[str, str]],
    vectors: Vectors,
    tokenise: Callable[[str], Sequence[str]],
) -> np.ndarray:
    """Compute the four measures of each pair of texts: (K, 4), in the order of `KINDS`, NaN where undefined."""
    texts = dict.fromkeys(text for pair in pairs for text in pair)
    tokens = {text: tokenise(text) for text in texts}
    vocabulary = list(dict.fromkeys(token for found in tokens.values() for token in found))
    # One look-up per distinct token; a text then is a choice of rows.
    found = vectors.vectors(vocabulary)
    row = {
        token: k
        for k, token in enumerate(
            t for t, v in zip(vocabulary, found, strict=True) if v is not None
        )
    }
    table = np.stack([v for v in found if v is not None]) if row else np.zeros((0, 1))
    words = {
        text: TextWords.of(table[[row[token] for token in tokens[text] if token in row]])
        for text in texts
    }
    values = np.full((len(pairs), len(KINDS)), np.nan)
    for k, (one, other) in enumerate(pairs):
        values[k] = astuple(word_similarity(words[one], words[other]))
    return values


def _unit(vector: np.ndarray) -> np.ndarray:
    """Scale a vector to length 1. One without length has no direction and becomes NaN throughout."""
    wide = vector.astype(float)
    norm = float(np.linalg.norm(wide))
    return wide / norm if norm > 0 else np.full(len(wide), np.nan)
