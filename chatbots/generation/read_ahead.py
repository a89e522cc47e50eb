"""Prefill of the certain part of a conversation's next prompt while no request waits for the device.

Once a bot has replied, all of the next prompt is known but what the person will say. Mostly it was read already and is
kept (`kept_turns.py`). Where the window has moved on, or the oldest turns no longer fit, nothing read before fits, and
the person would wait for all of it. They take some seconds to write; it is read meanwhile, a part at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import torch

from chatbots.conversation import Conversation, Speaker
from chatbots.generation.cache_rows import row_kept
from chatbots.generation.kept_turns import KEPT
from chatbots.generation.language_model import LanguageModel
from chatbots.generation.prompts import Prompts

PART_TOKENS = 32
"""Read at once: whoever asks meanwhile waits for no more."""

_WORTH_TOKENS = 16
"""Fewer unread tokens are left to the next turn."""

_MOST = 64
"""Conversations remembered; those that were answered longest ago are forgotten."""


class ReadAhead:
    """Prefill of next prompts, while no reply is requested.

    Touched by the device's thread only.

    Args:
        owner: in whose name it is kept.
    """

    def __init__(self, model: LanguageModel, prompts: Prompts, owner: int) -> None:
        self._model = model
        self._prompts = prompts
        self._owner = owner
        self._replied: OrderedDict[Hashable, Conversation] = OrderedDict()
        self._certain: dict[Hashable, list[int]] = {}

    @property
    def has_work(self) -> bool:
        """True if there is anything to look at."""
        return bool(self._replied)

    def note(self, place: Hashable, context: Conversation, text: str) -> None:
        """Remember that a conversation has got this reply, and waits for the person."""
        if not (self._model.resumable and KEPT.limit_bytes):
            return
        self.forget(place)
        self._replied[place] = context.with_turn(_next_speaker(context), text)
        while len(self._replied) > _MOST:
            self.forget(next(iter(self._replied)))

    def forget(self, place: Hashable) -> None:
        """Forget a conversation: its person has written."""
        self._replied.pop(place, None)
        self._certain.pop(place, None)

    def read(self) -> None:
        """Read a part of what is certain of the conversation that was answered last."""
        place = next(reversed(self._replied))
        tokens = self._certain.get(place)
        if tokens is None:
            tokens = self._certain[place] = self._tokens(self._replied[place])
        # One more token than is certain, since the last one is never looked for.
        known = KEPT.longest(self._owner, [*tokens, -1])
        n_known = known.n_tokens if known else 0
        if len(tokens) - n_known < _WORTH_TOKENS:
            self.forget(place)
            return
        part = tokens[: n_known + PART_TOKENS]
        try:
            with torch.inference_mode():
                reading = self._model.begin([part], [known])
                self._model.read(reading)
                KEPT.put(self._owner, place, row_kept(reading.rows, 0, part))
        except BaseException:
            self.forget(place)
            raise
        after = KEPT.longest(self._owner, [*tokens, -1])
        if after is None or after.n_tokens <= n_known:  # there is no room for it
            self.forget(place)

    def _tokens(self, context: Conversation) -> list[int]:
        """Return the tokens with which the next prompt begins, whatever is said next."""
        speaker = _next_speaker(context)
        one, other = (self._prompts.encode(context.with_turn(speaker, said)) for said in "ab")
        n = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one) - 1
        )
        return one[:n]


def _next_speaker(context: Conversation) -> Speaker:
    return "bot" if context.turns and context.turns[-1].speaker == "human" else "human"
