"""Chunked prefill of admitted requests, and eager prefill of next prompts.

Prompts are prefilled in parts, so that running replies are not blocked. While replies are running, each step reads a
limited number of tokens. Every second step continues the oldest prompt, the others the prompt with the fewest tokens
left, so short prompts do not wait for a long one and a long one is not starved. If no reply is running, prompts are
prefilled at once.

Once a bot has replied, the next prompt is known except for the participant's message. Usually it is cached already
(`prefix_cache.py`). If the window has moved or the oldest turns no longer fit, the cache does not match and the
participant would wait for the whole prompt. It is therefore prefilled in parts while the participant writes, whenever
no request waits for the device.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from chatbots.conversation import Conversation, Speaker
from chatbots.generation.decoding import ReplyRow
from chatbots.generation.kv_cache import CacheRows, copy_row
from chatbots.generation.language_model import PREFILL_TOKENS, LanguageModel, PromptPrefill
from chatbots.generation.prefix_cache import PREFIX_CACHE, CachedPrefix
from chatbots.generation.prompts import Prompts

CPU_PREFILL_TOKENS = 64
"""Tokens that a CPU prefills between two steps of running replies, with almost no loss of speed."""

GPU_PREFILL_TOKENS = 1024
"""Tokens that an accelerator prefills in about the time of a step (not measured)."""

PrefilledRows = tuple[list[ReplyRow], CacheRows, Tensor]
"""Slots with complete prompts, their cached rows, and the logits of their next tokens."""


@dataclass(eq=False)
class _PromptGroup:
    """Slots whose prompts are prefilled together; `reading` is None for whole prompts."""

    slots: list[ReplyRow]
    reading: PromptPrefill | None

    @property
    def n_left(self) -> int:
        """Number of tokens left to read, including padding."""
        if self.reading is None:
            return sum(len(slot.prompt) for slot in self.slots)
        return len(self.slots) * self.reading.n_left

    @property
    def is_wanted(self) -> bool:
        return not all(slot.gone for slot in self.slots)


class PrefillQueue:
    """Queue of prompts to prefill.

    Args:
        model: the language model.
        owner: owner of the cached rows in `PREFIX_CACHE`; None for no caching.
    """

    def __init__(self, model: LanguageModel, owner: int | None) -> None:
        self._model = model
        self._owner = owner if model.resumable else None
        self._waiting: list[ReplyRow] = []
        self._groups: list[_PromptGroup] = []
        self._n_steps = 0

    @property
    def are_there(self) -> bool:
        """True if any prompt is left."""
        return bool(self._waiting or self._groups)

    def add(self, slots: Sequence[ReplyRow]) -> None:
        """Queue slots."""
        self._waiting += slots

    def keep(self, slot: ReplyRow, rows: CacheRows, i: int) -> None:
        """Cache row `i` of a finished slot for the conversation's next turn."""
        if self._owner is not None and PREFIX_CACHE.limit_bytes:
            row = copy_row(rows, i, slot.prompt + slot.tokens)
            PREFIX_CACHE.put(self._owner, slot.place, row)

    def read(self, n_running: int) -> list[PrefilledRows]:
        """Prefill a part and return the rows whose prompts are complete.

        Args:
            n_running: number of replies that wait for their next token.
        """
        self._n_steps += 1
        self._groups = [group for group in self._groups if group.is_wanted]
        budget = self._budget(n_running) if n_running else None
        self._begin(budget or PREFILL_TOKENS)
        done: list[PrefilledRows] = []
        tokens_left = budget
        while self._groups and (tokens_left is None or tokens_left > 0):
            group = self._next()
            n_before = group.n_left
            read = self._read(group, tokens_left)
            if read is not None:
                self._groups.remove(group)
                done.append(read)
            if tokens_left is not None:
                tokens_left -= n_before - (0 if read is not None else group.n_left)
        return done

    def _budget(self, n_running: int) -> int:
        """Return the number of tokens that a step may read.

        It grows with the number of running replies, because more slots then become free.
        """
        least = CPU_PREFILL_TOKENS if self._model.device.type == "cpu" else GPU_PREFILL_TOKENS
        return max(least, 2 * n_running)

    def _begin(self, most_tokens: int) -> None:
        """Group the waiting prompts."""
        slots = [slot for slot in self._waiting if not slot.gone]
        self._waiting = []
        known = [self._known(slot) for slot in slots]
        prompts = [slot.prompt for slot in slots]
        for indices in self._model.prefill_batches(prompts, known, most_tokens):
            reading = None
            if self._model.resumable:
                reading = self._model.begin([prompts[i] for i in indices], [known[i] for i in indices])
            self._groups.append(_PromptGroup([slots[i] for i in indices], reading))

    def _known(self, slot: ReplyRow) -> CachedPrefix | None:
        return None if self._owner is None else PREFIX_CACHE.longest(self._owner, slot.prompt)

    def _next(self) -> _PromptGroup:
        if self._n_steps % 2:
            return self._groups[0]
        return min(self._groups, key=lambda group: group.n_left)

    def _read(self, group: _PromptGroup, n_tokens: int | None) -> PrefilledRows | None:
        if group.reading is None:
            rows, logits = self._model.prefill([slot.prompt for slot in group.slots])
            return group.slots, rows, logits
        n_columns = None if n_tokens is None else max(1, n_tokens // len(group.slots))
        read = self._model.read(group.reading, n_columns)
        return None if read is None else (group.slots, group.reading.rows, read)


EAGER_PREFILL_TOKENS = 32
"""Tokens per eager prefill; a request that arrives meanwhile waits no longer than this."""

_MIN_UNREAD_TOKENS = 16
"""Minimum number of unread tokens for an eager prefill."""

_MAX_CONVERSATIONS = 64
"""Maximum number of waiting conversations; the least recently answered are dropped."""


class EagerPrefill:
    """Prefill of next prompts while no reply is requested.

    Used only by the device's thread.

    Args:
        owner: owner of the cached rows.
    """

    def __init__(self, model: LanguageModel, prompts: Prompts, owner: int) -> None:
        self._model = model
        self._prompts = prompts
        self._owner = owner
        self._replied: OrderedDict[Hashable, Conversation] = OrderedDict()
        self._certain: dict[Hashable, list[int]] = {}

    @property
    def has_work(self) -> bool:
        """True if any conversation waits to be prefilled."""
        return bool(self._replied)

    def note(self, place: Hashable, context: Conversation, text: str) -> None:
        """Record that a conversation has received this reply."""
        if not (self._model.resumable and PREFIX_CACHE.limit_bytes):
            return
        self.forget(place)
        self._replied[place] = context.with_turn(_next_speaker(context), text)
        while len(self._replied) > _MAX_CONVERSATIONS:
            self.forget(next(iter(self._replied)))

    def forget(self, place: Hashable) -> None:
        """Forget a conversation in which the participant has written."""
        self._replied.pop(place, None)
        self._certain.pop(place, None)

    def read(self) -> None:
        """Prefill a part of the known next prompt of the latest conversation."""
        place = next(reversed(self._replied))
        tokens = self._certain.get(place)
        if tokens is None:
            tokens = self._certain[place] = self._tokens(self._replied[place])
        # Add one token to the known ones, because the last one is never looked up.
        known = PREFIX_CACHE.longest(self._owner, [*tokens, -1])
        n_known = known.n_tokens if known else 0
        if len(tokens) - n_known < _MIN_UNREAD_TOKENS:
            self.forget(place)
            return
        part = tokens[: n_known + EAGER_PREFILL_TOKENS]
        try:
            with torch.inference_mode():
                reading = self._model.begin([part], [known])
                self._model.read(reading)
                PREFIX_CACHE.put(self._owner, place, copy_row(reading.rows, 0, part))
        except BaseException:
            self.forget(place)
            raise
        after = PREFIX_CACHE.longest(self._owner, [*tokens, -1])
        if after is None or after.n_tokens <= n_known:  # it does not fit into the cache
            self.forget(place)

    def _tokens(self, context: Conversation) -> list[int]:
        """Return the part of the next prompt that is already known."""
        speaker = _next_speaker(context)
        first, second = (self._prompts.encode(context.with_turn(speaker, letter)) for letter in "ab")
        n = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first) - 1)
        return first[:n]


def _next_speaker(context: Conversation) -> Speaker:
    return "bot" if context.turns and context.turns[-1].speaker == "human" else "human"
