"""Word coherence of a message and the bot's reply: average, extrema and greedy matching.

Liu et al. (2016), "How NOT to evaluate your dialogue system", and Ghandeharioun et al. (2019), fact
sheet section 1.4; static word vectors distilled from the sentence encoder stand where the paper has
word2vec. Tokens without a vector are left out; with none left on a side the value is undefined (the
released code says 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.columns import Column, per_turn
from evaluation.metrics.base import Measured, MetricDefaults, missing
from evaluation.metrics.layout import Layout
from evaluation.metrics.registry import register_metric
from evaluation.metrics.shared import Shared

if TYPE_CHECKING:
    from chatbots.encoders.words import WordVectors

_CHUNK = 1_000_000  # entries of one block of cosines: 10,000-word turns must not need a gigabyte


def average(x: np.ndarray) -> np.ndarray:
    """Mean of the word vectors: (n, D) to (D,)."""
    return x.mean(axis=0)


def extrema(x: np.ndarray) -> np.ndarray:
    """Per dimension the largest value, or the smallest where its size is greater: (n, D) to (D,)."""
    high, low = x.max(axis=0), x.min(axis=0)
    return np.where(np.abs(low) <= high, high, low)


def unit_rows(x: np.ndarray) -> np.ndarray:
    """(n, D) with rows of length 1; rows without length are left out."""
    norms = np.linalg.norm(x, axis=1)
    return x[norms > 0] / norms[norms > 0, None]


def greedy_both(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """G(X→Y) and G(Y→X): each word's best cosine on the other side, averaged over the words.

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
class Coherence:
    """The four word coherences of one pair; NaN where undefined."""

    average: float
    extrema: float
    greedy: float
    greedy_ref: float


UNDEFINED = Coherence(float("nan"), float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True, slots=True)
class _Words:
    """What one text needs in all its pairs."""

    average: np.ndarray
    extrema: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> _Words | None:
        rows = unit_rows(x)
        if not len(rows):
            return None
        return cls(_unit(average(x)), _unit(extrema(x)), rows)


def word_coherence(x: np.ndarray, y: np.ndarray) -> Coherence:
    """All four measures of a message with vectors (n, D) and a reply with vectors (m, D).

    greedy is symmetric, ½ (G(X→Y) + G(Y→X)); greedy_ref, as the released code has it, is G(X→Y): the
    message's words look for their best match in the reply.
    """
    return _pair(_Words.of(x), _Words.of(y))


def _unit(vector: np.ndarray) -> np.ndarray:
    """Length 1, or NaN throughout for a vector without length: no direction, no cosine."""
    wide = vector.astype(float)
    norm = float(np.linalg.norm(wide))
    return wide / norm if norm > 0 else np.full(len(wide), np.nan)


def _pair(x: _Words | None, y: _Words | None) -> Coherence:
    if x is None or y is None:
        return UNDEFINED
    forth, back = greedy_both(x.rows, y.rows)
    values = (x.average @ y.average, x.extrema @ y.extrema, (forth + back) / 2, forth)
    return Coherence(*(float(np.clip(value, -1.0, 1.0)) for value in values))


KINDS = ("average", "extrema", "greedy", "greedy_ref")
"""The measures, in the order of `Coherence`."""


def pair_coherences(
    pairs: Sequence[tuple[str, str]],
    vectors: WordVectors,
    tokenise: Callable[[str], Sequence[str]],
) -> np.ndarray:
    """The four measures of each pair of texts: (K, 4), in the order of `KINDS`, NaN where undefined."""
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
        text: _Words.of(table[[row[token] for token in tokens[text] if token in row]])
        for text in texts
    }
    values = np.full((len(pairs), len(KINDS)), np.nan)
    for k, (one, other) in enumerate(pairs):
        values[k] = astuple(_pair(words[one], words[other]))
    return values


def _columns(kind: str, title: str, formula: str) -> tuple[Column, Column]:
    return per_turn(
        f"word_coherence_{kind}_user_bot",
        f"Word coherence ({title}), participant and bot",
        unit="cosine",
        range=(-1, 1),
        direction="neither",
        description=f"{formula} Words of a message and of the bot's reply by static word vectors; of a run "
        "of several turns the last is taken. Stored at the reply; undefined where a side has no known "
        "word. In self-play: of consecutive utterances.",
    )


@register_metric
class WordCoherence(MetricDefaults):
    """Average, Extrema and Greedy Word Coherence -U/B."""

    name = "word_coherence"
    title = "Word coherence"
    columns = (
        *_columns("average", "average", "Cosine of the mean word vectors."),
        *_columns(
            "extrema",
            "extrema",
            "Cosine of the vectors that have, in each dimension, the value of greatest size.",
        ),
        *_columns(
            "greedy",
            "greedy",
            "Each word's best cosine on the other side, averaged over words, then over both directions.",
        ),
        *_columns(
            "greedy_ref",
            "greedy, 2019 code",
            "Each word of the message: its best cosine in the reply, averaged (one direction only).",
        ),
    )

    @property
    def params(self) -> dict[str, Any]:
        from chatbots.encoders.words import word_vectors

        return {
            "vectors": word_vectors().identity.as_dict(),
            "tokenizer": f"NLTKWordTokenizer {metadata.version('nltk')}",
        }

    def unavailable_reason(self) -> str | None:
        from chatbots.encoders.words import word_vectors

        return word_vectors().unavailable_reason()

    def measure(self, layout: Layout, shared: Shared) -> Measured:
        from chatbots.encoders.words import word_vectors

        texts = layout.texts
        pairs = [(texts[message], texts[reply]) for message, reply in layout.exchanges.tolist()]
        values = pair_coherences(pairs, word_vectors(), shared.tokens)
        columns = [f"word_coherence_{kind}_user_bot" for kind in KINDS]
        reason = missing(values, "no word of a text has a vector")
        reply = layout.exchanges[:, 1]
        return Measured(
            turns={column: layout.spread(reply, values[:, k]) for k, column in enumerate(columns)},
            reasons=dict.fromkeys(columns, reason),
        )
