"""Commonsense graph of GRADE: sources, hops between keywords, and neighbours.

Sources and licences are available without importing torch.

Huang et al. (2020), fact sheet section 4. The graph is a simple directed graph of ConceptNet's triples. Hops are
shortest path length + 1: a word is 1 hop from itself and 2 from its neighbours; without a path, or for an unknown word,
the value is 20. Real paths are not capped. A keyword's hyphens become underscores in the graph, so "ice-cream" matches
the phrase. One breadth-first search covers all keywords of a batch, with one bit per keyword in each node's row (Then
et al. 2014, "The More the Merrier: Efficient Multi-Source Graph Traversal", VLDB). Results are cached by word.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chatbots.compressed_files import DAMAGE_ERRORS
from chatbots.identity import derive_seed
from chatbots.text import quote

WORDNET = "wordnet"
"""Value of `graph` in a config for the relations shipped with Confab."""
RELATIONS = Path(__file__).parent.parent / "shipped" / "wordnet" / "relations.tsv.gz"
WORDNET_LICENCE = RELATIONS.with_name("LICENSE.txt")
LICENCE_BESIDE = "LICENSE.WordNet.txt"
"""File name of WordNet's licence next to a graph with its edges."""


def has_wordnet(options: Mapping[str, Any]) -> bool:
    """Return True if a config's options add WordNet's relations to the graph."""
    graphs = options.get("graph", ())
    return WORDNET in ([graphs] if isinstance(graphs, str) else graphs)


def graph_licences(options: Mapping[str, Any]) -> list[str]:
    """Return the licences of a graph's edges, with their sources."""
    return ["CC BY-SA 4.0 (ConceptNet)", *(["WordNet's licence"] if has_wordnet(options) else [])]


FAR = 20
"""Hops without a path or for an unknown word: the “unlimited hop” of the released code."""
_SEARCHED, _KEPT = 1 << 24, 1 << 28
"""Bytes of hops searched at once and cached."""


class GraphError(ValueError):
    """Error for an invalid graph file; the message names file and line."""


class Graph:
    """Words and phrases with directed edges.

    Spaces in phrases are underscores.

    Args:
        edges: (head, tail); duplicates count once, loops are ignored.
    """

    def __init__(self, edges: Iterable[tuple[str, str]]) -> None:
        from scipy.sparse import csr_array

        sorted_edges = sorted({(head, tail) for head, tail in edges if head != tail})
        self.nodes = sorted({node for edge in sorted_edges for node in edge})
        self.row = {node: k for k, node in enumerate(self.nodes)}
        heads = np.array([self.row[head] for head, _ in sorted_edges], dtype=np.int32)
        tails = np.array([self.row[tail] for _, tail in sorted_edges], dtype=np.int32)
        weights = np.ones(len(sorted_edges), dtype=np.float32)
        self.edges = csr_array((weights, (heads, tails)), shape=(len(self.nodes),) * 2)
        self.digest = hashlib.sha256(json.dumps(sorted_edges).encode()).hexdigest()[:16]
        self._core = self._paths_core()
        self._place = np.full(len(self.nodes), -1)
        self._place[self._core] = np.arange(len(self._core))
        inside = self.edges[self._core][:, self._core].tocsc()
        self._tails = np.flatnonzero(np.diff(inside.indptr))
        self._heads, self._begins = inside.indices, inside.indptr[:-1][self._tails]
        self._hops: dict[int, np.ndarray] = {}

    def _paths_core(self) -> np.ndarray:
        """Return the nodes on possible paths between single words, including the words.

        Phrases without outgoing or without incoming edges end every path. Removing them repeatedly changes no distance
        between other nodes and leaves a fraction of the graph to search.
        """
        single = np.array(["_" not in node for node in self.nodes], dtype=bool)
        is_core = np.ones(len(self.nodes), dtype=bool)
        while is_core.any():
            inside = is_core.astype(np.float32)
            out, into = self.edges @ inside > 0, self.edges.T @ inside > 0
            better = is_core & (single | (out & into))
            if (better == is_core).all():
                break
            is_core = better
        return np.flatnonzero(is_core)

    def pruned(self) -> Graph:
        """Return the subgraph of nodes on paths between single words.

        Hops between single words do not change.
        """
        edges = self.edges[self._core][:, self._core].tocoo()
        names = [self.nodes[k] for k in self._core]
        return Graph((names[i], names[j]) for i, j in zip(edges.row, edges.col, strict=True))

    def hops(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """Return hops between first and second words, (N, M) int."""
        hops_table = np.full((len(first), len(second)), FAR)
        columns: dict[str, list[int]] = {}
        for k, word in enumerate(second):
            columns.setdefault(word, []).append(k)
        places = [self._known(word) for word in second]
        known_columns = np.array([k for k, place in enumerate(places) if place is not None], dtype=int)
        known_places = np.array([place for place in places if place is not None], dtype=int)
        rows: dict[int, list[int]] = {}
        for k, word in enumerate(first):
            place = self._known(word)
            if place is None:
                hops_table[k, columns.get(word, [])] = 1  # even an unknown word is 1 hop from itself
            else:
                rows.setdefault(place, []).append(k)
        for place, hops in self._iterate_hops(list(rows)):
            hops_table[np.ix_(np.array(rows[place]), known_columns)] = hops[known_places]
        return hops_table

    def reaches(self, word: str) -> bool:
        """Return True if the graph has paths from the word to others."""
        return self._known(word) is not None

    def _known(self, word: str) -> int | None:
        """Return the word's index among the searched nodes, if any."""
        node = self.row.get(word.replace("-", "_"))
        return None if node is None or self._place[node] < 0 else int(self._place[node])

    def _iterate_hops(self, places: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield node indices with hops to all nodes, (C,), cached or searched."""
        n = max(1, len(self._core))
        new = [place for place in places if place not in self._hops]
        for place in set(places).intersection(self._hops):
            self._hops[place] = self._hops.pop(place)  # the least recently used entries are evicted first
            yield place, self._hops[place]
        size = max(64, _SEARCHED // n)
        for start in range(0, len(new), size):
            part = new[start : start + size]
            for place, hops in zip(part, self._search(np.array(part)), strict=True):
                if len(self._hops) >= _KEPT // n:
                    del self._hops[next(iter(self._hops))]
                self._hops[place] = hops
                yield place, hops

    def _search(self, places: np.ndarray) -> np.ndarray:
        """Return the hops from distinct nodes to all nodes, (S, C) uint8."""
        n, width = len(self._core), -(-len(places) // 64) * 64
        is_start = np.zeros((n, width), dtype=bool)
        is_start[places, np.arange(len(places))] = True
        seen = np.packbits(is_start, axis=1).view(np.uint64)  # (C, width / 64): searches that have reached the node
        edge = seen.copy()
        distances = np.ones((n, width), dtype=np.uint8)
        for _ in range(254):
            into = np.zeros_like(edge)
            if len(self._tails):
                into[self._tails] = np.bitwise_or.reduceat(edge[self._heads], self._begins, axis=0)
            edge = into & ~seen
            if not edge.any():
                break
            distances += _bits(~seen)  # first visits are one hop farther
            seen |= edge
        distances[_bits(~seen).view(bool)] = FAR
        return np.ascontiguousarray(distances[:, : len(places)].T)

    def knows(self, word: str) -> bool:
        """Return True if a word is in the graph."""
        return word.replace("-", "_") in self.row

    def out_of(self, word: str) -> list[str]:
        """Return the targets of a word's outgoing edges."""
        node = self.row.get(word.replace("-", "_"))
        if node is None:
            return []
        begin, end = self.edges.indptr[node : node + 2]
        return [self.nodes[k] for k in self.edges.indices[begin:end]]


class Neighbours:
    """Mean vectors of words' neighbours at 1 hop, at 2, …

    Args:
        vector: function that returns the vector of a word or phrase, or None.
        counts: number of most similar neighbours at each number of hops; if there are fewer, that number is drawn with
            replacement.
        width: width of a vector.
    """

    def __init__(
        self, graph: Graph, vector: Callable[[str], np.ndarray | None], counts: Sequence[int], width: int
    ) -> None:
        self.graph, self.counts, self.width = graph, tuple(counts), width
        self._vector = vector

    @cached_property
    def _vectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Vectors of all nodes (V + 1, d), their lengths, and node rows.

        The last row means no vector.
        """
        node_vectors = [self._vector(node) for node in self.graph.nodes]
        known = [vector for vector in node_vectors if vector is not None]
        rows = np.full(len(node_vectors), len(known))
        rows[[k for k, vector in enumerate(node_vectors) if vector is not None]] = np.arange(len(known))
        vectors = np.array([*known, np.zeros(self.width)], dtype=np.float32)
        return vectors, np.linalg.norm(vectors, axis=1), rows

    def mean_vectors(self, word: str) -> np.ndarray:
        """Return the mean neighbour vectors of a word, (K, width).

        Zeros for a word without a vector.
        """
        means = np.zeros((len(self.counts), self.width), dtype=np.float32)
        word_vector, node = self._vector(word), self.graph.row.get(word.replace("-", "_"))
        if word_vector is None or node is None:
            return means
        vectors, lengths, rows = self._vectors
        length = float(np.linalg.norm(word_vector))
        ring, times = np.array([node]), np.array([1])
        for k, n in enumerate(self.counts):
            ring, times = self._next(ring, times, node)
            if not len(ring):
                break
            place = rows[ring]
            has_none = place == len(vectors) - 1
            ring_vectors, norms = vectors[place], lengths[place] * length
            like = np.divide(ring_vectors @ word_vector, norms, out=np.full(len(ring), -1.0), where=norms > 0)
            like[has_none] = -2.0
            order = np.lexsort((ring, -like))  # nodes are sorted by name
            total = int(times.sum())
            weights = np.zeros(len(ring), dtype=int)
            if total < n:
                draw = np.random.default_rng(derive_seed(0, "neighbours", word, k))
                chosen = np.repeat(order, times[order])[draw.integers(total, size=n)]
                np.add.at(weights, chosen, 1)
            else:
                before = np.cumsum(times[order]) - times[order]
                weights[order] = np.clip(n - before, 0, times[order])
            weights[has_none] = 0
            used = np.flatnonzero(weights)
            if len(used):
                means[k] = weights[used] @ ring_vectors[used] / weights[used].sum()
        return means

    def _next(self, ring: np.ndarray, times: np.ndarray, left_out: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes after a ring with edge counts, excluding one node.

        They can be in the ring itself.
        """
        edges = self.graph.edges
        out = edges.indptr[ring + 1] - edges.indptr[ring]
        first = edges.indptr[ring] - np.cumsum(out) + out
        heads = edges.indices[np.repeat(first, out) + np.arange(out.sum())]
        ring, place = np.unique(heads, return_inverse=True)
        counts = np.bincount(place, weights=np.repeat(times, out)).astype(int)
        is_allowed = ring != left_out
        return ring[is_allowed], counts[is_allowed]


def _bits(words: np.ndarray) -> np.ndarray:
    """Unpack (C, W) 64-bit words into (C, 64 W) bits."""
    return np.unpackbits(words.view(np.uint8), axis=1)


def graph_read(*paths: Path) -> Graph:
    """Read a graph from one or several files of triples.

    One triple per line, as JSON `{"head", "relation", "tail"}` or `relation TAB head TAB tail`; plain or `.gz`.

    Raises:
        GraphError: if a line is in neither format.
    """
    return Graph(edge for path in paths for edge in _edges_read(path))


def _edges_read(path: Path) -> list[tuple[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    edges = []
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                edges.append(_edge(line, f"{path}, line {number}"))
    except (GraphError, FileNotFoundError):
        raise
    except DAMAGE_ERRORS as error:
        raise GraphError(f"{path} cannot be read: {error}") from error
    if not edges:
        raise GraphError(f"{path} contains no triple")
    return edges


def _edge(line: str, location: str) -> tuple[str, str]:
    try:
        if line.startswith("{"):
            triple = json.loads(line)
            head, tail = triple["head"], triple["tail"]
        else:
            _, head, tail, *_ = line.rstrip("\n").split("\t")
        return _node(head), _node(tail)
    except (ValueError, KeyError, AttributeError, RecursionError):
        raise GraphError(
            f'{location}: {quote(line)} is not a triple; it must be {{"head", "relation", "tail"}} '
            "or relation, head and tail between tabs"
        ) from None


def _node(text: str) -> str:
    return "_".join(text.lower().replace("-", " ").replace("_", " ").split())
