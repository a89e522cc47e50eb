"""Negative replies to learn from, for GRADE and PONE; BM25 search.

BM25 is that of bm25s in its Lucene variant (k1 1.2, b .75, an idf that is never negative).

GRADE (fact sheet section 2): like the true reply in its words, in its vector, or in nothing. All draw from the
replies of one part of the data, so that nothing of the test part is learnt. A draw depends on the seed, the kind
and the reply's place alone.

PONE (section 3): at random, similar to the true response, or sharing its words. A sampler gives each of N true
responses the number of another response of the training data, which is never the same text, nor an augmented
response to the same utterance. Similar ones are drawn from a pool: candidates uniformly with replacement, then one
of them with p = softmax(cosine to the true response / T). T → ∞ draws uniformly, T → 0 takes the most similar one.
The released code keeps the cosines of all pairs (N² numbers); here a pool's are computed when it is drawn.
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
    """An index of texts.

    Args:
        texts: (N) at least one; words are runs of letters and digits in lower case, an apostrophe within a word is
            part of it.
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
        """Return (N,) scores of all texts; a word counts as often as the query has it, an unknown one not at all."""
        if self._index is None:
            return np.zeros(self._n)
        known = [word for word in _words(query) if word in self._index.vocab_dict]
        return np.asarray(self._index.get_scores(known) if known else np.zeros(self._n))

    def best(self, queries: Sequence[str], n: int) -> np.ndarray:
        """Return (Q, n) numbers of the texts with the highest scores, best first, ties in the order of the texts."""
        matches = np.zeros((len(queries), min(n, self._n)), dtype=int)
        for row, query in zip(matches, queries, strict=True):
            row[:] = np.argsort(-self.scores(query), kind="stable")[:n]
        return matches


def _bm25s() -> Any:
    """Return the module bm25s, imported as if JAX were not there.

    It would compute something by JAX at its import, and JAX then takes three quarters of a GPU's memory for itself;
    what it would use JAX for, the choice of the best, is not asked of it here.
    """
    with import_lock:
        if "bm25s" not in sys.modules:
            jax = sys.modules.get("jax")
            sys.modules["jax"] = None  # type: ignore[assignment]  # an import of it then fails
            try:
                import bm25s
            finally:
                del sys.modules["jax"]
                if jax is not None:
                    sys.modules["jax"] = jax
            logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells every index it builds
        import bm25s
    return bm25s


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


MiddleRule = Literal["half", "lucene_buckets"]
_BUCKETS = (
    (500_000, 299_995), (100_000, 69_995), (50_000, 29_995), (10_000, 6_995), (1_000, 695), (500, 195), (200, 95),
    (100, 45), (50, 15), (20, 10),
)  # fmt: skip
"""More hits than the first number: the rank, from 0, that the released code takes."""
N_CANDIDATES, N_NEAREST = 1000, 5
LEAST_HITS = 3


def lexical_negatives(
    replies: Sequence[str], seed: int, *, middle_rule: MiddleRule = "half", k1: float = 1.2, b: float = 0.75
) -> list[str]:
    """Return for each reply one from the middle of what BM25 finds for it among all.

    Args:
        middle_rule: "half": the reply's own text is taken out, and index half the number of hits is taken, a random
            reply where fewer than 3 are left; "lucene_buckets": the released code's table, which gives the reply
            itself below 21 hits, and an empty text without any.
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
    """Return for each reply one of the 5 whose vectors are most like its own among 1,000 drawn ones.

    Args:
        vectors: (N, D) of the replies, rows of length 1.
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
        candidates = candidates + (candidates >= index)  # all but the reply itself
        near = candidates[np.argsort(-(rows[candidates] @ rows[index]), kind="stable")[:N_NEAREST]]
        negatives.append(unique[int(draw.choice(near))])
    return negatives


def random_negatives(replies: Sequence[str], seed: int) -> list[str]:
    """Return for each reply another one, drawn evenly among the different ones."""
    unique = list(dict.fromkeys(replies))
    if len(unique) < 2:
        raise ValueError(f"{len(unique)} different replies; two are needed for a false one")
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
    """Return (N,) a number for each text, the same for texts that differ only in case and blanks."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(" ".join(t.casefold().split()), len(known)) for t in texts])


def random_responses(texts: np.ndarray, rng: np.random.Generator, owners: np.ndarray | None = None) -> np.ndarray:
    """Return (N,) numbers of responses drawn uniformly among those with another text and another owner.

    Args:
        texts: (N,) `text_numbers` of the responses.
        owners: (N,) which true response each is, or was made of; None: all are true ones. Where nothing else has
            another text, the owner does not count.

    Raises:
        ValueError: all responses have the same text.
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
    """Return (N,) numbers of responses, each drawn from a pool by its similarity to the true one.

    Args:
        vectors: (N, d) of the responses, rows of length 1.
        texts: (N,) their `text_numbers`.
        temperature: T, above 0.
        pool: candidates of each.
        owners: as `random_negatives`.
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
    same = texts[sample] == texts  # a pool of nothing but the response itself
    if owners is not None:
        same |= owners[sample] == owners
    if same.any():
        sample[same] = random_responses(texts, rng, owners)[same]
    return sample


def pool_probabilities(alike: np.ndarray, same: np.ndarray, temperature: float) -> np.ndarray:
    """Return (N, P) probabilities softmax(alike / T) over each row's candidates, 0 for those of the same text.

    A row in which all are the same text is uniform.
    """
    scaled = np.where(same, -np.inf, alike / temperature)
    top = scaled.max(axis=1, keepdims=True)
    p = np.exp(scaled - np.where(np.isfinite(top), top, 0))
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / alike.shape[1])


def draw_columns(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from each row of (N, P) probabilities; returns (N,) columns."""
    columns = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)  # rounding may end a row below 1
    return np.minimum(columns, last)


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
        subset_rows = rng.permutation(len(responses))[:subset]
        _, firsts = np.unique(self.texts[subset_rows], return_index=True)
        self._indexed = subset_rows[np.sort(firsts)]  # each text once
        self._best = best
        index = Bm25([responses[k] for k in self._indexed])
        # The matches do not change between epochs: more than needed, as they may include the response and its copies.
        n_copies = 1 if owners is None else int(np.bincount(owners).max())
        self._matches = index.best(responses, best + n_copies)  # (N, best + own)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return (N,) numbers of responses; where all matches are the same text, a random one."""
        matches = self._indexed[self._matches]
        same = self.texts[matches] == self.texts[:, None]
        if self.owners is not None:
            same |= self.owners[matches] == self.owners[:, None]
        order = np.argsort(same, axis=1, kind="stable")  # others first, best first
        n_others = (~same).sum(axis=1)
        take = (rng.random(len(matches)) * np.minimum(n_others, self._best)).astype(int)
        rows = np.arange(len(matches))
        sample = matches[rows, order[rows, take]]
        return np.where(n_others > 0, sample, random_responses(self.texts, rng, self.owners))


def _several(texts: np.ndarray) -> None:
    if len(texts) < 2 or (texts == texts[0]).all():
        raise ValueError("negatives need at least two different responses")
