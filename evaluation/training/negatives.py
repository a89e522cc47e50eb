"""BM25 search, and negative replies for training GRADE and PONE.

BM25 is bm25s's Lucene variant (k1 1.2, b .75, non-negative idf).

GRADE (fact sheet section 2): negatives are similar to the true reply in words, in vectors, or not at all. They come
from the same part of the data, so no test data leak into training. Draws depend only on the seed, the kind and the
reply's position.

PONE (section 3): negatives are random, similar to the true response, or share its words. For each of N true responses,
a sampler returns the index of another response in the training data, never one with the same text or augmented from the
same response. For similar negatives, a pool of candidates is drawn uniformly with replacement, and one of them with p =
softmax(cosine to the true response / T). T → ∞ is uniform, T → 0 takes the most similar. The released code stores the
cosines of all pairs (N² numbers); here only those of the pools are computed.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from chatbots.huggingface import import_lock
from chatbots.identity import derive_seed

_WORD = re.compile(r"\w+(?:'\w+)*")


class Bm25:
    """BM25 index of texts.

    Args:
        texts: (N,) at least one; words are lower-cased runs of letters, digits and inner apostrophes.
    """

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        bm25s = _bm25s()
        self._n = len(texts)
        self._index = None
        words = [_words(text) for text in texts]
        if any(words):
            self._index = bm25s.BM25(k1=k1, b=b)
            self._index.index(words, show_progress=False)

    def scores(self, query: str) -> np.ndarray:
        """Return (N,) scores of all texts.

        Repeated query words count each time, unknown words never.
        """
        if self._index is None:
            return np.zeros(self._n)
        known = [word for word in _words(query) if word in self._index.vocab_dict]
        return np.asarray(self._index.get_scores(known) if known else np.zeros(self._n))

    def best(self, queries: Sequence[str], n: int) -> np.ndarray:
        """Return (Q, n) indices of the best texts, in descending order.

        Ties are in the order of the texts.
        """
        matches = np.zeros((len(queries), min(n, self._n)), dtype=int)
        for row, query in zip(matches, queries, strict=True):
            row[:] = np.argsort(-self.scores(query), kind="stable")[:n]
        return matches


def _bm25s() -> Any:
    """Import bm25s with JAX hidden.

    On import, bm25s runs a computation in JAX, which then reserves three quarters of the GPU's memory. bm25s needs JAX
    only for top-k selection, which is not used here.
    """
    with import_lock:
        if "bm25s" not in sys.modules:
            jax = sys.modules.get("jax")
            sys.modules["jax"] = None  # type: ignore[assignment]  # makes its import fail
            try:
                import bm25s
            finally:
                del sys.modules["jax"]
                if jax is not None:
                    sys.modules["jax"] = jax
            logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every index
        import bm25s
    return bm25s


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


MiddleRule = Literal["half", "lucene_buckets"]
_BUCKETS = (
    (500_000, 299_995), (100_000, 69_995), (50_000, 29_995), (10_000, 6_995), (1_000, 695), (500, 195), (200, 95),
    (100, 45), (50, 15), (20, 10),
)  # fmt: skip
"""With more hits than the first number, the released code takes this rank, from 0."""
N_CANDIDATES, N_NEAREST = 1000, 5
LEAST_HITS = 3


def lexical_negatives(
    replies: Sequence[str], seed: int, *, middle_rule: MiddleRule = "half", k1: float = 1.2, b: float = 0.75
) -> list[str]:
    """Return a reply from the middle of each reply's BM25 ranking.

    Args:
        middle_rule: "half": the middle hit other than the reply itself, or a random reply with fewer than 3 such hits;
            "lucene_buckets": the released code's table, which returns the reply itself below 21 hits, and an empty text
            without hits.
    """
    unique = list(dict.fromkeys(replies))
    index = Bm25(unique, k1=k1, b=b)
    middle_hits: dict[str, str | None] = {}
    for place, text in enumerate(unique):
        scores = index.scores(text)
        if middle_rule == "half":
            scores[place] = 0.0
        order = np.argsort(-scores, kind="stable")
        hits = order[: int((scores > 0).sum())]
        if middle_rule == "lucene_buckets":
            middle_hits[text] = unique[hits[_bucket(len(hits))]] if len(hits) else ""
        else:
            middle_hits[text] = unique[hits[len(hits) // 2]] if len(hits) >= LEAST_HITS else None
    random_texts = random_negatives(replies, derive_seed(seed, "lexical"))
    chosen = [middle_hits[text] for text in replies]
    return [random_texts[k] if text is None else text for k, text in enumerate(chosen)]


def embedding_negatives(replies: Sequence[str], vectors: np.ndarray, seed: int) -> list[str]:
    """Return one of the 5 most similar replies among 1,000 drawn, per reply.

    Similarity is the cosine.

    Args:
        vectors: (N, D) reply vectors, rows of length 1.
    """
    unique = list(dict.fromkeys(replies))
    place = {text: k for k, text in enumerate(unique)}
    first = {text: k for k, text in reversed(list(enumerate(replies)))}
    rows = vectors[[first[text] for text in unique]]
    n = min(N_CANDIDATES, len(unique) - 1)
    negatives = []
    for k, text in enumerate(replies):
        draw = np.random.default_rng(derive_seed(seed, "embedding", k))
        index = place[text]
        candidates = draw.choice(len(unique) - 1, size=n, replace=False)
        candidates = candidates + (candidates >= index)  # excludes the reply itself
        near = candidates[np.argsort(-(rows[candidates] @ rows[index]), kind="stable")[:N_NEAREST]]
        negatives.append(unique[int(draw.choice(near))])
    return negatives


def random_negatives(replies: Sequence[str], seed: int) -> list[str]:
    """Draw another reply for each, uniformly among different texts."""
    unique = list(dict.fromkeys(replies))
    if len(unique) < 2:
        raise ValueError(f"only {len(unique)} distinct replies; at least two are needed to draw false ones")
    place = {text: k for k, text in enumerate(unique)}
    draw = np.random.default_rng(derive_seed(seed, "random"))
    indices = draw.integers(len(unique) - 1, size=len(replies))
    return [unique[int(j + (j >= place[text]))] for j, text in zip(indices, replies, strict=True)]


def _bucket(n_hits: int) -> int:
    return next((rank for least, rank in _BUCKETS if n_hits > least), 0)


Sampler = Literal["random", "weighted", "bm25"]
_ROWS = 512
_TRIES = 100
_BM25_SUBSET, _BM25_BEST = 5000, 100


def text_numbers(texts: Sequence[str]) -> np.ndarray:
    """Return text numbers, (N,), ignoring case and white space."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(" ".join(t.casefold().split()), len(known)) for t in texts])


def random_responses(texts: np.ndarray, rng: np.random.Generator, owners: np.ndarray | None = None) -> np.ndarray:
    """Draw (N,) indices of responses uniformly.

    They differ from the true response in text and owner.

    Args:
        texts: (N,) `text_numbers` of the responses.
        owners: (N,) index of the true response that each was made from; None: all are true. Ignored if no other text is
            left.

    Raises:
        ValueError: if all responses are the same text.
    """
    _several(texts)
    sample = rng.integers(len(texts), size=len(texts))
    if owners is not None:
        for _ in range(_TRIES):
            same = (texts[sample] == texts) | (owners[sample] == owners)
            if not same.any():
                break
            sample[same] = rng.integers(len(texts), size=int(same.sum()))
    while (same := texts[sample] == texts).any():
        sample[same] = rng.integers(len(texts), size=int(same.sum()))
    return sample


def weighted_responses(
    vectors: np.ndarray,
    texts: np.ndarray,
    rng: np.random.Generator,
    *,
    temperature: float,
    pool: int,
    owners: np.ndarray | None = None,
) -> np.ndarray:
    """Draw (N,) indices of responses from pools, weighted by similarity.

    Args:
        vectors: (N, d) response vectors, rows of length 1.
        texts: (N,) `text_numbers` of the responses.
        temperature: T, above 0.
        pool: number of candidates per response.
        owners: as in `random_responses`.
    """
    _several(texts)
    sample = np.empty(len(texts), dtype=int)
    for start in range(0, len(texts), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(texts)))
        candidates = rng.integers(len(texts), size=(len(rows), pool))
        alike = np.einsum("nd,npd->np", vectors[rows], vectors[candidates])
        same = texts[candidates] == texts[rows, None]
        if owners is not None:
            same |= owners[candidates] == owners[rows, None]
        p = pool_probabilities(alike, same, temperature)
        sample[rows] = candidates[np.arange(len(rows)), draw_columns(p, rng)]
    same = texts[sample] == texts  # the pool contains nothing but the response
    if owners is not None:
        same |= owners[sample] == owners
    if same.any():
        sample[same] = random_responses(texts, rng, owners)[same]
    return sample


def pool_probabilities(alike: np.ndarray, same: np.ndarray, temperature: float) -> np.ndarray:
    """Return candidate probabilities softmax(alike / T), (N, P).

    Candidates with the response's own text get 0; if there are no others, the row is uniform.
    """
    scaled = np.where(same, -np.inf, alike / temperature)
    top = scaled.max(axis=1, keepdims=True)
    p = np.exp(scaled - np.where(np.isfinite(top), top, 0))
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / alike.shape[1])


def draw_columns(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a column from each row of (N, P) probabilities: (N,)."""
    columns = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)  # rounding can leave a row's sum below 1
    return np.minimum(columns, last)


class WordNegatives:
    """Sampler of negatives that share words with the true response.

    Each is among the response's best BM25 matches in a random subset.

    Args:
        responses: responses of the training data.
        owners: as in `random_responses`.
        subset: number of indexed responses.
        best: number of matches to draw from.
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
        subset_rows = rng.permutation(len(responses))[:subset]
        _, firsts = np.unique(self.texts[subset_rows], return_index=True)
        self._indexed = subset_rows[np.sort(firsts)]  # distinct texts
        self._best = best
        index = Bm25([responses[k] for k in self._indexed])
        # Matches are the same in all epochs. Retrieve extra ones, since they may include the response and its copies.
        n_copies = 1 if owners is None else int(np.bincount(owners).max())
        self._matches = index.best(responses, best + n_copies)  # (N, best + own)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Draw (N,) indices of responses; random if all matches have the same text."""
        matches = self._indexed[self._matches]
        same = self.texts[matches] == self.texts[:, None]
        if self.owners is not None:
            same |= self.owners[matches] == self.owners[:, None]
        order = np.argsort(same, axis=1, kind="stable")  # other texts first, then by rank
        n_others = (~same).sum(axis=1)
        take = (rng.random(len(matches)) * np.minimum(n_others, self._best)).astype(int)
        rows = np.arange(len(matches))
        sample = matches[rows, order[rows, take]]
        return np.where(n_others > 0, sample, random_responses(self.texts, rng, self.owners))


def _several(texts: np.ndarray) -> None:
    if len(texts) < 2 or (texts == texts[0]).all():
        raise ValueError("negatives need at least two distinct responses")
