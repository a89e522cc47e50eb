"""Input of GRADE's network from texts: keywords, their vectors and neighbours, hops, features of the pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.models.grade import PairBatch
from evaluation.models.grade_graph import Graph, Neighbours
from evaluation.models.grade_keywords import Keywords

UTTERANCES = 2
"""Of the context that are read."""
Pair = tuple[tuple[str, ...], str]
"""The context, oldest utterance first, and the reply."""


class Lexicon:
    """Vectors of keywords, and the mean vectors of their neighbours.

    Args:
        vectors: by word; None or missing where a word has none.
        counts: number of neighbours that count at each distance.
        width: of a vector.
    """

    def __init__(
        self, graph: Graph, vectors: Mapping[str, np.ndarray | None], counts: Sequence[int], width: int
    ) -> None:
        self.graph, self.width = graph, width
        self._vectors = vectors
        self._neighbours = Neighbours(graph, self.vector, counts, width)
        self._near: dict[str, np.ndarray] = {}

    def vector(self, word: str) -> np.ndarray | None:
        """Return a word's vector, None where it has none; a phrase has none."""
        return self._vectors.get(word)

    def of(self, word: str) -> np.ndarray:
        """Return a word's vector, zeros where it has none, (d,)."""
        found = self.vector(word)
        return np.zeros(self.width, dtype=np.float32) if found is None else found

    def near(self, word: str) -> np.ndarray:
        """Return the mean vectors of its neighbours, (K, d); cached, since the graph's words are limited."""
        found = self._near.get(word)
        if found is None:
            found = self._neighbours.of(word)
            if self.graph.knows(word):
                self._near[word] = found
        return found


class VocabularyTable:
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
        lexicon: Lexicon | VocabularyTable,
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
        """Replace all earlier keywords by those of these texts: memory must not grow with the scored texts."""
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

    def batch(self, pairs: Sequence[Pair], text: np.ndarray | tuple[list[str], list[str]]) -> PairBatch:
        """Return pairs as the network reads them.

        Args:
            text: features of the pairs, or their two texts.
        """
        rows = [self.placed(pair) for pair in pairs]
        n_said = np.array([len(said) for said, _answered in rows])
        keywords = [[*said, *answered] for said, answered in rows]
        n = max(1, *map(len, keywords))
        # Each distinct keyword once: its place among them stands for it, and the last place for none.
        words = list(dict.fromkeys(word for row in keywords for word in row))
        place = {word: k for k, word in enumerate(words)}
        at = np.full((len(rows), n), len(words))
        for k, row in enumerate(keywords):
            at[k, : len(row)] = [place[word] for word in row]
        if isinstance(self.lexicon, VocabularyTable):
            nodes = np.array([*map(self.lexicon.of, words), 0], dtype=np.int64)
        else:
            nodes = np.zeros((len(words) + 1, self.width), np.float32)
            for k, word in enumerate(words):
                nodes[k] = self.lexicon.of(word)
        near = np.zeros((len(words) + 1, self.n_rings, self.width), dtype=np.float32)
        if self.n_rings:
            for k, word in enumerate(words):
                near[k] = self.lexicon.near(word)
        return PairBatch(
            text, nodes[at], near[at].transpose(0, 2, 1, 3), self._hops(words, at, n_said), at < len(words)
        )

    def _hops(self, words: list[str], at: np.ndarray, n_said: np.ndarray) -> np.ndarray:
        """Return the hops between keywords of the context and of the reply, both ways alike, 0 elsewhere: (B, n, n).

        Args:
            at: (B, n) the place in `words` of each keyword, their number where there is none.
            n_said: (B,) how many are of the context.
        """
        is_said = np.arange(at.shape[1]) < n_said[:, None]
        is_answered = ~is_said & (at < len(words))
        said, answered = np.unique(at[is_said]), np.unique(at[is_answered])
        between = self.graph.hops([words[k] for k in said], [words[k] for k in answered])
        row, column = np.zeros((2, len(words) + 1), dtype=int)
        row[said], column[answered] = np.arange(len(said)), np.arange(len(answered))
        found = np.zeros((*at.shape, at.shape[1]), dtype=np.float32)
        pair, i, j = np.nonzero(is_said[:, :, None] & is_answered[:, None, :])
        found[pair, i, j] = between[row[at[pair, i]], column[at[pair, j]]]
        return found + found.transpose(0, 2, 1)


def features(context: Sequence[np.ndarray], reply: np.ndarray) -> np.ndarray:
    """Return products and distances of the reply's vector and the last two utterances' vectors, (N, 4 D).

    Args:
        context: (N, D) of the last utterance and of the one before it; zeros where there is none.
        reply: (N, D).
    """
    parts = [part for said in context for part in (said * reply, np.abs(said - reply))]
    return np.concatenate(parts, axis=1)
