"""Networks of RADE, which scores reference and response in one pass.

The same encoder also generates the reference from the context.

Shi et al. 2023, "RADE: Reference-Assisted Dialogue Evaluation for Open-Domain Dialogue", ACL. Numbers in brackets are
sections of the fact sheet; choices where the paper is silent are marked there.

`RadeNetwork` is the paper's, on any encoder-decoder (BART) or encoder of transformers. `RadeLite` uses frozen sentence
vectors on a CPU; it is always labelled as a lite version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_TOKENS = 512
IGNORED = -100
"""Padding among the tokens of a reference."""


@dataclass(frozen=True)
class RadeWeights:
    """Weights of the loss terms; all 1 in the paper.

    Attributes:
        response, reference: weights of the squared errors of the two scores.
        generation: weight of the loss of generating the reference, mean per token.
        ranking: weight of the pairwise ranking loss.
        symmetric: also rank the reference above the response where its human score is higher; the paper ranks in the
            other direction only.
    """

    response: float = 1.0
    reference: float = 1.0
    generation: float = 1.0
    ranking: float = 1.0
    symmetric: bool = False


STAGE_1 = RadeWeights(reference=0, ranking=0)
"""Loss of pre-training, where references have no scores: L = MSE_a + GEN (3)."""
STAGE_2 = RadeWeights()
"""Loss of the task itself: L = MSE_a + MSE_h + GEN + PR (3)."""


def ranking_loss(scores: Tensor, response: Tensor, reference: Tensor, *, symmetric: bool = False) -> Tensor:
    """Compute the pairwise ranking loss PR (3).

    PR is the batch mean of −g·log(e^{ŝ_a} / (e^{ŝ_h} + e^{ŝ_a})), with g = 1 where s_h < s_a.

    Args:
        scores: (B, 2) predicted ŝ_h and ŝ_a.
        response, reference: (B,) human scores s_a and s_h.
        symmetric: add the loss with swapped roles where s_h > s_a.
    """
    lead = scores[:, 1] - scores[:, 0]
    loss = F.softplus(-lead) * (reference < response)  # log(1 + e^{ŝ_h − ŝ_a})
    if symmetric:
        loss = loss + F.softplus(lead) * (reference > response)
    return loss.mean()


def rade_loss(
    scores: Tensor, response: Tensor, reference: Tensor | None, generation: Tensor | None, weights: RadeWeights
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch and its parts by name.

    Args:
        scores: (B, 2) predicted ŝ_h and ŝ_a.
        response: (B,) human scores of the responses.
        reference: (B,) human scores of the references; None if there are none.
        generation: GEN of the batch; None without generation.
    """
    parts = {"mse_a": (weights.response, F.mse_loss(scores[:, 1], response))}
    if reference is not None and weights.reference:
        parts["mse_h"] = weights.reference, F.mse_loss(scores[:, 0], reference)
    if reference is not None and weights.ranking:
        ranked = ranking_loss(scores, response, reference, symmetric=weights.symmetric)
        parts["ranking"] = weights.ranking, ranked
    if generation is not None and weights.generation:
        parts["generation"] = weights.generation, generation
    total = torch.stack([weight * part for weight, part in parts.values()]).sum()
    return total, {name: float(part.detach()) for name, (_, part) in parts.items()}


def pair_tokens(
    tokenizer: Any, context: Sequence[str], reference: str, response: str, max_tokens: int = MAX_TOKENS
) -> list[int]:
    """Return the posterior encoder's input (2).

    It is begin, c, separator, r_h, separator, r_a, end. The separator is also placed between the utterances of c. A
    context that is too long loses its oldest tokens. Reference and response are truncated only if the two alone are too
    long, the longer one first.
    """
    begin, between = _marks(tokenizer)

    def tokenise(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    first, second = tokenise(reference), tokenise(response)
    most_words = max_tokens - 4  # excluding the start token and three separators
    if len(first) + len(second) > most_words:
        half = most_words // 2
        n_kept = max(half, most_words - len(second))
        first = first[:n_kept]
        second = second[: most_words - len(first)]
    ends = [between, *first, between, *second, between]
    room = max_tokens - len(ends) - 1
    context_ids = [token for text in context for token in (*tokenise(text), between)][:-1]
    return [begin, *(context_ids[-room:] if room else []), *ends]


def context_tokens(tokenizer: Any, context: Sequence[str], max_tokens: int = MAX_TOKENS) -> list[int]:
    """Return the generator's input, the context alone (2).

    It is begin, c, end.
    """
    begin, between = _marks(tokenizer)
    context_ids = [
        token for text in context for token in (*tokenizer(text, add_special_tokens=False)["input_ids"], between)
    ]
    return [begin, *context_ids[-(max_tokens - 1) :]]


def _marks(tokenizer: Any) -> tuple[int, int]:
    """Return the start token and the separator of an input.

    <s> and </s> for BART, [CLS] and [SEP] for BERT.
    """
    begin = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    between = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if begin is None or between is None:
        raise ValueError("the tokenizer has no token for the start or the end of a text")
    return begin, between


def padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return (B, T) tokens, padded at the end with a value."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


class ScoreHead(nn.Module):
    """Head that predicts scores from a vector (2, "FeedForward").

    Dropout, a tanh layer, dropout and a linear layer.

    Args:
        width: width of the vector, d.
        n_scores: 2 for ŝ_h and ŝ_a, 1 for ŝ_a.
    """

    def __init__(self, width: int, dropout: float = 0.1, n_scores: int = 2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Dropout(dropout), nn.Linear(width, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, n_scores)
        )

    def forward(self, vector: Tensor) -> Tensor:
        """Return (B, n_scores) scores of (B, d) vectors, not clipped."""
        return self.layers(vector)


class WordDecoder(nn.Module):
    """GRU decoder from a context vector, for encoders without a decoder.

    Args:
        n_words: size of the vocabulary; word 0 starts every text.
        width: width of the context vector.
    """

    def __init__(self, n_words: int, width: int, hidden: int = 128) -> None:
        super().__init__()
        self.begin = nn.Linear(width, hidden)
        self.words = nn.Embedding(n_words, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_words)

    def forward(self, context: Tensor, words: Tensor) -> Tensor:
        """Return GEN = −log P(r_h | c), mean per word.

        The references are (B, T) words, `IGNORED` after their end.
        """
        previous_words = torch.cat([torch.zeros_like(words[:, :1]), words[:, :-1].clamp(min=0)], dim=1)
        state = self.begin(context).tanh().unsqueeze(0)
        states, _ = self.gru(self.words(previous_words), state)  # teacher forcing
        return F.cross_entropy(self.out(states).transpose(1, 2), words, ignore_index=IGNORED)


class RadeNetwork(nn.Module):
    """RADE on an encoder-decoder, or on an encoder with a `WordDecoder`.

    Args:
        backbone: loaded model (`AutoModelForSeq2SeqLM`, or `AutoModel` for an encoder).
        dropout: dropout of the head.
    """

    def __init__(self, backbone: Any, dropout: float = 0.1) -> None:
        super().__init__()
        self.backbone = backbone
        self.generates = bool(backbone.config.is_encoder_decoder)
        width = int(backbone.config.hidden_size)
        self.head = ScoreHead(width, dropout)
        self.decoder = None if self.generates else WordDecoder(backbone.config.vocab_size, width)

    def encoded(self, tokens: Tensor, attention_mask: Tensor) -> Tensor:
        """Return (B, d) the encoder's states averaged over unpadded tokens (2, "Pooling")."""
        encoder = self.backbone.get_encoder() if self.generates else self.backbone
        states = encoder(input_ids=tokens, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1)

    def forward(self, tokens: Tensor, attention_mask: Tensor) -> Tensor:
        """Return (B, 2) ŝ_h and ŝ_a of inputs made by `pair_tokens`."""
        return self.head(self.encoded(tokens, attention_mask))

    def generation(self, context: Tensor, attention_mask: Tensor, reference: Tensor) -> Tensor:
        """Return GEN of contexts (B, T) and their references (B, R) (3).

        References have `IGNORED` after the end.
        """
        if self.generates:
            return self.backbone(
                input_ids=context, attention_mask=attention_mask, labels=reference
            ).loss  # mean per token
        assert self.decoder is not None
        return self.decoder(self.encoded(context, attention_mask), reference)


class RadeLite(nn.Module):
    """RADE on frozen sentence vectors and surface features.

    For small data on a CPU.

    Vectors are projected onto the principal axes of the training data, all inputs are standardised, and outputs are on
    the scale of the training ratings. `fitted` computes these buffers. Several members with different initial weights
    are trained in parallel and averaged.

    Args:
        n_surface: number of surface features.
        n_vectors: number of sentence vectors per example.
        width: width of a vector.
        n_axes: principal axes kept per vector; 0: vectors are ignored.
        hidden: units of each member.
        dropout: dropout of inputs and hidden units.
        members: number of members.
    """

    centre: Tensor
    axes: Tensor
    mean: Tensor
    spread: Tensor
    level: Tensor
    scale: Tensor

    def __init__(
        self,
        n_surface: int,
        n_vectors: int = 4,
        width: int = 384,
        *,
        n_axes: int = 16,
        hidden: int = 32,
        dropout: float = 0.3,
        members: int = 8,
    ) -> None:
        super().__init__()
        self.n_axes, self.dropout = n_axes, dropout
        n = n_surface + n_vectors * n_axes
        self.register_buffer("centre", torch.zeros(n_vectors, width))
        self.register_buffer("axes", torch.zeros(n_vectors, width, n_axes))
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("spread", torch.ones(n))
        self.register_buffer("level", torch.zeros(2))
        self.register_buffer("scale", torch.ones(2))
        self.into = nn.Parameter(torch.randn(members, n, hidden) / n**0.5)
        self.into_bias = nn.Parameter(torch.zeros(members, 1, hidden))
        self.out = nn.Parameter(torch.randn(members, hidden, 2) / hidden**0.5)
        self.out_bias = nn.Parameter(torch.zeros(members, 1, 2))

    def inputs(self, vectors: Tensor, surface: Tensor) -> Tensor:
        """Return (B, n) standardised inputs from vectors and features.

        (B, V, d) vectors and (B, S) features.
        """
        turned = torch.einsum("bvd,vda->bva", vectors - self.centre, self.axes)
        return (torch.cat([surface, turned.flatten(1)], dim=1) - self.mean) / self.spread

    @torch.no_grad()
    def fitted(self, vectors: Tensor, surface: Tensor, scores: Tensor) -> RadeLite:
        """Compute axes, means and spreads from training data.

        The arguments are (N, V, d) vectors, (N, S) features and (N, 2) human scores s_h and s_a.

        Where s_h is NaN, as in the first stage, its scale is that of s_a.
        """
        scores = torch.where(scores.isnan(), scores[:, 1:], scores)
        self.centre.copy_(vectors.mean(dim=0))
        for k in range(vectors.shape[1] if self.n_axes else 0):
            _, _, axes = torch.linalg.svd(vectors[:, k] - self.centre[k], full_matrices=False)
            self.axes[k] = axes[: self.n_axes].T
        self.mean.zero_()
        self.spread.fill_(1)
        inputs = self.inputs(vectors, surface)
        self.mean.copy_(inputs.mean(dim=0))
        spread = inputs.std(dim=0, unbiased=False)
        self.spread.copy_(torch.where(spread > 1e-6, spread, torch.ones_like(spread)))
        self.level.copy_(scores.mean(dim=0))
        self.scale.copy_(scores.std(dim=0, unbiased=False).clamp(min=1e-6))
        return self

    def members(self, vectors: Tensor, surface: Tensor) -> Tensor:
        """Return each member's ŝ_h and ŝ_a, (M, B, 2)."""
        x = self.inputs(vectors, surface).expand(len(self.into), -1, -1)
        x = F.dropout(x, self.dropout, self.training)
        x = torch.tanh(torch.baddbmm(self.into_bias, x, self.into))
        x = F.dropout(x, self.dropout, self.training)
        return torch.baddbmm(self.out_bias, x, self.out) * self.scale + self.level

    def forward(self, vectors: Tensor, surface: Tensor) -> Tensor:
        """Return (B, 2) ŝ_h and ŝ_a, the mean over the members."""
        return self.members(vectors, surface).mean(dim=0)


def reported(scores: np.ndarray, low: float = 1.0, high: float = 5.0) -> np.ndarray:
    """Clip scores to the scale for display.

    Losses and correlations use unclipped scores (2).
    """
    return np.clip(scores, low, high)
