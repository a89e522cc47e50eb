"""Protocols of a bot, in three kinds: stepwise, streaming and whole replies.

A bot keeps no memory of a conversation: the context is all it needs, so any process can answer any
turn and answering again is safe. `chatbots/serving` drives every kind.

The caller of a bot sets the deadline of the reply in the context of the bot's task; a bot that may wait (for a busy
endpoint, for example) reads it and does not wait in vain.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from chatbots.conversation import Conversation
from chatbots.identity import Identity

REPLY_MAX_CHARS = 20_000
"""A longer reply is cut, and its bot stopped: no page, prompt or metric is made for more."""


class BotError(Exception):
    """A reply could not be made; the message says why, for the log and the researcher.

    `is_trouble` is false where it says nothing of the bot's health: it was not even asked, or refused the content.
    """

    is_trouble = True
    is_content = False
    """True: a filter of the model's provider refused what the conversation says; another message may be answered."""

    def copy(self, text: str) -> BotError:
        """Return a plain error with another text that says as much of the bot and the conversation."""
        error = BotError(text)
        error.is_trouble, error.is_content = self.is_trouble, self.is_content
        return error


class ContentRefused(BotError):
    """Refusal of a conversation by a filter of the model's provider."""

    is_trouble = False
    is_content = True


class BotBusy(BotError):
    """Too many wait for the bot; asking again later may work."""

    is_trouble = False


@dataclass(frozen=True, slots=True)
class FallbackBot:
    """The bot that answered in another's place, and why that one did not."""

    bot_id: str
    reason: str


class Bot(Protocol):
    """Protocol of all bots; `name` is the bot's id in commands, URLs and files."""

    name: str
    """The bot's id: what commands, studies and files call it."""
    title: str
    """Its name for people."""
    kind: str
    """The family shown in lists: rules, retrieval, control, transformers, endpoint, plug-in, …"""
    is_control: bool
    """A deliberately poor bot, drawn hollow and left out of rankings."""
    capacity: int
    """The most replies under way at once."""
    deterministic: bool
    """Same context and seed, same reply."""

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        ...

    @property
    def identity(self) -> Identity:
        """Known without loading weights."""
        ...

    def unavailable_reason(self) -> str | None:
        """Explain why the bot cannot be loaded here, or return None.

        Cheap: loads nothing.
        """
        ...

    def load(self, device: str) -> None:
        """Make ready to answer on `device` ("cpu", "cuda", "cuda:1"). Safe to call again."""
        ...

    def unload(self) -> None:
        """Free memory. The bot can be loaded again."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of one slot's reply. The pieces of a slot, joined, are the reply.

    `done` closes the slot. An `error` closes it too and fails that reply alone.
    """

    slot: int
    text: str = ""
    done: bool = False
    error: str | None = None


class Generation(Protocol):
    """One running batch, touched by its device's thread only."""

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        """Encode the admitted requests and give each a slot number, never used before in this generation.

        If it raises, the slots already running must be as they were: only the newcomers are tried
        again, each alone.
        """
        ...

    def step(self) -> list[Piece]:
        """Advance all slots by one step; may give no piece for a slot that has nothing to show."""
        ...

    def cancel(self, slot: int) -> None:
        """Free a slot; unknown or finished slots are ignored."""
        ...


@runtime_checkable
class StepBot(Bot, Protocol):
    """Computes: neural bots. `start` opens an empty running batch."""

    def start(self) -> Generation: ...


@runtime_checkable
class StreamBot(Bot, Protocol):
    """Waits: HTTP bots, on the event loop, no device thread."""

    def stream(self, context: Conversation) -> AsyncIterator[str]: ...


@runtime_checkable
class WholeBot(Bot, Protocol):
    """Rules, retrieval, 2019 plug-ins: whole replies, in a thread of its own."""

    def answer(self, contexts: Sequence[Conversation]) -> list[str]: ...


class BotDefaults:
    """Default attributes of most bots; derive from it and set the class attributes."""

    name: str = ""
    title: str = ""
    kind: str = "rules"
    is_control: bool = False
    capacity: int = 64
    deterministic: bool = True
    takes_images: bool = False
    """Sees the images of turns."""
    version: str = "1"

    @property
    def description(self) -> str:
        """One sentence for the catalogue; a plain class attribute will do."""
        return ""

    @property
    def memory_bytes(self) -> int:
        """About what the loaded bot takes, for the host's budget; 0: next to nothing. Loads nothing."""
        return 0

    @property
    def params(self) -> dict:
        """Everything that decides the replies, for the identity. No secrets."""
        return {}

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.version, self.params)

    def unavailable_reason(self) -> str | None:
        return None

    def load(self, device: str) -> None:
        return None

    def unload(self) -> None:
        return None


_deadline: ContextVar[float | None] = ContextVar("reply_deadline", default=None)


def set_deadline(deadline: float | None) -> None:
    """Note when the reply of this task has to be complete, by `time.monotonic`; None: whenever."""
    _deadline.set(deadline)


def seconds_left() -> float:
    """Return the seconds until the deadline; infinity where none is set."""
    deadline = _deadline.get()
    return math.inf if deadline is None else deadline - time.monotonic()
