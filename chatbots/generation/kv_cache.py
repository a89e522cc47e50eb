"""Key-value cache of a batch, with one row per conversation.

Buffers grow as needed. Rows are right-aligned: a shorter row has empty, masked columns on its left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from chatbots.generation.prefix_cache import CachedPrefix, CachedRow

SPARE_COLUMNS = 64
"""Number of columns by which a buffer grows, so that most steps write in place."""


Pad = Callable[[Tensor, int, int], Tensor]
"""Function that pads a tensor with zeros to a size along a dimension."""


class GrowingLayer(DynamicLayer):
    """Keys and values of a layer, (B, H, L, D), with spare columns.

    transformers' own layer copies the whole cache at every step; this one writes one column.
    """

    keys: Any  # Tensor, once anything is stored
    values: Any

    def update(
        self, key_states: Tensor, value_states: Tensor, cache_kwargs: dict[str, Any] | None = None
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.replace(key_states, value_states, 0)
            return self.keys, self.values
        n_old = self.keys.shape[-2]
        n_new = n_old + key_states.shape[-2]
        if n_new > self._key_buffer.shape[-2]:
            self.replace(self.keys, self.values, n_new - n_old + SPARE_COLUMNS)
        self._key_buffer[..., n_old:n_new, :] = key_states
        self._value_buffer[..., n_old:n_new, :] = value_states
        self.keys = self._key_buffer[..., :n_new, :]
        self.values = self._value_buffer[..., :n_new, :]
        return self.keys, self.values

    def replace(self, keys: Tensor, values: Tensor, spare: int) -> None:
        """Replace all keys and values, with spare columns for growth."""
        n = keys.shape[-2]
        shape = (*keys.shape[:-2], n + spare, keys.shape[-1])
        self._key_buffer = keys.new_empty(shape)
        self._value_buffer = values.new_empty((*shape[:-1], values.shape[-1]))
        self._key_buffer[..., :n, :] = keys
        self._value_buffer[..., :n, :] = values
        self.keys = self._key_buffer[..., :n, :]
        self.values = self._value_buffer[..., :n, :]

    def reserve(self, keys: Tensor, values: Tensor, n_rows: int, n: int, spare: int) -> None:
        """Allocate `n` and `spare` columns for `n_rows` rows.

        Shapes and types are those of `keys` and `values`, (H, L, D).
        """
        n_heads = keys.shape[0]
        self._key_buffer = keys.new_empty((n_rows, n_heads, n + spare, keys.shape[-1]))
        self._value_buffer = values.new_empty((n_rows, n_heads, n + spare, values.shape[-1]))
        self.keys = self._key_buffer[..., :n, :]
        self.values = self._value_buffer[..., :n, :]


@dataclass
class CacheRows:
    """Cached state of several conversations, one per row.

    Attributes:
        lengths: number of decoder tokens of each row.
        mask: (B, L), 1 for a token, 0 for an empty column on the left; L is the longest row.
        cache: keys and values.
        encoded: the encoder's output for the prompts, (B, S, E), and its mask (B, S), 1 for a token.
    """

    lengths: list[int]
    mask: Tensor
    cache: Any  # Cache or EncoderDecoderCache
    encoded: Tensor | None = None
    encoded_mask: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def self_layers(self) -> list[GrowingLayer]:
        cache = self.cache
        return (cache.self_attention_cache if self.crosses else cache).layers

    @property
    def cross_layers(self) -> list[GrowingLayer]:
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


def join_layers(a: list[GrowingLayer], b: list[GrowingLayer], pad: Pad, n: int, spare: int) -> Cache:
    """Concatenate the rows of two caches, padded by `pad` to `n` columns."""
    layers: list[Any] = []
    for first, second in zip(a, b, strict=True):
        layer = GrowingLayer()
        keys = torch.cat([pad(first.keys, n, 2), pad(second.keys, n, 2)])
        values = torch.cat([pad(first.values, n, 2), pad(second.values, n, 2)])
        layer.lazy_initialization(keys, values)
        layer.replace(keys, values, spare)
        layers.append(layer)
    return Cache(layers=layers)


def copy_row(rows: CacheRows, i: int, tokens: Sequence[int]) -> CachedRow:
    """Copy the keys and values of row `i`, whose tokens are given."""
    n = rows.lengths[i]
    return CachedRow(
        tokens=np.asarray(tokens[:n], dtype=np.int32),
        layers=tuple((layer.keys[i, :, -n:].clone(), layer.values[i, :, -n:].clone()) for layer in rows.self_layers),
    )


def cache_from_prefixes(known: Sequence[CachedPrefix | None], starts: Sequence[int], spare: int) -> Cache:
    """Build a cache from known prefixes, right-aligned.

    Args:
        known: prefix of each row; None where `starts` is 0.
        starts: number of tokens to use of each prefix; at least one must be above 0.
        spare: number of columns to reserve.
    """
    some = next(prefix for prefix in known if prefix is not None)
    n = max(starts)
    layers: list[Any] = []
    for number, (keys, values) in enumerate(some.row.layers):
        layer = GrowingLayer()
        layer.lazy_initialization(keys, values)
        layer.reserve(keys, values, len(known), n, spare)
        for row, (prefix, start) in enumerate(zip(known, starts, strict=True)):
            # Empty columns are masked but must be finite, because zero times NaN is NaN.
            layer.keys[row, :, : n - start] = 0
            layer.values[row, :, : n - start] = 0
            if prefix is not None and start:
                stored_keys, stored_values = prefix.row.layers[number]
                layer.keys[row, :, n - start :] = stored_keys[:, :start]
                layer.values[row, :, n - start :] = stored_values[:, :start]
        layers.append(layer)
    return Cache(layers=layers)
