"""GRADE's network: a pair of context and reply, and a graph of their keywords (Huang et al. 2020, EMNLP; fact sheet 5).

Built as the paper has it (right-most column of the fact sheet's section 8): the attention is over neighbours j of i,
masked after scaling; W_k and V_l act on each node; the mean is over real nodes; DropEdge works in training only, on
undirected edges. Equation numbers are those of the paper's section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.training.contract import ExampleLoss

SLOPE = 0.2


@dataclass(frozen=True, slots=True)
class PairBatch:
    """B pairs as the network reads them; n keyword places, those of the context first.

    Attributes:
        text: (B, T) features of a frozen encoder, or the texts themselves as two lists.
        nodes: (B, n) rows of the word table; (B, n, d) vectors where there is none.
        near: (B, K, n, d) mean vectors of the neighbours at 1…K hops.
        hops: (B, n, n) hops between a keyword of the context and one of the reply; 0: no edge.
        real: (B, n) whether a keyword stands there.
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
    """Training batch: the pairs to rank higher, and the false replies to the same contexts."""

    true: PairBatch
    false: PairBatch


def abar(hops: Tensor, real: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return the normalised adjacency D^-1/2 (A + I) D^-1/2 with A = 1 / hops, (B, n, n); rows of no node are 0.

    Args:
        kept: (B, n, n) which edges DropEdge left; None: all.
    """
    a = torch.where(hops > 0, 1.0 / hops.clamp(min=1.0), 0.0)  # Eq. 5
    if kept is not None:
        a = a * kept
    a = a + torch.eye(hops.shape[-1], device=hops.device)
    a = a * real[:, :, None] * real[:, None, :]
    scale = a.sum(dim=-1).clamp(min=1e-12).rsqrt() * real
    return scale[:, :, None] * a * scale[:, None, :]


class GraphAttention(nn.Module):
    """One layer: heads side by side, scaled by the adjacency, and the node's own state next to them (Eq. 8 to 10)."""

    def __init__(self, width: int, heads: int, *, by_hops: bool) -> None:
        super().__init__()
        self.heads, self.by_hops = heads, by_hops
        self.w = nn.Linear(width, width, bias=False)
        self.a = nn.Parameter(torch.empty(2, heads, width // heads))
        self.v = nn.Linear(width, width, bias=False)
        for weight in (self.w.weight, self.a, self.v.weight):
            nn.init.xavier_uniform_(weight, gain=0.1414)

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """Return the nodes' next states, (B, n, d)."""
        b, n, d = h.shape
        wh = self.w(h).view(b, n, self.heads, d // self.heads)  # (B, n, M, d/M)
        own, other = ((wh * self.a[0]).sum(-1), (wh * self.a[1]).sum(-1))  # (B, n, M): a·[Wh_i ‖ Wh_j]
        e = F.leaky_relu(own[:, :, None] + other[:, None, :], SLOPE)  # (B, i, j, M)
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
        text_width: of what `text` gives.
        text: an encoder of pairs (`evaluation.training.backbone.Backbone`); None: the pairs bring features.
        table: (V, d) word vectors that learn, row 0 of unknown words; None: the pairs bring vectors of nodes.
        width: of a node, d.
        heads, layers: of the graph attention.
        hidden: width of both branches; the scorer narrows it to a quarter.
        n_rings: distances of neighbours, K.
        graph: False: the text branch alone.
        by_hops: False: attention that knows no distances.
        drop_edge: share of the edges left out at each step.
        margin: of the ranking loss.
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
        """Draw which edges stay, both directions alike; None where all do."""
        if not self.training or not self.drop_edge:
            return None
        drawn = torch.rand_like(hops).triu(1)
        drawn = drawn + drawn.transpose(1, 2)
        return (drawn >= self.drop_edge).to(hops.dtype)

    @property
    def _device(self) -> torch.device:
        return self.fc1.weight.device

    def loss(self, batch: Ranked) -> ExampleLoss:
        """Return max(0, s_false − s_true + margin), and how often the true reply is ahead (Eq. 13)."""
        return self.loss_of(self.logits(batch.true), self.logits(batch.false))

    def loss_of(self, true: Tensor, false: Tensor) -> ExampleLoss:
        """Return the same of scores before their sigmoid, (B,) each."""
        better, worse = torch.sigmoid(true), torch.sigmoid(false)
        total = F.relu(worse - better + self.margin).mean()
        right = (better > worse).float().mean()
        return ExampleLoss(total, len(true), {"accuracy": right.detach()})
