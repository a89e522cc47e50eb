"""GRADE's network, and its input made from texts.

It reads a pair of context and reply, and a graph of their keywords (Huang et al. 2020, EMNLP; fact sheet, section 5).

The input consists of keywords, their vectors and neighbours, hops, and features of the pair.

The network follows the paper (right-most column in section 8 of the fact sheet): attention is over neighbours j of i,
masked after scaling; W_k and V_l act on each node; the mean is over real nodes; DropEdge is applied in training only,
to undirected edges. Equation numbers are those of the paper's section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.models.grade_graph import Graph, Neighbours
from evaluation.models.grade_keywords import Keywords
from evaluation.training.contract import ExampleLoss

SLOPE = 0.2


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Batch of B pairs with n keyword positions, context first.

    Attributes:
        text: (B, T) features of a frozen encoder, or two lists of texts.
        nodes: (B, n) rows of the word table; (B, n, d) vectors if there is no table.
        near: (B, K, n, d) mean vectors of the neighbours at 1…K hops.
        hops: (B, n, n) hops between a keyword of the context and one of the reply; 0: no edge.
        real: (B, n) True for positions with a keyword.
    """

    text: np.ndarray | tuple[list[str], list[str]]
    nodes: np.ndarray
    near: np.ndarray
    hops: np.ndarray
    real: np.ndarray

    def __len__(self) -> int:
        return len(self.real)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Training batch of true pairs and false replies to the same contexts."""

    true: PairBatch
    false: PairBatch


def abar(hops: Tensor, real: Tensor, edge_mask: Tensor | None = None) -> Tensor:
    """Return the normalised adjacency matrix, (B, n, n).

    D^-1/2 (A + I) D^-1/2 with A = 1 / hops; rows of empty positions are 0.

    Args:
        edge_mask: (B, n, n) edges kept by DropEdge; None: all.
    """
    a = torch.where(hops > 0, 1.0 / hops.clamp(min=1.0), 0.0)  # Eq. 5
    if edge_mask is not None:
        a = a * edge_mask
    a = a + torch.eye(hops.shape[-1], device=hops.device)
    a = a * real[:, :, None] * real[:, None, :]
    scale = a.sum(dim=-1).clamp(min=1e-12).rsqrt() * real
    return scale[:, :, None] * a * scale[:, None, :]


class GraphAttention(nn.Module):
    """Graph attention layer (Eq. 8 to 10).

    Parallel heads are scaled by the adjacency matrix; the node's own state is added.
    """

    def __init__(self, width: int, heads: int, *, by_hops: bool) -> None:
        super().__init__()
        self.heads, self.by_hops = heads, by_hops
        self.w = nn.Linear(width, width, bias=False)
        self.a = nn.Parameter(torch.empty(2, heads, width // heads))
        self.v = nn.Linear(width, width, bias=False)
        for weight in (self.w.weight, self.a, self.v.weight):
            nn.init.xavier_uniform_(weight, gain=0.1414)

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Update the node states, (B, n, d)."""
        b, n, d = h.shape
        wh = self.w(h).view(b, n, self.heads, d // self.heads)  # (B, n, M, d/M)
        source_score, target_score = ((wh * self.a[0]).sum(-1), (wh * self.a[1]).sum(-1))  # (B, n, M): a·[Wh_i ‖ Wh_j]
        e = F.leaky_relu(source_score[:, :, None] + target_score[:, None, :], SLOPE)  # (B, i, j, M)
        if self.by_hops:
            e = adjacency[..., None] * e  # Eq. 8
        edge = (adjacency > 0)[..., None]
        e = e.masked_fill(~edge, torch.finfo(e.dtype).min)
        alpha = e.softmax(dim=2) * edge  # over j; Eq. 9
        z = torch.einsum("bijm,bjmd->bimd", alpha, wh).reshape(b, n, d)
        return F.elu(self.v(h) + z)  # Eq. 10


class GradeNetwork(nn.Module):
    """Coherence of a reply with its context, in (0, 1).

    Args:
        text_width: output width of `text`.
        text: encoder of pairs (`evaluation.training.backbone.Backbone`); None: batches contain features.
        table: (V, d) trainable word vectors, row 0 for unknown words; None: batches contain node vectors.
        width: width of a node, d.
        heads, layers: numbers of attention heads and layers.
        hidden: width of both branches; the scorer narrows it to a quarter.
        n_rings: number of neighbour distances, K.
        graph: False: text branch only.
        by_hops: False: attention without distances.
        drop_edge: share of edges dropped at each step.
        margin: margin of the ranking loss.
    """

    def __init__(
        self,
        *,
        text_width: int,
        text: nn.Module | None = None,
        table: np.ndarray | None = None,
        width: int,
        heads: int = 4,
        layers: int = 3,
        hidden: int = 512,
        n_rings: int = 2,
        graph: bool = True,
        by_hops: bool = True,
        drop_edge: float = 0.2,
        margin: float = 0.1,
    ) -> None:
        super().__init__()
        self.text, self.graph, self.drop_edge, self.margin = text, graph, drop_edge, margin
        self.fc_text = nn.Linear(text_width, hidden)  # without activation, as the released code
        if graph:
            self.table = nn.Parameter(torch.as_tensor(table)) if table is not None else None
            self.near = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(n_rings))
            self.near_bias = nn.Parameter(torch.zeros(width))
            self.layers = nn.ModuleList(GraphAttention(width, heads, by_hops=by_hops) for _ in range(layers))
            self.fc_graph = nn.Linear(width, hidden)
        self.fc1 = nn.Linear(hidden * (2 if graph else 1), hidden)
        self.fc2 = nn.Linear(hidden, hidden // 4)
        self.fc3 = nn.Linear(hidden // 4, 1)

    def forward(self, pairs: PairBatch) -> Tensor:
        """Return the scores, (B,)."""
        return torch.sigmoid(self.logits(pairs))

    def logits(self, pairs: PairBatch) -> Tensor:
        """Return the scores before the sigmoid, (B,)."""
        parts = [self.fc_text(self._text(pairs.text))]  # v_c (B, hidden), Eq. 1
        if self.graph:
            parts.append(self._graph(pairs))
        x = F.elu(self.fc1(torch.cat(parts, dim=-1)))  # Eq. 12
        return self.fc3(F.elu(self.fc2(x)))[:, 0]

    def _text(self, text: Any) -> Tensor:
        if self.text is not None:
            return self.text(*text).pooled
        return torch.as_tensor(text, dtype=torch.float32, device=self._device)

    def _graph(self, pairs: PairBatch) -> Tensor:
        """Return v_g (B, hidden)."""
        device = self._device
        real = torch.as_tensor(pairs.real, dtype=torch.float32, device=device)  # (B, n)
        hops = torch.as_tensor(pairs.hops, dtype=torch.float32, device=device)
        h = (
            torch.as_tensor(pairs.nodes, dtype=torch.float32, device=device)
            if self.table is None
            else self.table[torch.as_tensor(pairs.nodes, device=device)]
        )  # (B, n, d)
        near = torch.as_tensor(pairs.near, dtype=torch.float32, device=device)
        for k, w in enumerate(self.near):
            h = h + w(near[:, k]) + self.near_bias  # Eq. 6 and 7
        h = h * real[..., None]
        adjacency = abar(hops, real, self._edges_kept(hops))
        for layer in self.layers:
            h = layer(h, adjacency) * real[..., None]
        mean = h.sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1.0)
        return F.elu(self.fc_graph(mean))  # Eq. 11

    def _edges_kept(self, hops: Tensor) -> Tensor | None:
        """Draw the undirected edges to keep; None for all."""
        if not self.training or not self.drop_edge:
            return None
        random_edges = torch.rand_like(hops).triu(1)
        random_edges = random_edges + random_edges.transpose(1, 2)
        return (random_edges >= self.drop_edge).to(hops.dtype)

    @property
    def _device(self) -> torch.device:
        return self.fc1.weight.device

    def loss(self, batch: Ranked) -> ExampleLoss:
        """Return the ranking loss and accuracy (Eq. 13).

        The loss is max(0, s_false − s_true + margin); accuracy is the share of pairs with the true reply ranked higher.
        """
        return self.loss_of(self.logits(batch.true), self.logits(batch.false))

    def loss_of(self, true: Tensor, false: Tensor) -> ExampleLoss:
        """Return loss and accuracy from scores before the sigmoid, (B,) each."""
        better, worse = torch.sigmoid(true), torch.sigmoid(false)
        total = F.relu(worse - better + self.margin).mean()
        right = (better > worse).float().mean()
        return ExampleLoss(total, len(true), {"accuracy": right.detach()})


UTTERANCES = 2
"""Number of context utterances that are read."""
Pair = tuple[tuple[str, ...], str]
"""Context, oldest utterance first, and reply."""


class Lexicon:
    """Vectors of keywords, and the mean vectors of their neighbours.

    Args:
        vectors: vectors by word; None or missing for words without one.
        counts: number of neighbours used at each distance.
        width: width of a vector.
    """

    def __init__(
        self, graph: Graph, vectors: Mapping[str, np.ndarray | None], counts: Sequence[int], width: int
    ) -> None:
        self.graph, self.width = graph, width
        self._vectors = vectors
        self._neighbours = Neighbours(graph, self.vector, counts, width)
        self._near: dict[str, np.ndarray] = {}

    def vector(self, word: str) -> np.ndarray | None:
        """Return a word's vector; None for phrases and words without one."""
        return self._vectors.get(word)

    def get_vector(self, word: str) -> np.ndarray:
        """Return a word's vector (d,), zeros if it has none."""
        vector = self.vector(word)
        return np.zeros(self.width, dtype=np.float32) if vector is None else vector

    def near(self, word: str) -> np.ndarray:
        """Return the mean neighbour vectors, (K, d).

        They are cached, since the graph's vocabulary is finite.
        """
        vectors = self._near.get(word)
        if vectors is None:
            vectors = self._neighbours.mean_vectors(word)
            if self.graph.knows(word):
                self._near[word] = vectors
        return vectors


class VocabularyTable:
    """Lexicon of a training vocabulary, as rows of a trainable table.

    Other words have row 0.

    Args:
        words: words of rows 1, 2, ….
        near: (V + 1, K, d) mean neighbour vectors; row 0 is zeros.
    """

    def __init__(self, words: Sequence[str], near: np.ndarray) -> None:
        self.rows = {word: k for k, word in enumerate(words, start=1)}
        self._near = near
        self.width = int(near.shape[2])

    def get_row(self, word: str) -> int:
        """Return a word's row."""
        return self.rows.get(word, 0)

    def near(self, word: str) -> np.ndarray:
        """Return the mean neighbour vectors, (K, d)."""
        return self._near[self.get_row(word)].astype(np.float32)


class Reader:
    """Maker of batches of pairs.

    Args:
        max_keywords: maximum number per pair; the context's come first, so a long context leaves fewer for the reply.
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
        """Return an utterance's keywords; training texts are cached."""
        if text not in self._known:
            self._known[text] = self.keywords.extract(text)
        return self._known[text]

    def tell(self, known: Mapping[str, list[str]]) -> None:
        """Replace the cached keywords by those of these texts.

        The cache must not grow with the number of scored texts.
        """
        self._known = dict(known)

    def placed(self, pair: Pair) -> tuple[list[str], list[str]]:
        """Return the keywords of context and reply within the limit."""
        context, reply = pair
        context_keywords = [word for utterance in context[-UTTERANCES:] for word in self.keywords_of(utterance)]
        context_keywords = context_keywords[: self.max_keywords]
        return context_keywords, self.keywords_of(reply)[: self.max_keywords - len(context_keywords)]

    def n_reply_keywords(self, pair: Pair) -> int:
        """Count the reply's keywords within the limit."""
        return len(self.placed(pair)[1])

    def n_unknown_keywords(self, pair: Pair) -> int:
        """Count keywords within the limit that have no graph paths."""
        context_keywords, answered = self.placed(pair)
        return sum(not self.graph.reaches(word) for word in (*context_keywords, *answered))

    def batch(self, pairs: Sequence[Pair], text: np.ndarray | tuple[list[str], list[str]]) -> PairBatch:
        """Return the network's input for pairs.

        Args:
            text: features of the pairs, or both texts.
        """
        rows = [self.placed(pair) for pair in pairs]
        n_said = np.array([len(context_keywords) for context_keywords, _answered in rows])
        keywords = [[*context_keywords, *answered] for context_keywords, answered in rows]
        n = max(1, *map(len, keywords))
        # Keywords are referred to by index of the distinct ones; the last index means no keyword.
        words = list(dict.fromkeys(word for row in keywords for word in row))
        place = {word: k for k, word in enumerate(words)}
        positions = np.full((len(rows), n), len(words))
        for k, row in enumerate(keywords):
            positions[k, : len(row)] = [place[word] for word in row]
        if isinstance(self.lexicon, VocabularyTable):
            nodes = np.array([*map(self.lexicon.get_row, words), 0], dtype=np.int64)
        else:
            nodes = np.zeros((len(words) + 1, self.width), np.float32)
            for k, word in enumerate(words):
                nodes[k] = self.lexicon.get_vector(word)
        near = np.zeros((len(words) + 1, self.n_rings, self.width), dtype=np.float32)
        if self.n_rings:
            for k, word in enumerate(words):
                near[k] = self.lexicon.near(word)
        return PairBatch(
            text,
            nodes[positions],
            near[positions].transpose(0, 2, 1, 3),
            self._hops(words, positions, n_said),
            positions < len(words),
        )

    def _hops(self, words: list[str], positions: np.ndarray, n_said: np.ndarray) -> np.ndarray:
        """Return symmetric hops between context and reply keywords, (B, n, n).

        All other entries are 0.

        Args:
            positions: (B, n) index of each keyword in `words`, or the length of `words` for none.
            n_said: (B,) number of keywords from the context.
        """
        is_said = np.arange(positions.shape[1]) < n_said[:, None]
        is_answered = ~is_said & (positions < len(words))
        context_words, answered = np.unique(positions[is_said]), np.unique(positions[is_answered])
        between = self.graph.hops([words[k] for k in context_words], [words[k] for k in answered])
        row, column = np.zeros((2, len(words) + 1), dtype=int)
        row[context_words], column[answered] = np.arange(len(context_words)), np.arange(len(answered))
        hops = np.zeros((*positions.shape, positions.shape[1]), dtype=np.float32)
        pair, i, j = np.nonzero(is_said[:, :, None] & is_answered[:, None, :])
        hops[pair, i, j] = between[row[positions[pair, i]], column[positions[pair, j]]]
        return hops + hops.transpose(0, 2, 1)


def features(context: Sequence[np.ndarray], reply: np.ndarray) -> np.ndarray:
    """Return products and distances of reply and context vectors, (N, 4 D).

    Args:
        context: (N, D) vectors of the last utterance and of the one before it; zeros if missing.
        reply: (N, D).
    """
    parts = [part for utterance in context for part in (utterance * reply, np.abs(utterance - reply))]
    return np.concatenate(parts, axis=1)
