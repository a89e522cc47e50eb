"""Protocols of a bot, in three kinds: stepwise, streaming and whole replies.

A bot keeps no memory of a conversation: the context is all it needs, so any process can answer any
turn and answering again is safe. `chatbots/serving` drives every kind.

The caller sets the reply's deadline in the context of the bot's task. A bot that may have to wait (for a busy
endpoint, for example) reads it and gives up early if the wait would be too long.
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
"""Longer replies are truncated and the bot is stopped; pages, prompts and metrics expect no more."""


class BotError(Exception):
    """Failure to make a reply; the message explains it to the researcher.

    `is_trouble` is false if the error does not reflect on the bot's health: it was never called, or it refused
    the content.
    """

    is_trouble = True
    is_content = False
    """True if the provider's content filter refused the conversation; another message may still get a reply."""

    def copy(self, text: str) -> BotError:
        """Return a plain error with another text and the same flags."""
        error = BotError(text)
        error.is_trouble, error.is_content = self.is_trouble, self.is_content
        return error


class ContentRefused(BotError):
    """Refusal of a conversation by the provider's content filter."""

    is_trouble = False
    is_content = True


class BotBusy(BotError):
    """Rejection because too many requests are waiting; a later retry may work."""

    is_trouble = False


@dataclass(frozen=True, slots=True)
class FallbackBot:
    """Bot that replied instead of another one, and the reason."""

    bot_id: str
    reason: str


class Bot(Protocol):
    """Protocol of all bots."""

    name: str
    """The bot's id in commands, studies and files."""
    title: str
    """Display name."""
    kind: str
    """The family shown in lists: rules, retrieval, control, transformers, endpoint, plug-in, …"""
    is_control: bool
    """True for a deliberately poor bot, which charts draw hollow and rankings omit."""
    capacity: int
    """Maximum number of concurrent replies."""
    deterministic: bool
    """True if equal context and seed give an equal reply."""

    @property
    def description(self) -> str:
        """One sentence for the catalogue."""
        ...

    @property
    def identity(self) -> Identity:
        """Identity of the bot, known without loading weights."""
        ...

    def unavailable_reason(self) -> str | None:
        """Explain why the bot cannot be loaded here, or return None.

        Cheap: loads nothing.
        """
        ...

    def load(self, device: str) -> None:
        """Prepare the bot to reply on `device` ("cpu", "cuda", "cuda:1").

        Safe to call again.
        """
        ...

    def unload(self) -> None:
        """Free memory. The bot can be loaded again."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of one slot's reply; its pieces joined are the reply.

    `done` closes the slot. An `error` also closes it, and fails only that reply.
    """

    slot: int
    text: str = ""
    done: bool = False
    error: str | None = None


class Generation(Protocol):
    """One running batch, used only by the thread of its device."""

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        """Encode the admitted requests and return a new slot number for each.

        A slot number is never reused within a generation. If this raises, the running slots must be unchanged: the
        host then retries only the new requests, one at a time.
        """
        ...

    def step(self) -> list[Piece]:
        """Advance all slots by one step.

        A slot without new text may have no piece.
        """
        ...

    def cancel(self, slot: int) -> None:
        """Free a slot; unknown or finished slots are ignored."""
        ...


@runtime_checkable
class StepBot(Bot, Protocol):
    """Protocol of neural bots, which compute; `start` opens an empty batch."""

    def start(self) -> Generation: ...


@runtime_checkable
class StreamBot(Bot, Protocol):
    """Protocol of HTTP bots, which need no device thread."""

    def stream(self, context: Conversation) -> AsyncIterator[str]: ...


@runtime_checkable
class WholeBot(Bot, Protocol):
    """Protocol of bots that return whole replies, each in its own thread.

    Rule-based bots, retrieval bots and 2019 plug-ins.
    """

    def answer(self, contexts: Sequence[Conversation]) -> list[str]: ...


class BotDefaults:
    """Base class with the defaults of most bots; subclasses set class attributes."""

    name: str = ""
    title: str = ""
    kind: str = "rules"
    is_control: bool = False
    capacity: int = 64
    deterministic: bool = True
    takes_images: bool = False
    """True if the bot reads images attached to turns."""
    version: str = "1"

    @property
    def description(self) -> str:
        """One sentence for the catalogue; may be a plain class attribute."""
        return ""

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the loaded bot, for the host's budget.

        0 if negligible. Loads nothing.
        """
        return 0

    @property
    def params(self) -> dict:
        """All settings that affect the replies, for the identity. No secrets."""
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
    """Set the time (`time.monotonic`) by which this task's reply must be complete.

    None for no limit.
    """
    _deadline.set(deadline)


def seconds_left() -> float:
    """Return the seconds until the deadline, or infinity if there is none."""
    deadline = _deadline.get()
    return math.inf if deadline is None else deadline - time.monotonic()
