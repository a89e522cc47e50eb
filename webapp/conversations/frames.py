"""The frames of the chat socket: what clients may send, and what the server answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from webapp.core.errors import Refused

if TYPE_CHECKING:
    from webapp.conversations.selectors import Failure

# The longest JSON text looked at; longer ones are refused before they are parsed.
FRAME_MAX_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """A participant's message; `client_id` makes sending it again harmless."""

    client_id: UUID
    text: str


@dataclass(frozen=True, slots=True)
class VoteFrame:
    """A vote on the bot turn numbered `turn`."""

    turn: int
    value: Literal[-1, 0, 1]


@dataclass(frozen=True, slots=True)
class RetryFrame:
    """After `bot_failed`: ask for the same reply again."""


ClientFrame = MessageFrame | VoteFrame | RetryFrame


def frame_parse(text: str) -> ClientFrame:
    """Read one text frame of a client.

    Raises:
        Refused: code `bad_frame`, with the value that is wrong and what would be right.
    """
    if len(text) > FRAME_MAX_CHARS:
        raise _bad(f"the frame has {len(text)} characters; at most {FRAME_MAX_CHARS} are read")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("the frame is not JSON") from None
    if not isinstance(data, dict):
        raise _bad("the frame is not a JSON object")
    kind = data.get("type")
    if kind == "message":
        return _message(data)
    if kind == "vote":
        return _vote(data)
    if kind == "retry":
        return RetryFrame()
    raise _bad(f"type is {_show(kind)}; it must be 'message', 'vote' or 'retry'")


def _message(data: dict[str, Any]) -> MessageFrame:
    body = data.get("text")
    if not isinstance(body, str):
        raise _bad(f"text is {_show(body)}; it must be a string", data)
    client_id = data.get("client_id")
    try:
        if not isinstance(client_id, str):
            raise ValueError
        return MessageFrame(UUID(client_id), body)
    except ValueError:
        raise _bad(f"client_id is {_show(client_id)}; it must be a UUID") from None


def _vote(data: dict[str, Any]) -> VoteFrame:
    turn, value = data.get("turn"), data.get("value")
    if not isinstance(turn, int) or isinstance(turn, bool) or not 0 <= turn < 1_000_000:
        raise _bad(f"turn is {_show(turn)}; it must be the number of a bot turn")
    if isinstance(value, bool) or value not in (-1, 0, 1) or not isinstance(value, int):
        raise _bad(f"value is {_show(value)}; it must be 1, 0 or -1")
    return VoteFrame(turn, value)  # type: ignore[arg-type]


def _bad(message: str, data: dict[str, Any] | None = None) -> Refused:
    client_id = (data or {}).get("client_id")
    details = {"client_id": client_id} if isinstance(client_id, str) else {}
    return Refused("bad_frame", f"This frame was not understood: {message}.", **details)


def _show(value: Any) -> str:
    return repr(value)[:60]


def turn_frame(*, turn: int, text: str, client_id: UUID | str) -> dict[str, Any]:
    """The message is stored."""
    return {
        "type": "turn",
        "turn": turn,
        "speaker": "human",
        "text": text,
        "client_id": str(client_id),
    }


def token_frame(*, turn: int, offset: int, text: str) -> dict[str, Any]:
    """A piece of a reply; `offset` counts the characters before it, 0 starts it anew."""
    return {"type": "token", "turn": turn, "offset": offset, "text": text}


def reply_frame(*, turn: int, text: str, can_rate: bool) -> dict[str, Any]:
    """The whole reply is stored."""
    return {"type": "reply", "turn": turn, "speaker": "bot", "text": text, "can_rate": can_rate}


def vote_frame(*, turn: int, value: int) -> dict[str, Any]:
    """The vote is stored."""
    return {"type": "vote", "turn": turn, "value": value}


def error_frame(*, code: str, message: str, **details: Any) -> dict[str, Any]:
    """Something was refused or failed; `details` carry what helps."""
    return {"type": "error", "code": code, "message": message, **details}


BUSY = "busy: "
"""Begins the stored reason of a reply that failed because too many people waited for the bot."""


def bot_failed_frame(failure: Failure) -> dict[str, Any]:
    """The bot did not answer, or not for long; the participant decides how to go on.

    Of the reason they learn only whether trying again soon may help, and whether the reply may still come.
    """
    busy, overdue = failure.error.startswith(BUSY), not failure.error
    what = "The chatbot did not answer."
    if busy:
        what = "Too many people are waiting for this chatbot. Try again in a minute."
    elif overdue:
        what = "The chatbot has not answered for a long time."
    return error_frame(
        code="bot_failed",
        message=f"{what} This is our fault, not yours. Your messages are saved.",
        turn=failure.turn,
        can=failure.can,
        can_rate=failure.can_rate,
        busy=busy,
        overdue=overdue,
    )
