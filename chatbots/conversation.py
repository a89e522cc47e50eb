"""The values that everything exchanges: one utterance (`Turn`) and a whole `Conversation`.

Frozen, so that a bot or a metric can keep or share one without fear. The database rows of `webapp`
become these dataclasses in one place (`webapp/conversations/selectors.py`).
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
    """One utterance. In self-play both speakers are the bot: the opener's side is called "human".

    Attributes:
        image: that goes with the text, as a `data:` address; set for bots with `takes_images` alone.
        trace: reasoning and tool calls before a reply, for metrics; no prompt has them.
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
    """Turns in order, numbered from 0, and the seed from which all randomness of its bot derives.

    Attributes:
        offset: number of turns that a window has left out before the first one here; the seed of a reply does not
            depend on the window.
        bot_prompt: of the study's condition: put in place of `{condition}` in the bot's system prompt.
        system_prompt: in place of the bot's own system prompt, for a bot that writes a participant's messages.
        is_opened: True if the study gave the bot its first message, which the bot is to see as its own.
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
        """Return a copy with the last `n_turns` turns only (all of them if None), same seeds."""
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
        """Number of human turns that are followed directly by a reply of the bot."""
        return sum(
            a.speaker == "human" and b.speaker == "bot" for a, b in zip(self.turns, self.turns[1:], strict=False)
        )

    @property
    def reply_seed(self) -> int:
        """Seed of the next reply: depends on the conversation and the turn, not on the batch."""
        return derive_seed(self.seed, "turn", self.offset + len(self.turns))
