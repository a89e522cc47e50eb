"""BM25 over short texts as one sparse matrix: k1 1.2, b 0.75, the idf that is never negative (as Lucene has it)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

K1, B = 1.2, 0.75
_ROWS = 256
_WORDS = r"(?u)\b\w+\b"


class Bm25:
    """An index of texts.

    Args:
        texts: at least one; words are runs of letters and digits, in lower case.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        from scipy import sparse
        from sklearn.feature_extraction.text import CountVectorizer

        self._counter = CountVectorizer(token_pattern=_WORDS)
        try:
            counts = self._counter.fit_transform(texts).tocsr().astype(float)  # (N, V)
        except ValueError:  # no text has a word
            self._counter = None
            self._weights = sparse.csc_matrix((len(texts), 0))
            return
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        has = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log(1 + (len(texts) - has + 0.5) / (has + 0.5))
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
        counts.data = idf[counts.indices] * counts.data * (K1 + 1) / (counts.data + norm[rows])
        self._weights = counts.T.tocsr()  # (V, N)

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return (Q, N) scores of all texts for each query; a word counts once however often the query has it."""
        if self._counter is None:
            return np.zeros((len(queries), self._weights.shape[0]))
        asked = self._counter.transform(queries)
        asked.data[:] = 1
        return (asked.astype(float) @ self._weights).toarray()

    def best(self, queries: Sequence[str], n: int) -> np.ndarray:
        """Return (Q, n) numbers of the texts with the highest scores, best first, ties in the order of the texts."""
        found = []
        for start in range(0, len(queries), _ROWS):
            scores = self.scores(queries[start : start + _ROWS])
            found.append(np.argsort(-scores, axis=1, kind="stable")[:, :n])
        return np.concatenate(found) if found else np.zeros((0, n), dtype=int)
