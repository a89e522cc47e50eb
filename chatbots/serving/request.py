"""One reply under way: the text handed over so far, and what counts as a reply."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chatbots.base import BotError
from chatbots.conversation import Conversation


class Request:
    """A context waiting for, or getting, its reply.

    A reply that failed in a batch is made a second time, alone. What was handed over stays handed
    over: the second text must begin with it, and only what lies beyond is passed on.
    """

    __slots__ = ("_text", "closed", "context", "queued_at", "sent", "tries")

    def __init__(self, context: Conversation) -> None:
        self.context = context
        self.queued_at = time.monotonic()
        self.tries = 1
        self.closed = False
        """Ended, or nobody waits for it any more."""
        self.sent = ""
        """What the asker has been given."""
        self._text = ""

    def take(self, text: object) -> str:
        """Add a piece; return the part of it that the asker has not seen.

        Raises:
            BotError: if it is not text, or a second try says something else than the first.
        """
        if not isinstance(text, str):
            raise BotError(f"gave a piece of type {type(text).__name__}; it must be text")
        if len(self._text) == len(self.sent):
            self._text += text
            self.sent += text
            return text
        self._text += text
        n_both = min(len(self._text), len(self.sent))
        if self._text[:n_both] != self.sent[:n_both]:
            raise BotError("failed in mid-reply, and its second try began differently")
        fresh = self._text[len(self.sent) :]
        self.sent += fresh
        return fresh

    def restart(self) -> None:
        """Begin the second try."""
        self.tries += 1
        self._text = ""

    def finish(self) -> None:
        """Check the whole reply.

        Raises:
            BotError: if it is blank, or a second try ended before the first.
        """
        if len(self._text) < len(self.sent):
            raise BotError("failed in mid-reply, and its second try ended earlier")
        if not self.sent.strip():
            raise BotError("gave an empty reply")


@dataclass(frozen=True, slots=True)
class Event:
    """News of a request: more text, its end, or its failure (which is an end too)."""

    request: Request
    text: str = ""
    done: bool = False
    error: str | None = None


def describe(exc: BaseException) -> str:
    """An exception in one line for people: a BotError speaks for itself."""
    text = " ".join(str(exc).split())
    if isinstance(exc, BotError) and text:
        return text
    return f"failed: {type(exc).__name__}: {text}" if text else f"failed: {type(exc).__name__}"
