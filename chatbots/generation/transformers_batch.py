"""Running batch of a `TransformersBot`: slots, their tokens and their text."""

from __future__ import annotations

import logging
import platform
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import AutoConfig, GenerationConfig

from chatbots.bots.base import BotError, Piece
from chatbots.conversation import Conversation
from chatbots.generation.decoding import NO_NUMBERS, ReplyRow, choose, penalise_repetition
from chatbots.generation.kv_cache import CacheRows
from chatbots.generation.language_model import LanguageModel
from chatbots.generation.options import TransformersOptions
from chatbots.generation.prefill import EagerPrefill, PrefillQueue
from chatbots.generation.prefix_cache import PREFIX_CACHE
from chatbots.generation.prompts import Prompts
from chatbots.huggingface import SAFE_LOADING, fetch_model, load_pretrained, n_positions

log = logging.getLogger(__name__)

_UNKNOWN_LENGTH = 1024
"""Maximum context in tokens for models with a larger limit or none."""

_CLEAN_UP_STEPS = 8
"""Maximum number of steps before finished rows are removed."""


class ModelSpeaker(Protocol):
    """Protocol of a bot with a transformers model: log name and options."""

    name: str
    options: TransformersOptions


class LoadedModel:
    """Loaded model with its tokenizer and token constraints."""

    def __init__(
        self,
        bot: ModelSpeaker,
        language_model: LanguageModel,
        tokenizer: Any,
        stop_tokens: set[int],
        forced_first: int | None,
    ) -> None:
        self.language_model = language_model
        self.owner = PREFIX_CACHE.owner()
        """Owner of the cached rows, which are forgotten together with this model."""
        weakref.finalize(self, PREFIX_CACHE.drop, self.owner)
        self.tokenizer = tokenizer
        self.stop_tokens = stop_tokens
        self.forced_first = forced_first
        self.prompts = Prompts(
            tokenizer,
            system_prompt=bot.options.system_prompt,
            window=bot.options.window,
            max_tokens=_context_limit(bot, language_model.model.config),
            separator=bot.options.separator,
            for_encoder=language_model.has_encoder,
            thought_marks=bot.options.thought_marks,
        )
        self.ahead = EagerPrefill(language_model, self.prompts, self.owner)
        self.stops = bot.options.stop
        if bot.options.separator and not self.prompts.has_template:
            self.stops = (*bot.options.stop, bot.options.separator)
        n_logits = language_model.model.get_output_embeddings().weight.shape[0]
        forbidden = {i for i in tokenizer.all_special_ids if i not in stop_tokens}
        forbidden |= set(range(len(tokenizer), n_logits))  # logits without a token
        self.forbidden = torch.zeros(n_logits)
        self.forbidden[[i for i in forbidden if i < n_logits]] = -torch.inf
        self.forbidden = self.forbidden.to(language_model.device)
        self.stop_index = torch.tensor(sorted(stop_tokens), device=language_model.device)


def bfloat16_is_native() -> bool:
    """Return True if this processor multiplies bfloat16 natively.

    Otherwise each product is computed in float32.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _refuse_slow_dtype(bot: ModelSpeaker, folder: Path, device: str) -> None:
    is_stored = bot.options.dtype == "auto"
    dtype = AutoConfig.from_pretrained(folder, **SAFE_LOADING).dtype if is_stored else bot.options.dtype
    if str(dtype) in ("bfloat16", "torch.bfloat16") and device == "cpu" and not bfloat16_is_native():
        stored = " (that of its stored weights)" if is_stored else ""
        raise BotError(
            f"dtype is {bot.options.dtype}{stored}, which this CPU does not support in hardware: reading a "
            "conversation would take four to six times as long; set `dtype: float32`"
        )


def load_model(bot: ModelSpeaker, device: str) -> LoadedModel:
    """Return a bot's model, ready to generate.

    Raises:
        OSError: the model is missing and cannot be downloaded.
        BotError: its settings do not fit the model or this machine.
    """
    folder = fetch_model(bot.options.model, bot.options.revision, allow_download=bot.options.allow_download)
    _refuse_slow_dtype(bot, folder, device)
    loaded = load_pretrained(folder, device=device, dtype=bot.options.dtype)
    model, tokenizer, config = loaded.model, loaded.tokenizer, loaded.config
    settings = model.generation_config or GenerationConfig.from_model_config(config)
    ends = settings.eos_token_id
    stop_tokens = {ends} if isinstance(ends, int) else set(ends or ())
    if tokenizer.eos_token_id is not None:
        stop_tokens.add(tokenizer.eos_token_id)
    template = tokenizer.chat_template
    if isinstance(template, str):  # a mark of a new turn also ends a reply
        marks = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
        stop_tokens |= {token for text, token in marks if text and text in template}
    start_token = settings.decoder_start_token_id
    if start_token is None:
        start_token = settings.bos_token_id
    pad_token = tokenizer.pad_token_id
    language_model = LanguageModel(
        model,
        pad_token=pad_token if pad_token is not None else min(stop_tokens, default=0),
        start_token=start_token if start_token is not None else 0,
        n_positions=n_positions(config),
    )
    with torch.inference_mode():
        if not language_model.check():
            log.warning(
                "%s: rows of different lengths influence each other in %s, so its conversations are computed one at a "
                "time",
                bot.name,
                type(model).__name__,
            )
    return LoadedModel(bot, language_model, tokenizer, stop_tokens, settings.forced_bos_token_id)


def _context_limit(bot: ModelSpeaker, config: Any) -> int:
    """Return the maximum context that leaves room for the reply."""
    holds = n_positions(config)
    requested = bot.options.max_context_tokens or _UNKNOWN_LENGTH
    if holds is None:
        return requested
    room = holds if config.is_encoder_decoder else holds - bot.options.max_new_tokens
    if room < 1 or bot.options.max_new_tokens >= holds:
        raise BotError(
            f"max_new_tokens is {bot.options.max_new_tokens}; {bot.options.model} has {holds} positions "
            "for context and reply"
        )
    return min(requested, room)


class _Batch:
    """Rows of the model with their slots; row i belongs to `slots[i]`."""

    def __init__(self, rows: CacheRows, slots: list[ReplyRow], seen: torch.Tensor | None) -> None:
        self.rows = rows
        self.slots = slots
        self.seen = seen  # (B, V), tokens with a repetition penalty

    @property
    def n_gone(self) -> int:
        return sum(slot.gone for slot in self.slots)


class SlotGeneration:
    """The running batch; see `chatbots.bots.base.Generation`.

    Normally one batch; one per row for a model whose rows cannot be merged.
    """

    def __init__(self, bot: ModelSpeaker, ready: LoadedModel) -> None:
        self._bot = bot
        self._ready = ready
        self._model = ready.language_model
        self._batches: list[_Batch] = []
        self._newcomers = PrefillQueue(ready.language_model, ready.owner)
        self._slots: dict[int, ReplyRow] = {}
        self._n_slots = 0
        self._n_steps = 0

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        bot = self._bot
        slots: list[ReplyRow] = []
        for context in contexts:
            number = self._n_slots + len(slots)
            slots.append(
                ReplyRow(
                    number,
                    context,
                    max_tokens=bot.options.max_new_tokens,
                    no_repeat_ngram_size=bot.options.no_repeat_ngram_size,
                    stops=self._ready.stops,
                    make_filter=bot.options.reply_filter,
                    prompt=self._ready.prompts.encode(context),
                )
            )
        self._n_slots += len(slots)
        self._newcomers.add(slots)
        for slot in slots:
            self._ready.ahead.forget(slot.place)
        self._slots |= {slot.number: slot for slot in slots}
        return [slot.number for slot in slots]

    def cancel(self, slot: int) -> None:
        if slot in self._slots:
            self._slots.pop(slot).gone = True

    def step(self) -> list[Piece]:
        """Add a token to every reply, start admitted ones and return pieces."""
        with torch.inference_mode():
            pieces: list[Piece] = []
            for batch in self._advance():
                pieces += self._choose(*batch)
            return pieces

    def _advance(self) -> list[tuple[_Batch, torch.Tensor]]:
        """Run the forward passes; return batches with their next logits, (B, V)."""
        self._n_steps += 1
        now = self._newcomers.are_there or self._n_steps % _CLEAN_UP_STEPS == 0
        running = [b for batch in self._batches if (b := self._shrunk(batch, now)) is not None]
        results = [
            (batch, self._model.step(batch.rows, [slot.tokens[-1] for slot in batch.slots])) for batch in running
        ]
        n_running = sum(len(batch.slots) - batch.n_gone for batch in running)
        for slots, rows, logits in self._newcomers.read(n_running):
            batch = _Batch(rows, slots, self._seen(slots, logits))
            if results and self._model.mergeable:
                old, old_logits = results[0]
                seen = None if old.seen is None else torch.cat([old.seen, batch.seen])  # type: ignore[list-item]
                merged = _Batch(self._model.merge(old.rows, rows), old.slots + slots, seen)
                results[0] = (merged, torch.cat([old_logits, logits]))
            else:
                results.append((batch, logits))
        self._batches = [batch for batch, _ in results]
        return results

    def _shrunk(self, batch: _Batch, now: bool) -> _Batch | None:
        """Remove finished rows, but delay a few, because removal copies the rest."""
        if batch.n_gone == len(batch.slots):
            return None
        if batch.n_gone and (now or batch.n_gone * 8 >= len(batch.slots)):
            remaining = [i for i, slot in enumerate(batch.slots) if not slot.gone]
            batch.rows = self._model.keep(batch.rows, remaining)
            batch.slots = [batch.slots[i] for i in remaining]
            if batch.seen is not None:
                batch.seen = batch.seen[remaining]
        return batch

    def _seen(self, slots: list[ReplyRow], logits: torch.Tensor) -> torch.Tensor | None:
        if self._bot.options.repetition_penalty == 1:
            return None
        seen = torch.zeros(logits.shape, dtype=torch.bool)
        if not self._model.has_encoder:
            for row, slot in enumerate(slots):
                seen[row, slot.prompt] = True
        return seen.to(logits.device)

    def _choose(self, batch: _Batch, logits: torch.Tensor) -> list[Piece]:
        bot, slots = self._bot, batch.slots
        finite = logits.amax(-1).isfinite()
        logits = self._filtered(batch, logits)
        uniforms = [0.0 if slot.gone else slot.uniform for slot in slots]
        chosen = choose(
            logits, uniforms, temperature=bot.options.temperature, top_k=bot.options.top_k, top_p=bot.options.top_p
        )
        # Copy to the host once per step; −1 marks a row of NaN.
        tokens = torch.where(finite, chosen, -1).tolist()
        if batch.seen is not None:
            batch.seen[torch.arange(len(slots), device=chosen.device), chosen] = True
        alive = []
        for slot, token in zip(slots, tokens, strict=True):
            if slot.gone:
                slot.tokens[-1:] = [max(token, 0)]
                continue
            first = not slot.tokens and self._ready.forced_first is not None
            slot.say(self._ready.forced_first if first else token)  # type: ignore[arg-type]
            alive.append(slot)
        pieces = self._pieces(alive)
        ended = {piece.slot for piece in pieces if piece.done and piece.error is None}
        for row, slot in enumerate(slots):
            if slot.number in ended:
                self._newcomers.keep(slot, batch.rows, row)
                self._ready.ahead.note(slot.place, slot.context, slot.said)
        return pieces

    def _filtered(self, batch: _Batch, logits: torch.Tensor) -> torch.Tensor:
        """Apply the repetition penalty and forbidden tokens to the logits, (B, V)."""
        bot, slots = self._bot, batch.slots
        if batch.seen is not None:
            logits = penalise_repetition(logits, batch.seen, bot.options.repetition_penalty)
        logits = logits + self._ready.forbidden
        early = [row for row, s in enumerate(slots) if len(s.tokens) < bot.options.min_new_tokens]
        if early:
            rows = torch.tensor(early, device=logits.device)
            logits[rows[:, None], self._ready.stop_index] = -torch.inf
        if bot.options.no_repeat_ngram_size:
            pairs = [(row, token) for row, slot in enumerate(slots) for token in slot.forbidden()]
            if pairs:
                index = torch.tensor(pairs, device=logits.device)
                logits[index[:, 0], index[:, 1]] = -torch.inf
        return logits

    def _pieces(self, slots: list[ReplyRow]) -> list[Piece]:
        """Return the text completed by the newest token of every slot."""
        ready, pieces = self._ready, []
        ended = [slot.tokens[-1] in ready.stop_tokens for slot in slots]
        for slot, at_end in zip(slots, ended, strict=True):
            if at_end:
                slot.tokens.pop()
        broken = [bool(slot.tokens) and slot.tokens[-1] < 0 for slot in slots]
        texts = self._decoded([[] if bad else slot.tokens for slot, bad in zip(slots, broken, strict=True)])
        for slot, text, at_end, bad in zip(slots, texts, ended, broken, strict=True):
            if bad:
                pieces.append(Piece(slot.number, error=NO_NUMBERS))
                self._finish(slot)
                continue
            piece = slot.piece(text, ended=at_end)
            if piece.done:
                self._finish(slot)
            if piece.text or piece.done:
                pieces.append(piece)
        return pieces

    def _decoded(self, tokens: list[list[int]]) -> list[str]:
        return self._ready.tokenizer.batch_decode(tokens, skip_special_tokens=True)

    def _finish(self, slot: ReplyRow) -> None:
        slot.gone = True
        if not slot.tokens or slot.tokens[-1] < 0:
            slot.tokens[-1:] = [self._model.pad_token]  # its row may continue for a few steps
        self._slots.pop(slot.number, None)
