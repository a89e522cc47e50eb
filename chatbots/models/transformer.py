"""Transformer encoder-decoder: a single-turn baseline that sees the latest utterance only.

Vaswani et al. (2017), "Attention Is All You Need", built from the layers of torch.nn with pre-layer normalisation,
which needs no warm-up (Xiong et al. 2020). Both embeddings and the output projection share one matrix (section 3.4).

Generation caches keys and values, so each step processes one word only. The cached computation uses the weights of
torch.nn's layers; a test checks that both give the same results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from chatbots.corpora.vocabulary import PAD, VocabularySize
from chatbots.models.batch import DecoderState, DialogueBatch, LatentNoise, ObjectiveTerms, ReplySeeds
from chatbots.models.dialogue_model import DialogueModel
from chatbots.models.layers import WordDrop, shifted, tokens_nll
from chatbots.validation import InputModel, Share, Size


class TransformerConfig(InputModel):
    """Sizes of a Transformer, named as in the paper.

    Attributes:
        V: vocabulary size, special tokens included.
        d_model: model width; even and a multiple of `n_heads`.
        n_heads: h in the paper.
        n_layers: N in the paper; encoder and decoder have this many layers each.
        d_ff: inner width of the feed-forward part.
        dropout: P_drop; drawn from torch's global generator.
    """

    V: VocabularySize
    d_model: Size = 256
    n_heads: Size = 4
    n_layers: Size = 3
    d_ff: Size = 1024
    dropout: Share = 0.1

    @model_validator(mode="after")
    def _heads_fit(self) -> TransformerConfig:
        if self.d_model % self.n_heads or self.d_model % 2:
            raise ValueError(f"d_model is {self.d_model}; it must be even and a multiple of n_heads, {self.n_heads}")
        return self


@dataclass(frozen=True, eq=False)
class CacheState(DecoderState):
    """Key-value cache of the decoder; rows may be at different positions."""

    n_said: Tensor  # (R,) words read by the decoder
    keys: Tensor  # (R, layers, L, d_model), of L positions the first n_said are valid
    values: Tensor  # (R, layers, L, d_model)
    memory_keys: Tensor  # (R, layers, S, d_model)
    memory_values: Tensor  # (R, layers, S, d_model)
    mask: Tensor  # (R, S), False at padding


class Transformer(DialogueModel):
    """Encoder-decoder of attention layers from one utterance to the next."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        sizes: dict[str, Any] = {
            "d_model": config.d_model,
            "nhead": config.n_heads,
            "dim_feedforward": config.d_ff,
            "dropout": config.dropout,
            "batch_first": True,
            "norm_first": True,
        }
        self.embedding = nn.Embedding(config.V, config.d_model, padding_idx=PAD)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**sizes),
            config.n_layers,
            norm=nn.LayerNorm(config.d_model),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**sizes), config.n_layers, norm=nn.LayerNorm(config.d_model)
        )
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)  # torch.nn.TransformerEncoder copies one layer's weights
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)  # scaled as in section 3.4
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()

    def terms(
        self,
        batch: DialogueBatch,
        *,
        word_drop: WordDrop,
        sentence_drop: float,
        generator: torch.Generator | None,
        noise: LatentNoise | None,
    ) -> ObjectiveTerms:
        targets = batch.targets
        memory, memory_mask = self._encode(batch.utterances[:, :-1][targets.mask], batch.lengths[:, :-1][targets.mask])
        inputs = word_drop(shifted(targets.tokens, targets.lengths))  # (M, T)
        n_steps = inputs.shape[1]
        ahead = torch.ones(n_steps, n_steps, dtype=torch.bool, device=inputs.device).triu(1)
        states = self.decoder(
            self.dropout(self._embedded(inputs, torch.arange(n_steps, device=inputs.device))),
            memory,
            tgt_mask=ahead,
            tgt_is_causal=True,
            memory_key_padding_mask=~memory_mask,
        )  # (M, T, d_model)
        nll = tokens_nll(lambda mask: self._logits(states[mask]), targets)  # (M,)
        return ObjectiveTerms.of_words_alone(nll, targets)

    def read_context(self, batch: DialogueBatch, seeds: Sequence[ReplySeeds]) -> CacheState:
        memory, memory_mask = self._encode(*batch.latest)  # (R, S, d_model), (R, S)
        d = self.config.d_model
        keys, values = [], []
        for layer in self.decoder.layers:
            weight, bias = layer.multihead_attn.in_proj_weight, layer.multihead_attn.in_proj_bias
            keys.append(F.linear(memory, weight[d : 2 * d], bias[d : 2 * d]))
            values.append(F.linear(memory, weight[2 * d :], bias[2 * d :]))
        nothing = memory.new_zeros(len(memory), self.config.n_layers, 0, d)
        return CacheState(
            n_said=torch.zeros(len(memory), dtype=torch.long, device=memory.device),
            keys=nothing,
            values=nothing,
            memory_keys=torch.stack(keys, dim=1),
            memory_values=torch.stack(values, dim=1),
            mask=memory_mask,
        )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, CacheState]:
        assert isinstance(state, CacheState)
        d = self.config.d_model
        now = state.n_said  # (R,)
        rows = torch.arange(len(now), device=now.device)
        n_wide = int(now.max()) + 1  # L
        keys = _wide(state.keys, n_wide)  # (R, layers, L, d_model), a copy
        values = _wide(state.values, n_wide)
        so_far = torch.arange(n_wide, device=now.device) <= now[:, None]  # (R, L)
        x = self._embedded(tokens[:, None], now[:, None])[:, 0]  # (R, d_model)
        for i, layer in enumerate(self.decoder.layers):
            attention = layer.self_attn
            query, key, value = F.linear(layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias).chunk(
                3, dim=-1
            )  # (R, d_model) each
            keys[rows, i, now], values[rows, i, now] = key, value
            x = x + attention.out_proj(self._attended(query, keys[:, i], values[:, i], so_far))
            cross = layer.multihead_attn
            query = F.linear(layer.norm2(x), cross.in_proj_weight[:d], cross.in_proj_bias[:d])
            x = x + cross.out_proj(
                self._attended(query, state.memory_keys[:, i], state.memory_values[:, i], state.mask)
            )
            x = x + layer.linear2(layer.activation(layer.linear1(layer.norm3(x))))
        assert self.decoder.norm is not None
        return self._logits(self.decoder.norm(x)), replace(state, n_said=now + 1, keys=keys, values=values)

    def _encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode M utterances, (M, T): memory (M, S, d_model) and its mask (M, S)."""
        tokens = tokens[:, : int(lengths.max())]  # (M, S)
        positions = torch.arange(tokens.shape[1], device=tokens.device)  # (S,)
        mask = positions < lengths[:, None]  # (M, S)
        words = self.dropout(self._embedded(tokens, positions))  # (M, S, d_model)
        return self.encoder(words, src_key_padding_mask=~mask), mask

    def _embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed words and their positions: ids of any shape → (…, d_model)."""
        d = self.config.d_model
        return self.embedding(tokens) * math.sqrt(d) + sinusoids(positions, d).to(self.embedding.weight.dtype)

    def _logits(self, states: Tensor) -> Tensor:
        """Compute logits over the vocabulary: (…, d_model) → (…, V)."""
        return F.linear(states, self.embedding.weight)

    def _attended(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Compute multi-head attention with one query per row.

        (R, d_model), keys and values (R, L, d_model), mask (R, L) → (R, d_model).
        """
        n_rows, n_heads = len(query), self.config.n_heads

        def split(x: Tensor) -> Tensor:
            return x.view(n_rows, -1, n_heads, x.shape[-1] // n_heads).transpose(1, 2)

        out = F.scaled_dot_product_attention(
            split(query[:, None]), split(keys), split(values), attn_mask=mask[:, None, None]
        )  # (R, heads, 1, d_head)
        return out.reshape(n_rows, -1)


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Compute the position encoding of section 3.5: any shape → (…, d_model).

    Even columns are sin(pos / 10000^(2i/d_model)), odd columns the cosine, in single precision.
    """
    exponents = torch.arange(0, d_model, 2, device=positions.device) / d_model  # (d_model / 2,)
    angles = positions[..., None] / 10_000**exponents  # (…, d_model / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def _wide(cache: Tensor, n_wide: int) -> Tensor:
    """Copy a cache (R, layers, L, d_model) to `n_wide` positions, padded with zeros."""
    if cache.shape[2] >= n_wide:
        return cache[:, :, :n_wide].clone()
    return F.pad(cache, (0, 0, 0, n_wide - cache.shape[2]))
