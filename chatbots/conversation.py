"""Conversations and their turns, the values exchanged by all components.

They are frozen, so that bots and metrics can safely store and share them. `webapp/conversations/selectors.py` is the
only place that converts database rows to these dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from chatbots.identity import derive_seed
from chatbots.text import quote

if TYPE_CHECKING:
    from chatbots.trace import TraceStep

Speaker = Literal["human", "bot"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance.

    In self-play both speakers are bots; the opening side is called "human".

    Attributes:
        image: attached image as a `data:` address, only for bots with `takes_images`.
        trace: reasoning and tool calls before a reply, for metrics; never part of a prompt.
    """

    speaker: Speaker
    text: str
    vote: int = 0
    image: str = ""
    trace: tuple[TraceStep, ...] = ()

    def __post_init__(self) -> None:
        if self.speaker not in ("human", "bot"):
            raise ValueError(f"speaker is {quote(self.speaker)}; it must be 'human' or 'bot'")
        if self.vote not in (-1, 0, 1):
            raise ValueError(f"vote is {quote(self.vote)}; it must be -1, 0 or 1")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, numbered from 0, and the seed for the bot.

    Attributes:
        offset: number of earlier turns cut off by a window, so that the seed of a reply does not depend on the window.
        bot_prompt: prompt of the study's condition, which replaces `{condition}` in the bot's system prompt.
        system_prompt: replacement of the bot's own system prompt, for bots that write a participant's messages.
        is_opened: True if the study defines the bot's first message, which the bot sees as its own.
    """

    id: str
    turns: tuple[Turn, ...] = ()
    seed: int = 0
    offset: int = 0
    bot_prompt: str = ""
    is_opened: bool = False
    system_prompt: str | None = None

    def with_turn(self, speaker: Speaker, text: str, *, trace: tuple[TraceStep, ...] = ()) -> Conversation:
        """Return a copy with one more turn at the end."""
        return replace(self, turns=(*self.turns, Turn(speaker, text, trace=trace)))

    def last(self, n_turns: int | None) -> Conversation:
        """Return a copy with only the last `n_turns` turns; None for all.

        Reply seeds stay the same.
        """
        if n_turns is None or n_turns >= len(self.turns):
            return self
        cut = len(self.turns) - n_turns
        return replace(self, turns=self.turns[cut:], offset=self.offset + cut)

    @classmethod
    def from_texts(cls, texts: Iterable[str], *, id: str = "", seed: int = 0, first: Speaker = "human") -> Conversation:
        """Build an alternating conversation from its texts; `first` speaks turn 0."""
        second: Speaker = "bot" if first == "human" else "human"
        turns = tuple(Turn(first if i % 2 == 0 else second, t) for i, t in enumerate(texts))
        return cls(id=id, turns=turns, seed=seed)

    @property
    def texts(self) -> tuple[str, ...]:
        """The utterances in order."""
        return tuple(turn.text for turn in self.turns)

    @property
    def n_exchanges(self) -> int:
        """Number of human turns directly followed by a reply."""
        return sum(
            a.speaker == "human" and b.speaker == "bot" for a, b in zip(self.turns, self.turns[1:], strict=False)
        )

    @property
    def reply_seed(self) -> int:
        """Seed of the next reply, by conversation and turn and independent of the batch."""
        return derive_seed(self.seed, "turn", self.offset + len(self.turns))
