"""A transformers model that many conversations share, a token at a time: rows join and leave.

transformers' own `generate` starts and ends all rows together. Here each forward pass takes the last
token of every running row; newcomers' prompts are computed as a batch of their own (prefill) and merged.
One path for all devices.

Rows are aligned at the right: a shorter row has empty, masked columns at its left, in the prompt and in
the key-value cache alike, and positions are counted per row. Two things follow for models:

- Rotary, relative and ALiBi positions depend on differences or on the given `position_ids`: nothing to do.
- Decoders of the BART family count positions by the length of the cache, the same for all rows. Their
  position embeddings are looked up per row by a hook (`_PositionsPerRow`).

`LanguageModel.check` compares a merged batch with single rows when a model is loaded; a model that fails
(an architecture with other habits) is run one row at a time, which is slower and always right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

_SPARE_COLUMNS = 64
"""A cache buffer grows by so many columns, so that most steps write in place."""

_PREFILL_TOKENS = 8192
"""Newcomers' prompts are computed in batches of at most so many tokens, padding counted."""


Pad = Callable[[Tensor, int, int], Tensor]
"""Tensor, wanted size, dimension → tensor with zeros added."""


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, (B, H, L, D), in a buffer with spare columns.

    transformers' own layer copies the whole cache at every step; this one writes a column.
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
            self.replace(self.keys, self.values, n_new - n_old + _SPARE_COLUMNS)
        self._key_buffer[..., n_old:n_new, :] = key_states
        self._value_buffer[..., n_old:n_new, :] = value_states
        self.keys = self._key_buffer[..., :n_new, :]
        self.values = self._value_buffer[..., :n_new, :]
        return self.keys, self.values

    def replace(self, keys: Tensor, values: Tensor, spare: int) -> None:
        """Set all keys and values, copying them into a new buffer with spare columns."""
        n = keys.shape[-2]
        shape = (*keys.shape[:-2], n + spare, keys.shape[-1])
        self._key_buffer = keys.new_empty(shape)
        self._value_buffer = values.new_empty((*shape[:-1], values.shape[-1]))
        self._key_buffer[..., :n, :] = keys
        self._value_buffer[..., :n, :] = values
        self.keys = self._key_buffer[..., :n, :]
        self.values = self._value_buffer[..., :n, :]


@dataclass
class Rows:
    """What a model remembers of some conversations; row i of every tensor is one conversation.

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
    def self_layers(self) -> list[GrowingLayer]:
        cache = self.cache
        return (cache.self_attention_cache if self.crosses else cache).layers

    @property
    def cross_layers(self) -> list[GrowingLayer]:
        return self.cache.cross_attention_cache.layers if self.crosses else []

    @property
    def crosses(self) -> bool:
        return isinstance(self.cache, EncoderDecoderCache)


class _PositionsPerRow:
    """Hooks on a decoder's `embed_positions`: look positions up per row instead of one for all rows.

    `positions` is None while all rows are where the module thinks they are, and it may do as it does.
    """

    def __init__(self, module: nn.Module) -> None:
        self.positions: list[int] | None = None
        self._table: dict[int, Tensor] = {}
        module.register_forward_pre_hook(self._before, with_kwargs=True)
        module.register_forward_hook(self._after, with_kwargs=True)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The cache may have more columns than the module has positions: ask it for position 0.
        return None if self.positions is None else _at(0, args, kwargs)

    def _after(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> Tensor:
        if self.positions is None:
            return output
        for position in set(self.positions) - self._table.keys():
            own_args, own_kwargs = _at(position, args, kwargs)
            made = module.forward(*own_args, **own_kwargs)
            self._table[position] = made.reshape(-1, made.shape[-1])[0]  # (E,)
        return torch.stack([self._table[p] for p in self.positions])[:, None, :]  # (B, 1, E)


def _at(
    position: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `embed_positions(ids or shape, past length, position_ids=…)` for one position."""
    args = (args[0], position, *args[2:])
    if isinstance(kwargs.get("position_ids"), Tensor):
        kwargs = {**kwargs, "position_ids": kwargs["position_ids"].new_tensor([position])}
    return args, kwargs


class LanguageModel:
    """Prefill, merge, step: the few operations that a running batch needs.

    Args:
        model: from `AutoModelForCausalLM` or `AutoModelForSeq2SeqLM`, on its device, in eval mode.
        pad_token: any valid token id; it fills masked places.
        start_token: what a decoder with an encoder begins with; not looked at without one.
        n_positions: how many positions the decoder knows; None: no limit. Rows that nobody reads any
            more may run on past it, and are given the last one.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_token: int,
        start_token: int = 0,
        n_positions: int | None = None,
    ) -> None:
        self.model = model
        self.pad_token = pad_token
        self.start_token = start_token
        self._last_position = n_positions - 1 if n_positions else None
        self.device = next(model.parameters()).device
        self.has_encoder = bool(model.config.is_encoder_decoder)
        self.mergeable = True
        """Whether rows of different lengths may share a batch."""
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted and not self.has_encoder
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._hook: _PositionsPerRow | None = None
        if self.has_encoder:
            module = getattr(model.get_decoder(), "embed_positions", None)
            if module is not None:
                self._hook = _PositionsPerRow(module)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Rows, Tensor]:
        """Compute prompts as one batch.

        Args:
            prompts: token ids; none may be empty. With an encoder they are its input.

        Returns:
            The rows, and the logits of each row's next token, (B, V).
        """
        if self.has_encoder:
            return self._prefill_encoder(prompts)
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.pad_token)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            mask[row, longest - len(prompt) :] = 1
        rows = Rows(
            lengths=[len(prompt) for prompt in prompts],
            mask=mask.to(self.device),
            cache=Cache(layer_class_to_replicate=GrowingLayer),
        )
        positions = (mask.cumsum(-1) - 1).clamp_(min=0).to(self.device)
        return rows, self._decode(rows, ids.to(self.device), positions)

    def prefill_batches(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Group the prompts, by index, that are computed together: of like length, and not too many at once."""
        if not self.mergeable:
            return [[i] for i in range(len(prompts))]
        batches: list[list[int]] = []
        for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
            if batches and (len(batches[-1]) + 1) * len(prompts[batches[-1][0]]) <= _PREFILL_TOKENS:
                batches[-1].append(i)
            else:
                batches.append([i])
        return batches

    def step(self, rows: Rows, tokens: Sequence[int]) -> Tensor:
        """Give every row its next token; returns the logits of the one after, (B, V)."""
        ids = torch.tensor(tokens, device=self.device)[:, None]
        rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(rows), 1)], dim=1)
        at = rows.lengths
        if self._last_position is not None:
            at = [min(n, self._last_position) for n in at]
        positions = torch.tensor(at, device=self.device)[:, None]
        logits = self._decode(rows, ids, positions, per_row=at)
        rows.lengths = [n + 1 for n in rows.lengths]
        return logits

    def merge(self, a: Rows, b: Rows) -> Rows:
        """Return one batch of the rows of both, those of `a` first."""
        n = max(a.mask.shape[1], b.mask.shape[1])
        merged = Rows(
            lengths=a.lengths + b.lengths,
            mask=torch.cat([_pad_left(a.mask, n, 1), _pad_left(b.mask, n, 1)]),
            cache=_join(a.self_layers, b.self_layers, _pad_left, n, _SPARE_COLUMNS),
        )
        if a.encoded is not None and a.encoded_mask is not None:
            assert b.encoded is not None
            assert b.encoded_mask is not None
            s = max(a.encoded.shape[1], b.encoded.shape[1])
            merged.cache = EncoderDecoderCache(
                merged.cache, _join(a.cross_layers, b.cross_layers, _pad_right, s, 0)
            )
            merged.encoded = torch.cat([_pad_right(a.encoded, s, 1), _pad_right(b.encoded, s, 1)])
            merged.encoded_mask = torch.cat(
                [_pad_right(a.encoded_mask, s, 1), _pad_right(b.encoded_mask, s, 1)]
            )
        return merged

    def keep(self, rows: Rows, kept: Sequence[int]) -> Rows:
        """Keep only these rows, in this order, without columns that are empty in all of them."""
        index = torch.tensor(kept, device=self.device)
        lengths = [rows.lengths[i] for i in kept]
        first = rows.mask.shape[1] - max(lengths)
        for layer in rows.self_layers:
            layer.replace(
                layer.keys[index, :, first:], layer.values[index, :, first:], _SPARE_COLUMNS
            )
        rows.lengths, rows.mask = lengths, rows.mask[index, first:]
        if rows.encoded is not None and rows.encoded_mask is not None:
            rows.encoded_mask = rows.encoded_mask[index]
            s = int(rows.encoded_mask.sum(1).max())
            rows.encoded, rows.encoded_mask = rows.encoded[index, :s], rows.encoded_mask[:, :s]
            for layer in rows.cross_layers:
                layer.replace(layer.keys[index, :, :s], layer.values[index, :, :s], 0)
        return rows

    def check(self) -> bool:
        """Test whether rows of different lengths in one batch get what they get alone; set `mergeable` accordingly.

        This takes three tiny forward passes. An error of a model without a key-value cache is passed on.
        """
        size = self.model.get_input_embeddings().weight.shape[0]
        short = [(7 * i + 3) % size for i in range(3)]
        long = [(5 * i + 1) % size for i in range(8)]
        after = [11 % size, 13 % size, 17 % size]

        def alone(prompt: list[int], given: list[int]) -> Tensor:
            rows, logits = self.prefill([prompt])
            for token in given:
                logits = self.step(rows, [token])
            return logits

        expected = torch.cat([alone(short, after), alone(long, after[:1]), alone(short, after[:1])])
        rows, _ = self.prefill([short])
        for token in after[:2]:
            self.step(rows, [token])
        late, _ = self.prefill([long, short])
        rows = self.merge(rows, late)
        got = self.step(rows, [after[2], after[0], after[0]])
        precise = next(self.model.parameters()).dtype == torch.float32
        tolerance = (2e-3 if precise else 0.1) * float(expected.max() - expected.min())
        self.mergeable = bool(((got - expected).abs().max() <= tolerance).item())
        return self.mergeable

    def _prefill_encoder(self, prompts: Sequence[Sequence[int]]) -> tuple[Rows, Tensor]:
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.pad_token)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
            mask[row, : len(prompt)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        encoder = self.model.get_encoder()
        encoded = encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, S, E)
        rows = Rows(
            lengths=[0] * len(prompts),
            mask=torch.zeros((len(prompts), 0), dtype=torch.long, device=self.device),
            cache=EncoderDecoderCache(
                Cache(layer_class_to_replicate=GrowingLayer),
                Cache(layer_class_to_replicate=GrowingLayer),
            ),
            encoded=encoded,
            encoded_mask=mask,
        )
        return rows, self.step(rows, [self.start_token] * len(prompts))

    def _decode(
        self, rows: Rows, ids: Tensor, positions: Tensor, per_row: list[int] | None = None
    ) -> Tensor:
        """Make one forward pass of the decoder: (B, T) new tokens → logits after the last, (B, V)."""
        if rows.encoded is None:
            given: dict[str, Any] = {"input_ids": ids, "attention_mask": rows.mask}
            if self._takes_positions:
                given["position_ids"] = positions
        else:
            encoded: Any = rows.encoded
            given = {
                "decoder_input_ids": ids,
                "decoder_attention_mask": rows.mask,
                "encoder_outputs": BaseModelOutput(last_hidden_state=encoded),
                "attention_mask": rows.encoded_mask,
            }
            if self._hook is not None and per_row is not None:
                self._hook.positions = (
                    per_row if len(set(per_row)) > 1 or self._gaps(rows) else None
                )
        try:
            output = self.model(
                **given, past_key_values=rows.cache, use_cache=True, **self._options
            )
        finally:
            if self._hook is not None:
                self._hook.positions = None
        return output.logits[:, -1].float()

    @staticmethod
    def _gaps(rows: Rows) -> bool:
        """Tell whether the cache has more columns than the rows have tokens."""
        return rows.mask.shape[1] - 1 != rows.lengths[0]


def _pad_left(tensor: Tensor, n: int, dim: int) -> Tensor:
    return _padded(tensor, n, dim, at_left=True)


def _pad_right(tensor: Tensor, n: int, dim: int) -> Tensor:
    return _padded(tensor, n, dim, at_left=False)


def _padded(tensor: Tensor, n: int, dim: int, *, at_left: bool) -> Tensor:
    lacking = n - tensor.shape[dim]
    if lacking == 0:
        return tensor
    shape = list(tensor.shape)
    shape[dim] = lacking
    zeros = tensor.new_zeros(shape)
    return torch.cat([zeros, tensor] if at_left else [tensor, zeros], dim=dim)


def _join(a: list[GrowingLayer], b: list[GrowingLayer], pad: Pad, n: int, spare: int) -> Cache:
    """Make one cache of the rows of both, `n` columns wide, padded by `pad`."""
    layers: list[Any] = []
    for one, two in zip(a, b, strict=True):
        layer = GrowingLayer()
        keys = torch.cat([pad(one.keys, n, 2), pad(two.keys, n, 2)])
        values = torch.cat([pad(one.values, n, 2), pad(two.values, n, 2)])
        layer.lazy_initialization(keys, values)
        layer.replace(keys, values, spare)
        layers.append(layer)
    return Cache(layers=layers)
