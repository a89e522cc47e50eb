"""Continuous batching for transformers models: rows join and leave between tokens.

transformers' own `generate` starts and ends all rows together. Here each forward pass takes the last token of every
running row; the prompts of admitted requests are computed as a separate batch (prefill) and merged. All devices use
the same code.

Rows are right-aligned: a shorter row has empty, masked columns on its left, in the prompt and in the key-value cache,
and positions are counted per row. This has two consequences for models:

- Rotary, relative and ALiBi positions depend on differences or on the given `position_ids` and need no change.
- Decoders of the BART family count positions by the length of the cache, equal for all rows. A hook looks up their
position embeddings per row (`_PositionsPerRow`).

Decoder prompts can be prefilled in parts, between two steps of the running replies, and after the cached prefix
(`PromptPrefill`). All rows of a prefill have the same number of tokens left. A row with a longer cached prefix
recomputes part of it, so that no row has empty columns in its middle.

When a model is loaded, `LanguageModel.check` compares a merged batch with single rows, and a prompt prefilled in parts
with one prefilled at once. A model that fails (an unusual architecture) runs one row at a time or prefills whole
prompts, which is slower but always correct.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from chatbots.generation.kv_cache import (
    SPARE_COLUMNS,
    CacheRows,
    GrowingLayer,
    cache_from_prefixes,
    copy_row,
    join_layers,
    pad_left,
    pad_right,
)
from chatbots.generation.prefix_cache import CachedPrefix

PREFILL_TOKENS = 8192
"""Maximum number of tokens per prefill batch of admitted requests, including padding."""

MAX_LENGTH_DIFFERENCE = 32
"""Prompts whose numbers of unread tokens differ by at most this form one batch, however short they are."""


@dataclass
class PromptPrefill:
    """Prompts that are being prefilled.

    Attributes:
        rows: cache of the tokens read so far.
        ids, mask, positions: (B, M), of all tokens to read, right-aligned.
        n_read: number of columns already read.
    """

    rows: CacheRows
    ids: Tensor
    mask: Tensor
    positions: Tensor
    n_read: int = 0

    @property
    def n_left(self) -> int:
        """Number of columns left to read."""
        return self.ids.shape[1] - self.n_read


class _PositionsPerRow:
    """Hooks on a decoder's `embed_positions` that look up positions per row.

    `positions` is None while all rows have the position that the module assumes, so the hooks do nothing.
    """

    def __init__(self, module: nn.Module) -> None:
        self.positions: list[int] | None = None
        self._table: dict[int, Tensor] = {}
        module.register_forward_pre_hook(self._before, with_kwargs=True)
        module.register_forward_hook(self._after, with_kwargs=True)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The cache may have more columns than the module has positions, so ask for position 0.
        return None if self.positions is None else _arguments_at(0, args, kwargs)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        if self.positions is None:
            return output
        for position in set(self.positions) - self._table.keys():
            own_args, own_kwargs = _arguments_at(position, args, kwargs)
            embedded = module.forward(*own_args, **own_kwargs)
            self._table[position] = embedded.reshape(-1, embedded.shape[-1])[0]  # (E,)
        return torch.stack([self._table[p] for p in self.positions])[:, None, :]  # (B, 1, E)


def _arguments_at(
    position: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `embed_positions` for one position.

    Signature: `embed_positions(ids or shape, past length, position_ids=…)`.
    """
    args = (args[0], position, *args[2:])
    if isinstance(kwargs.get("position_ids"), Tensor):
        kwargs = {**kwargs, "position_ids": kwargs["position_ids"].new_tensor([position])}
    return args, kwargs


class LanguageModel:
    """Model with the operations of a running batch: prefill, merge, step.

    Args:
        model: from `AutoModelForCausalLM` or `AutoModelForSeq2SeqLM`, on its device, in eval mode.
        pad_token: any valid token id, for masked positions.
        start_token: first decoder token; ignored for models without an encoder.
        n_positions: number of positions of the decoder; None for no limit. Finished rows may run past it and then get
            the last position.
    """

    def __init__(self, model: Any, *, pad_token: int, start_token: int = 0, n_positions: int | None = None) -> None:
        self.model = model
        self.pad_token = pad_token
        self.start_token = start_token
        self._last_position = n_positions - 1 if n_positions else None
        self.device = next(model.parameters()).device
        self.has_encoder = bool(model.config.is_encoder_decoder)
        self.mergeable = True
        """True if rows of different lengths may share a batch."""
        self.resumable = not self.has_encoder
        """True if prompts may be prefilled in parts."""
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted and not self.has_encoder
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._hook: _PositionsPerRow | None = None
        if self.has_encoder:
            module = getattr(model.get_decoder(), "embed_positions", None)
            if module is not None:
                self._hook = _PositionsPerRow(module)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[CacheRows, Tensor]:
        """Compute prompts as one batch.

        Args:
            prompts: token ids, not empty; the input of the encoder if there is one.

        Returns:
            The rows, and the logits of each row's next token, (B, V).
        """
        if self.has_encoder:
            return self._prefill_encoder(prompts)
        reading = self.begin(prompts)
        logits = self.read(reading)
        assert logits is not None
        return reading.rows, logits

    def begin(self, prompts: Sequence[Sequence[int]], known: Sequence[CachedPrefix | None] = ()) -> PromptPrefill:
        """Start the prefill of a batch of prompts, for models without encoder.

        Args:
            prompts: token ids; none may be empty.
            known: cached prefix of each prompt; empty for none.
        """
        known = known or [None] * len(prompts)
        n_new = max(n_unknown(p, k) for p, k in zip(prompts, known, strict=True))
        starts = [max(0, len(prompt) - n_new) for prompt in prompts]
        n_old = max(starts)
        ids = torch.full((len(prompts), n_new), self.pad_token)
        mask = torch.zeros((len(prompts), n_old + n_new), dtype=torch.long)
        for row, (prompt, start) in enumerate(zip(prompts, starts, strict=True)):
            ids[row, n_new - len(prompt) + start :] = torch.tensor(prompt[start:])
            mask[row, n_old + n_new - len(prompt) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp_(min=0)[:, n_old:].to(self.device)
        mask = mask.to(self.device)
        rows = CacheRows(
            lengths=[len(prompt) for prompt in prompts],
            mask=mask[:, :n_old],
            cache=cache_from_prefixes(known, starts, n_new + SPARE_COLUMNS)
            if n_old
            else Cache(layer_class_to_replicate=GrowingLayer),
        )
        return PromptPrefill(rows, ids.to(self.device), mask[:, n_old:], positions)

    def read(self, reading: PromptPrefill, n_columns: int | None = None) -> Tensor | None:
        """Read up to `n_columns` more columns, or all if None.

        Returns:
            The logits of each row's next token, (B, V), once the prompts are complete; None before.
        """
        first = reading.n_read
        last = reading.ids.shape[1] if n_columns is None else first + min(n_columns, reading.n_left)
        rows = reading.rows
        rows.mask = torch.cat([rows.mask, reading.mask[:, first:last]], dim=1)
        logits = self._decode(rows, reading.ids[:, first:last], reading.positions[:, first:last])
        reading.n_read = last
        return None if reading.n_left else logits

    def prefill_batches(
        self, prompts: Sequence[Sequence[int]], known: Sequence[CachedPrefix | None], most_tokens: int = PREFILL_TOKENS
    ) -> list[list[int]]:
        """Group the indices of prompts with equally many tokens to read.

        Args:
            most_tokens: maximum tokens of a group; a longer prompt forms its own group.
        """
        if not self.mergeable:
            return [[i] for i in range(len(prompts))]
        n_new = [n_unknown(p, k) for p, k in zip(prompts, known, strict=True)]
        groups: list[list[int]] = []
        for i in sorted(range(len(prompts)), key=lambda i: -n_new[i]):
            longest = n_new[groups[-1][0]] if groups else 0
            if (
                groups
                and (len(groups[-1]) + 1) * longest <= most_tokens
                and longest <= 2 * n_new[i] + MAX_LENGTH_DIFFERENCE
            ):
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups

    def step(self, rows: CacheRows, tokens: Sequence[int]) -> Tensor:
        """Feed every row its next token; return the following logits, (B, V)."""
        ids = torch.tensor(tokens, device=self.device)[:, None]
        rows.mask = torch.cat([rows.mask, rows.mask.new_ones(len(rows), 1)], dim=1)
        positions_of_rows = rows.lengths
        if self._last_position is not None:
            positions_of_rows = [min(n, self._last_position) for n in positions_of_rows]
        positions = torch.tensor(positions_of_rows, device=self.device)[:, None]
        logits = self._decode(rows, ids, positions, per_row=positions_of_rows)
        rows.lengths = [n + 1 for n in rows.lengths]
        return logits

    def merge(self, a: CacheRows, b: CacheRows) -> CacheRows:
        """Merge two batches, with the rows of `a` first."""
        n = max(a.mask.shape[1], b.mask.shape[1])
        merged = CacheRows(
            lengths=a.lengths + b.lengths,
            mask=torch.cat([pad_left(a.mask, n, 1), pad_left(b.mask, n, 1)]),
            cache=join_layers(a.self_layers, b.self_layers, pad_left, n, SPARE_COLUMNS),
        )
        if a.encoded is not None and a.encoded_mask is not None:
            assert b.encoded is not None
            assert b.encoded_mask is not None
            s = max(a.encoded.shape[1], b.encoded.shape[1])
            merged.cache = EncoderDecoderCache(
                merged.cache, join_layers(a.cross_layers, b.cross_layers, pad_right, s, 0)
            )
            merged.encoded = torch.cat([pad_right(a.encoded, s, 1), pad_right(b.encoded, s, 1)])
            merged.encoded_mask = torch.cat([pad_right(a.encoded_mask, s, 1), pad_right(b.encoded_mask, s, 1)])
        return merged

    def keep(self, rows: CacheRows, indices: Sequence[int]) -> CacheRows:
        """Keep these rows in this order, and drop columns empty in all."""
        index = torch.tensor(indices, device=self.device)
        lengths = [rows.lengths[i] for i in indices]
        first = rows.mask.shape[1] - max(lengths)
        for layer in rows.self_layers:
            layer.replace(layer.keys[index, :, first:], layer.values[index, :, first:], SPARE_COLUMNS)
        rows.lengths, rows.mask = lengths, rows.mask[index, first:]
        if rows.encoded is not None and rows.encoded_mask is not None:
            rows.encoded_mask = rows.encoded_mask[index]
            s = int(rows.encoded_mask.sum(1).max())
            rows.encoded, rows.encoded_mask = rows.encoded[index, :s], rows.encoded_mask[:, :s]
            for layer in rows.cross_layers:
                layer.replace(layer.keys[index, :, :s], layer.values[index, :, :s], 0)
        return rows

    def check(self) -> bool:
        """Test the model and set `mergeable` and `resumable`.

        `mergeable`: rows of different lengths in one batch have the same logits as alone. `resumable`: a prompt
        prefilled in parts after a cached prefix has the same logits as one prefilled at once. The test takes a dozen
        tiny forward passes. The error of a model without a key-value cache is raised.

        Returns:
            `mergeable`.
        """
        size = self.model.get_input_embeddings().weight.shape[0]
        short = [(7 * i + 3) % size for i in range(3)]
        long = [(5 * i + 1) % size for i in range(8)]
        after = [11 % size, 13 % size, 17 % size]

        def alone(prompt: list[int], tokens: list[int]) -> Tensor:
            rows, logits = self.prefill([prompt])
            for token in tokens:
                logits = self.step(rows, [token])
            return logits

        expected = torch.cat([alone(short, after), alone(long, after[:1]), alone(short, after[:1])])
        rows, _ = self.prefill([short])
        for token in after[:2]:
            self.step(rows, [token])
        late, _ = self.prefill([long, short])
        rows = self.merge(rows, late)
        received = self.step(rows, [after[2], after[0], after[0]])
        self.mergeable = self._alike(received, expected)
        if self.resumable:
            first = copy_row(self.prefill([long[:4]])[0], 0, long[:4])
            prompts, known = [long], [CachedPrefix(first, 3)]
            if self.mergeable:
                prompts, known = [long, short], [CachedPrefix(first, 3), None]  # type: ignore[list-item]
            reading = self.begin(prompts, known)
            self.read(reading, 2)
            resumed = self.read(reading)
            assert resumed is not None
            at_once = torch.cat([alone(prompt, []) for prompt in prompts])
            self.resumable = self._alike(resumed, at_once)
        return self.mergeable

    def _alike(self, received: Tensor, expected: Tensor) -> bool:
        """Return True if logits are equal up to rounding."""
        precise = next(self.model.parameters()).dtype == torch.float32
        tolerance = (2e-3 if precise else 0.1) * float(expected.max() - expected.min())
        return bool(((received - expected).abs().max() <= tolerance).item())

    def _prefill_encoder(self, prompts: Sequence[Sequence[int]]) -> tuple[CacheRows, Tensor]:
        longest = max(map(len, prompts))
        ids = torch.full((len(prompts), longest), self.pad_token)
        mask = torch.zeros((len(prompts), longest), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
            mask[row, : len(prompt)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        encoder = self.model.get_encoder()
        encoded = encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, S, E)
        rows = CacheRows(
            lengths=[0] * len(prompts),
            mask=torch.zeros((len(prompts), 0), dtype=torch.long, device=self.device),
            cache=EncoderDecoderCache(
                Cache(layer_class_to_replicate=GrowingLayer), Cache(layer_class_to_replicate=GrowingLayer)
            ),
            encoded=encoded,
            encoded_mask=mask,
        )
        return rows, self.step(rows, [self.start_token] * len(prompts))

    def _decode(self, rows: CacheRows, ids: Tensor, positions: Tensor, per_row: list[int] | None = None) -> Tensor:
        """Run the decoder on (B, T) tokens; return the last logits, (B, V)."""
        if rows.encoded is None:
            inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": rows.mask}
            if self._takes_positions:
                inputs["position_ids"] = positions
        else:
            encoded: Any = rows.encoded
            inputs = {
                "decoder_input_ids": ids,
                "decoder_attention_mask": rows.mask,
                "encoder_outputs": BaseModelOutput(last_hidden_state=encoded),
                "attention_mask": rows.encoded_mask,
            }
            if self._hook is not None and per_row is not None:
                self._hook.positions = per_row if len(set(per_row)) > 1 or self._gaps(rows) else None
        try:
            output = self.model(**inputs, past_key_values=rows.cache, use_cache=True, **self._options)
        finally:
            if self._hook is not None:
                self._hook.positions = None
        return output.logits[:, -1].float()

    @staticmethod
    def _gaps(rows: CacheRows) -> bool:
        """Return True if the cache has more columns than tokens."""
        return rows.mask.shape[1] - 1 != rows.lengths[0]


def n_unknown(prompt: Sequence[int], known: CachedPrefix | None) -> int:
    """Count the tokens of a prompt that are not cached."""
    return len(prompt) - (known.n_tokens if known else 0)
