"""From texts to what GRADE's network reads: keywords, their vectors and neighbours, hops, features of the pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.models.grade import Pairs
from evaluation.models.grade_graph import Graph
from evaluation.models.grade_keywords import Keywords

UTTERANCES = 2
"""Of the context that are read."""
Pair = tuple[tuple[str, ...], str]
"""The context, oldest utterance first, and the reply."""


class Lexicon:
    """What stands for a keyword: a vector and the mean vectors of its neighbours.

    Args:
        vectors: by word; None or missing where a word has none.
        counts: how many neighbours count at each distance.
        width: of a vector.
    """

    def __init__(
        self,
        graph: Graph,
        vectors: Mapping[str, np.ndarray | None],
        counts: Sequence[int],
        width: int,
    ) -> None:
        self.graph, self.counts, self.width = graph, tuple(counts), width
        self._vectors = vectors
        self._near: dict[str, np.ndarray] = {}

    def vector(self, word: str) -> np.ndarray | None:
        """Return a word's vector, None where it has none; a phrase has none."""
        return self._vectors.get(word)

    def of(self, word: str) -> np.ndarray:
        """Return a word's vector, zeros where it has none, (d,)."""
        found = self.vector(word)
        return np.zeros(self.width, dtype=np.float32) if found is None else found

    def near(self, word: str) -> np.ndarray:
        """Return the mean vectors of its neighbours, (K, d); remembered for the words of the graph, which are limited."""
        found = self._near.get(word)
        if found is None:
            found = self.graph.neighbourhood(word, self.counts, self.vector, self.width)
            if self.graph.knows(word):
                self._near[word] = found
        return found


class Table:
    """The same for a vocabulary of a training: rows of a table that learns, 0 for other words.

    Args:
        words: in the order of the rows from 1 on.
        near: (V + 1, K, d), of row 0 zeros.
    """

    def __init__(self, words: Sequence[str], near: np.ndarray) -> None:
        self.rows = {word: k for k, word in enumerate(words, start=1)}
        self._near = near
        self.width = int(near.shape[2])

    def of(self, word: str) -> int:
        """Return a word's row."""
        return self.rows.get(word, 0)

    def near(self, word: str) -> np.ndarray:
        """Return the mean vectors of its neighbours, (K, d)."""
        return self._near[self.of(word)].astype(np.float32)


class Reader:
    """Makes batches of pairs.

    Args:
        max_keywords: of a pair; those of the context come first, so a long one leaves the reply fewer.
    """

    def __init__(
        self,
        keywords: Keywords,
        graph: Graph,
        lexicon: Lexicon | Table,
        n_rings: int,
        width: int,
        max_keywords: int,
    ) -> None:
        self.keywords, self.graph, self.lexicon = keywords, graph, lexicon
        self.n_rings, self.width, self.max_keywords = n_rings, width, max_keywords
        self._known: dict[str, list[str]] = {}

    def keywords_of(self, text: str) -> list[str]:
        """Return the keywords of an utterance; remembered for the texts of one training."""
        if text not in self._known:
            self._known[text] = self.keywords.of(text)
        return self._known[text]

    def tell(self, known: Mapping[str, list[str]]) -> None:
        """Take these keywords of texts in place of all before: memory must not grow with what is scored."""
        self._known = dict(known)

    def placed(self, pair: Pair) -> tuple[list[str], list[str]]:
        """Return the keywords of context and reply that find a place."""
        context, reply = pair
        said = [word for one in context[-UTTERANCES:] for word in self.keywords_of(one)]
        said = said[: self.max_keywords]
        return said, self.keywords_of(reply)[: self.max_keywords - len(said)]

    def n_reply_keywords(self, pair: Pair) -> int:
        """Count the keywords of the reply that find a place."""
        return len(self.placed(pair)[1])

    def n_unknown_keywords(self, pair: Pair) -> int:
        """Count the keywords of context and reply that find a place and that the graph has no paths for."""
        said, answered = self.placed(pair)
        return sum(not self.graph.reaches(word) for word in (*said, *answered))

    def batch(self, pairs: Sequence[Pair], text: np.ndarray | tuple[list[str], list[str]]) -> Pairs:
        """Return pairs as the network reads them.

        Args:
            text: features of the pairs, or their two texts.
        """
        rows = [self.placed(pair) for pair in pairs]
        n = max(1, *(len(said) + len(answered) for said, answered in rows))
        with_table = isinstance(self.lexicon, Table)
        nodes = (
            np.zeros((len(rows), n), dtype=np.int64)
            if with_table
            else np.zeros((len(rows), n, self.width), np.float32)
        )
        near = np.zeros((len(rows), self.n_rings, n, self.width), dtype=np.float32)
        hops = np.zeros((len(rows), n, n), dtype=np.float32)
        real = np.zeros((len(rows), n), dtype=bool)
        asked = [(one, other) for said, answered in rows for one in said for other in answered]
        known = dict(zip(asked, self.graph.hops(asked).tolist(), strict=True)) if asked else {}
        for k, (said, answered) in enumerate(rows):
            for place, word in enumerate([*said, *answered]):
                nodes[k, place] = self.lexicon.of(word)
                if self.n_rings:
                    near[k, :, place] = self.lexicon.near(word)
                real[k, place] = True
            for i, one in enumerate(said):
                for j, other in enumerate(answered, start=len(said)):
                    hops[k, i, j] = hops[k, j, i] = known[one, other]
        return Pairs(text, nodes, near, hops, real)


def features(context: Sequence[np.ndarray], reply: np.ndarray) -> np.ndarray:
    """Return how vectors of the last two utterances and of the reply meet: products and distances, (N, 4 D).

    Args:
        context: (N, D) of the last utterance and of the one before it; zeros where there is none.
        reply: (N, D).
    """
    parts = [part for said in context for part in (said * reply, np.abs(said - reply))]
    return np.concatenate(parts, axis=1)
