"""The commonsense graph of GRADE: hops between keywords, and neighbours (Huang et al. 2020; fact sheet section 4).

A simple directed graph of ConceptNet's triples. Hops are shortest path length + 1, so that a word is 1 from itself and its
neighbours are 2; where no path leads, or a word is unknown, they are 20. There is no cap on real paths. Shortest paths
come from `scipy.sparse.csgraph`, for all keywords of a batch at once, and are kept by word.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from chatbots.identity import derive_seed

FAR = 20
"""Hops where no path leads or a word is unknown: the “unlimited hop” of the released code."""


class GraphError(ValueError):
    """A file that holds no graph; the message names it and the line."""


class Graph:
    """Words and phrases (blanks as underscores), and the directed edges between them.

    Args:
        edges: of (head, tail); equal ones count once, loops not at all.
    """

    def __init__(self, edges: Iterable[tuple[str, str]]) -> None:
        from scipy.sparse import csr_array

        told = sorted({(head, tail) for head, tail in edges if head != tail})
        self.nodes = sorted({node for edge in told for node in edge})
        self.row = {node: k for k, node in enumerate(self.nodes)}
        heads = np.array([self.row[head] for head, _ in told], dtype=np.int32)
        tails = np.array([self.row[tail] for _, tail in told], dtype=np.int32)
        ones = np.ones(len(told), dtype=np.float32)
        self.edges = csr_array((ones, (heads, tails)), shape=(len(self.nodes),) * 2)
        self.digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
        self._core, self._words = self._paths_core()
        self._inside = self.edges[self._core][:, self._core]
        self._place = np.full(len(self.nodes), -1)
        self._place[self._core] = np.arange(len(self._core))
        self._column = {int(node): k for k, node in enumerate(self._words)}
        self._hops: dict[int, np.ndarray] = {}

    def _paths_core(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes that can lie on a path between two single words, and those words among them.

        Phrases without an edge out, or in, end every path; leaving them out, again and again, changes no distance
        between words and leaves a fraction of the graph to search.
        """
        from scipy.sparse import csr_array

        single = np.array(["_" not in node for node in self.nodes], dtype=bool)
        kept = np.ones(len(self.nodes), dtype=bool)
        edges = csr_array(self.edges)
        while kept.any():
            inside = kept.astype(np.float32)
            out, into = edges @ inside > 0, edges.T @ inside > 0
            better = kept & (single | (out & into))
            if (better == kept).all():
                break
            kept = better
        return np.flatnonzero(kept), np.flatnonzero(kept & single)

    def pruned(self) -> Graph:
        """Return the graph of the nodes that can lie between two single words; hops between words are the same."""
        edges = self.edges[self._core][:, self._core].tocoo()
        names = [self.nodes[k] for k in self._core]
        return Graph((names[i], names[j]) for i, j in zip(edges.row, edges.col, strict=True))

    def hops(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the hops from the first to the second word of each pair, (N,) int."""
        self._search({self._known(first) for first, _ in pairs} - {None})
        found = np.full(len(pairs), FAR)
        for k, (first, second) in enumerate(pairs):
            here, there = self._known(first), self._known(second)
            if first == second:
                found[k] = 1
            elif here is not None and there is not None:
                found[k] = self._hops[here][self._column[there]]
        return found

    def reaches(self, word: str) -> bool:
        """Tell whether the graph has paths from the word to others; one without is far from all of them."""
        return self._known(word) is not None

    def _known(self, word: str) -> int | None:
        node = self.row.get(word.replace("-", "_"))
        return node if node in self._column else None

    def _search(self, sources: set[int | None]) -> None:
        """Find the hops from words to all others, those of one call at once."""
        from scipy.sparse.csgraph import dijkstra

        new = sorted(
            source for source in sources if source is not None and source not in self._hops
        )
        for start in range(0, len(new), 256):
            part = new[start : start + 256]
            lengths = dijkstra(self._inside, unweighted=True, indices=self._place[part])
            hops = np.where(np.isfinite(lengths), lengths + 1, FAR)[:, self._place[self._words]]
            for node, row in zip(part, hops, strict=True):
                self._hops[node] = np.minimum(row, 255).astype(np.uint8)

    def knows(self, word: str) -> bool:
        """Tell whether a word is in the graph."""
        return word.replace("-", "_") in self.row

    def out_of(self, word: str) -> list[str]:
        """Return the neighbours that a word's edges lead to."""
        node = self.row.get(word.replace("-", "_"))
        return [] if node is None else self._out(node)

    def _out(self, node: int) -> list[str]:
        begin, end = self.edges.indptr[node : node + 2]
        return [self.nodes[k] for k in self.edges.indices[begin:end]]

    def neighbourhood(
        self,
        word: str,
        counts: Sequence[int],
        vector: Callable[[str], np.ndarray | None],
        width: int,
    ) -> np.ndarray:
        """Return the mean vector of the neighbours at each number of hops, (K, width).

        Args:
            counts: how many neighbours count at 1 hop, at 2, …: those most like the word. Fewer than that are
                drawn from with replacement; all is drawn for a word without a vector.
            vector: of a word; None where it has none.
            width: of a vector.
        """
        found = np.zeros((len(counts), width), dtype=np.float32)
        own = vector(word)
        if own is None:
            return found  # of a word without a vector nothing is known
        ring = self.out_of(word)
        for k, n in enumerate(counts):
            if k:
                ring = [far for near in ring for far in self.out_of(near) if far != word]
            if not ring or not n:
                continue
            vectors = {node: vector(node) for node in dict.fromkeys(ring)}
            like = _cosines(own, vectors)
            ring = sorted(ring, key=lambda node: (-like[node], node))
            chosen = ring[:n]
            if len(ring) < n:
                draw = np.random.default_rng(derive_seed(0, "neighbours", word, k))
                chosen = [ring[j] for j in draw.integers(len(ring), size=n)]
            known = [one for node in chosen if (one := vectors[node]) is not None]
            if known:
                found[k] = np.mean(known, axis=0)
        return found


def _cosines(own: np.ndarray, others: Mapping[str, np.ndarray | None]) -> dict[str, float]:
    """Return the cosine of a vector with each of others; those without a vector come last."""
    found = dict.fromkeys(others, -2.0)
    known = {node: one for node, one in others.items() if one is not None}
    if known:
        rows = np.stack(list(known.values()))
        norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(own)
        like = np.divide(rows @ own, norms, out=np.full(len(rows), -1.0), where=norms > 0)
        found.update(zip(known, like.tolist(), strict=True))
    return found


def graph_read(path: Path) -> Graph:
    """Read triples, one per line: JSON `{"head", "relation", "tail"}`, or `relation TAB head TAB tail`; plain or `.gz`.

    Raises:
        GraphError: a line that is neither.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    edges = []
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.startswith("{"):
                    triple = json.loads(line)
                    head, tail = triple["head"], triple["tail"]
                else:
                    _, head, tail, *_ = line.rstrip("\n").split("\t")
                edges.append((_node(head), _node(tail)))
            except (ValueError, KeyError, AttributeError):
                raise GraphError(
                    f'{path}, line {number}: {line[:60]!r} is no triple; it must be {{"head", "relation", "tail"}} '
                    "or relation, head and tail between tabs"
                ) from None
    if not edges:
        raise GraphError(f"{path} holds no triple")
    return Graph(edges)


def _node(text: str) -> str:
    return "_".join(text.lower().replace("-", " ").replace("_", " ").split())
