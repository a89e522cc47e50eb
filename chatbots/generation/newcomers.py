"""Newcomers to a running batch: their prompts are read a part at a time, so that no reply under way stands still.

While replies are running, a step reads a limited number of tokens. Every second step goes on with the prompt that
came first, the others with the one that has least left to read: short ones do not wait for a long one, and a long one
is not put off for ever. While none is running, everything is read at once, since nobody waits for anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from chatbots.generation.cache_rows import Rows, row_kept
from chatbots.generation.kept_turns import KEPT, Known
from chatbots.generation.language_model import PREFILL_TOKENS, LanguageModel, Reading
from chatbots.generation.slots import Slot

CPU_TOKENS = 64
"""Read between two steps of running replies by a processor: about as many as it reads without loss."""

GPU_TOKENS = 1024
"""By an accelerator, which computes so many in about the time of a step; not measured."""

Read = tuple[list[Slot], Rows, Tensor]
"""Slots whose prompts are read, what the model remembers of them, and the logits of their next tokens."""


@dataclass(eq=False)
class _Group:
    """Slots whose prompts are read together. A model that reads prompts whole has no reading."""

    slots: list[Slot]
    reading: Reading | None

    @property
    def n_left(self) -> int:
        """Tokens still to be read, padding counted."""
        if self.reading is None:
            return sum(len(slot.prompt) for slot in self.slots)
        return len(self.slots) * self.reading.n_left

    @property
    def is_wanted(self) -> bool:
        return not all(slot.gone for slot in self.slots)


class Newcomers:
    """The prompts that are still to be read.

    Args:
        model: reads them.
        owner: of what is known of earlier turns, in `KEPT`; None: nothing is kept.
    """

    def __init__(self, model: LanguageModel, owner: int | None) -> None:
        self._model = model
        self._owner = owner if model.resumable else None
        self._waiting: list[Slot] = []
        self._groups: list[_Group] = []
        self._n_steps = 0

    @property
    def are_there(self) -> bool:
        """True if any prompt is still to be read."""
        return bool(self._waiting or self._groups)

    def add(self, slots: Sequence[Slot]) -> None:
        """Queue slots."""
        self._waiting += slots

    def keep(self, slot: Slot, rows: Rows, i: int) -> None:
        """Keep what is remembered of a finished slot, row `i`, for the conversation's next turn."""
        if self._owner is not None and KEPT.limit_bytes:
            row = row_kept(rows, i, slot.prompt + slot.tokens)
            KEPT.put(self._owner, slot.place, row)

    def read(self, n_running: int) -> list[Read]:
        """Read on; return those whose prompts are read now.

        Args:
            n_running: replies that wait for their next token meanwhile.
        """
        self._n_steps += 1
        self._groups = [group for group in self._groups if group.is_wanted]
        budget = self._budget(n_running) if n_running else None
        self._begin(budget or PREFILL_TOKENS)
        done: list[Read] = []
        left = budget
        while self._groups and (left is None or left > 0):
            group = self._next()
            n_before = group.n_left
            read = self._read(group, left)
            if read is not None:
                self._groups.remove(group)
                done.append(read)
            if left is not None:
                left -= n_before - (0 if read is not None else group.n_left)
        return done

    def _budget(self, n_running: int) -> int:
        """Return the number of tokens that a step may read.

        It is more where many replies run, since many slots become free then.
        """
        least = CPU_TOKENS if self._model.device.type == "cpu" else GPU_TOKENS
        return max(least, 2 * n_running)

    def _begin(self, most_tokens: int) -> None:
        """Form groups of those who wait."""
        slots = [slot for slot in self._waiting if not slot.gone]
        self._waiting = []
        known = [self._known(slot) for slot in slots]
        prompts = [slot.prompt for slot in slots]
        for indices in self._model.prefill_batches(prompts, known, most_tokens):
            reading = None
            if self._model.resumable:
                reading = self._model.begin(
                    [prompts[i] for i in indices], [known[i] for i in indices]
                )
            self._groups.append(_Group([slots[i] for i in indices], reading))

    def _known(self, slot: Slot) -> Known | None:
        return None if self._owner is None else KEPT.longest(self._owner, slot.prompt)

    def _next(self) -> _Group:
        if self._n_steps % 2:
            return self._groups[0]
        return min(self._groups, key=lambda group: group.n_left)

    def _read(self, group: _Group, n_tokens: int | None) -> Read | None:
        if group.reading is None:
            rows, logits = self._model.prefill([slot.prompt for slot in group.slots])
            return group.slots, rows, logits
        n_columns = None if n_tokens is None else max(1, n_tokens // len(group.slots))
        read = self._model.read(group.reading, n_columns)
        return None if read is None else (group.slots, group.reading.rows, read)
