"""Key-value cache of a batch's conversations, in transformers' own layers.

Rows are aligned at the right: a shorter one has empty, masked columns at its left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache

from chatbots.generation.prefix_cache import CachedPrefix, CachedRow

Pad = Callable[[Tensor, int, int], Tensor]
"""Tensor, wanted size, dimension → tensor with zeros added."""


@dataclass
class CacheRows:
    """Cached state of some conversations; row i of every tensor is one conversation.

    Attributes:
        lengths: tokens of each row in the decoder so far.
        mask: (B, L), 1 for a token, 0 for an empty column at the left; L is the longest row.
        cache: keys and values.
        encoded: what the encoder made of the prompts, (B, S, E), and its mask (B, S), 1 for a token.
    """

    lengths: list[int]
    mask: Tensor
    cache: Any  # Cache or EncoderDecoderCache
    encoded: Tensor | None = None
    encoded_mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def self_layers(self) -> list[Any]:
        cache = self.cache
        return (cache.self_attention_cache if self.crosses else cache).layers

    @property
    def cross_layers(self) -> list[Any]:
        return self.cache.cross_attention_cache.layers if self.crosses else []

    @property
    def crosses(self) -> bool:
        return isinstance(self.cache, EncoderDecoderCache)


def pad_left(tensor: Tensor, n: int, dim: int) -> Tensor:
    return _pad_zeros(tensor, n, dim, at_left=True)


def pad_right(tensor: Tensor, n: int, dim: int) -> Tensor:
    return _pad_zeros(tensor, n, dim, at_left=False)


def _pad_zeros(tensor: Tensor, n: int, dim: int, *, at_left: bool) -> Tensor:
    lacking = n - tensor.shape[dim]
    if lacking == 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = lacking
    zeros = tensor.new_zeros(shape)
    return torch.cat([zeros, tensor] if at_left else [tensor, zeros], dim=dim)


def join_layers(a: list[Any], b: list[Any], pad: Pad, n: int) -> Cache:
    """Make one cache of the rows of both, `n` columns wide, padded by `pad`."""
    return _cache(
        [
            (
                torch.cat([pad(one.keys, n, 2), pad(two.keys, n, 2)]),
                torch.cat([pad(one.values, n, 2), pad(two.values, n, 2)]),
            )
            for one, two in zip(a, b, strict=True)
        ]
    )


def _cache(layers: Sequence[tuple[Tensor, Tensor]]) -> Cache:
    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


def copy_row(rows: CacheRows, i: int, tokens: Sequence[int]) -> CachedRow:
    """Copy what is remembered of row `i`, whose tokens these are, out of its batch."""
    n = rows.lengths[i]
    return CachedRow(
        tokens=np.asarray(tokens[:n], dtype=np.int32),
        layers=tuple((layer.keys[i, :, -n:].clone(), layer.values[i, :, -n:].clone()) for layer in rows.self_layers),
    )


def cache_from_prefixes(known: Sequence[CachedPrefix | None], starts: Sequence[int]) -> Cache:
    """Make a cache of what is known: row i has its first `starts[i]` tokens, at the right; none may be all empty.

    Args:
        known: for each row; None where `starts` is 0.
    """
    some = next(one for one in known if one is not None)
    n = max(starts)

    def joined(layer: int, part: int) -> Tensor:
        # Empty columns are masked, but must be numbers: zero times NaN is NaN.
        like = some.row.layers[layer][part]
        made = like.new_zeros((len(known), like.shape[0], n, like.shape[-1]))
        for row, (one, start) in enumerate(zip(known, starts, strict=True)):
            if one is not None and start:
                made[row, :, n - start :] = one.row.layers[layer][part][:, :start]
        return made

    return _cache([(joined(layer, 0), joined(layer, 1)) for layer in range(len(some.row.layers))])
