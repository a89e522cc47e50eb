"""BM25 over short texts, by bm25s in its Lucene variant (k1 1.2, b .75, an idf that is never negative)."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from chatbots.imports import import_lock

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
        found = np.zeros((len(queries), min(n, self._n)), dtype=int)
        for row, query in zip(found, queries, strict=True):
            row[:] = np.argsort(-self.scores(query), kind="stable")[:n]
        return found


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
