"""Reply requests in progress, with their text so far and its validation."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from chatbots.bots.base import REPLY_MAX_CHARS, BotError
from chatbots.conversation import Conversation
from chatbots.text import SanitisedStream, error_text, is_blank, sanitise
from chatbots.trace import current_trace

REASON_MAX_CHARS = 400
"""Maximum length of an exception's message."""


class ReplyRequest:
    """Context that waits for its reply or is receiving it.

    A reply that failed in a batch is retried alone. Text already passed on cannot be withdrawn, so the second reply
    must begin with it and only the rest is passed on. The text is sanitised here, before it is shown or stored, so that
    all readers get the same text.
    """

    __slots__ = ("_storable", "_text", "closed", "context", "deadline", "queued_at", "sent", "tries")

    def __init__(self, context: Conversation, deadline: float | None = None) -> None:
        self.context = context
        self.deadline = deadline
        """Deadline by `time.monotonic`; None for none."""
        self.queued_at = time.monotonic()
        self.tries = 1
        self.closed = False
        """True if ended or abandoned."""
        self.sent = ""
        """Text passed on to the caller."""
        self._text = ""
        self._storable = SanitisedStream(REPLY_MAX_CHARS)

    @property
    def is_full(self) -> bool:
        """True if the reply has its maximum length.

        The caller then stops the bot and calls `finish`.
        """
        return self._storable.is_full

    def take(self, text: object) -> str:
        """Add a piece and return the new text for the caller.

        Raises:
            BotError: the piece is not a string, or a retry differs from the first attempt.
        """
        if not isinstance(text, str):
            raise BotError(f"returned a piece of type {type(text).__name__}; it must be text")
        return self._add(self._storable.take(text))

    def _add(self, text: str) -> str:
        if len(self._text) == len(self.sent):
            self._text += text
            self.sent += text
            return text
        self._text += text
        n_both = min(len(self._text), len(self.sent))
        if self._text[:n_both] != self.sent[:n_both]:
            raise BotError("failed in mid-reply, and its retry began differently")
        fresh = self._text[len(self.sent) :]
        self.sent += fresh
        return fresh

    def restart(self) -> None:
        """Begin the retry."""
        self.tries += 1
        self._text = ""
        self._storable = SanitisedStream(REPLY_MAX_CHARS)

    def finish(self) -> str:
        """Validate the whole reply and return the remaining text.

        Raises:
            BotError: the reply is blank and has no image, or a retry is shorter than the text already passed on.
        """
        last = self._add(self._storable.end())
        if len(self._text) < len(self.sent):
            raise BotError("failed in mid-reply, and its retry ended earlier")
        if is_blank(self.sent) and current_trace().image is None:
            raise BotError("returned an empty reply")
        return last


@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """Event of a request: more text, its end or its failure.

    A failure is also an end. `cause` is the error itself if it carries flags about the bot or the conversation, see
    `BotError`.
    """

    request: ReplyRequest
    text: str = ""
    done: bool = False
    error: str | None = None
    cause: BotError = field(default_factory=BotError)


def describe_error(exc: BaseException) -> str:
    """Describe an exception in one line; a BotError's own text is enough."""
    text = error_text(exc, REASON_MAX_CHARS)
    if isinstance(exc, BotError) and text:
        return text
    kind = sanitise(type(exc).__name__, REASON_MAX_CHARS)
    return f"failed: {kind}: {text}" if text else f"failed: {kind}"
