"""Frames of the chat socket, from clients and from the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, Strict

from chatbots.validation import InputModel, ValuesError, values_read
from webapp.conversations.models import NO_PARTNER, ChatImage
from webapp.core.errors import Refused

if TYPE_CHECKING:
    from webapp.conversations.selectors import Failure

# Maximum length of a JSON frame; longer ones are refused without parsing.
FRAME_MAX_CHARS = 200_000


class Frame(InputModel):
    """Base of clients' frames; unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore")


_Counted = Annotated[int, Field(ge=0, le=10_000_000)]


class KeystrokeCounts(Frame):
    """Typing counts of a message, never the keys themselves.

    `ms` is the time from the first key or paste to sending; `focus_losses` is how often the page was left since the
    last message, None from pages that do not count it.
    """

    keystrokes: _Counted
    pastes: _Counted
    deletions: _Counted
    ms: Annotated[int, Field(ge=0, le=1_000_000_000)]
    focus_losses: _Counted | None = None


class MessageImage(Frame):
    """Image of a message: id of its upload, and description."""

    id: Annotated[UUID, Strict(False)]
    description: str = Field(default="", max_length=ChatImage.MOST_DESCRIPTION_CHARS)


class MessageFrame(Frame):
    """A participant's message; `client_id` makes sending it twice harmless.

    `typing` comes from pages of studies that count typing; in other studies it is not stored. With an image the text
    may be empty.
    """

    type: Literal["message"] = "message"
    client_id: Annotated[UUID, Strict(False)]
    text: str
    typing: KeystrokeCounts | None = None
    image: MessageImage | None = None


class VoteFrame(Frame):
    """A vote on the bot turn numbered `turn`."""

    type: Literal["vote"] = "vote"
    turn: int = Field(ge=0, lt=1_000_000)
    value: int = Field(ge=-1, le=1)


class MarksFrame(Frame):
    """Labels of the bot turn numbered `turn`.

    An empty list removes all labels.
    """

    type: Literal["marks"] = "marks"
    turn: int = Field(ge=0, lt=1_000_000)
    marks: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=200)]


class PickFrame(Frame):
    """Pick of this chat's reply numbered `turn`, or a tie."""

    type: Literal["pick"] = "pick"
    turn: int = Field(ge=0, lt=1_000_000)
    equal: bool = False


class RetryFrame(Frame):
    """After `bot_failed`: request the same reply again."""

    type: Literal["retry"] = "retry"


ClientFrame = MessageFrame | VoteFrame | MarksFrame | PickFrame | RetryFrame
_ANY: Any = Annotated[ClientFrame, Field(discriminator="type")]


def frame_parse(text: str) -> ClientFrame:
    """Parse one text frame of a client.

    Raises:
        Refused: `bad_frame`, with every wrong value and the expected one.
    """
    if len(text) > FRAME_MAX_CHARS:
        raise _bad(f"the frame has {len(text)} characters; at most {FRAME_MAX_CHARS} are read")
    try:
        # Not pydantic's JSON parser: it rejects half an emoji (a lone surrogate), which browsers do send.
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("the frame is not JSON") from None
    if not isinstance(data, dict):
        raise _bad("the frame is not a JSON object")
    try:
        return values_read(_ANY, data)
    except ValuesError as error:
        raise _bad(str(error), data.get("client_id")) from None


def _bad(message: str, client_id: Any = None) -> Refused:
    details = {"client_id": client_id} if isinstance(client_id, str) else {}
    return Refused("bad_frame", f"Invalid frame: {message}.", **details)


def turn_frame(*, turn: int, text: str, client_id: UUID | str, **image: Any) -> dict[str, Any]:
    """Confirm a stored message.

    `image` has the fields `image` and `html`, if any.
    """
    return {"type": "turn", "turn": turn, "speaker": "human", "text": text, "client_id": str(client_id), **image}


def token_frame(*, turn: int, offset: int, text: str) -> dict[str, Any]:
    """Return the frame of one piece of a reply.

    `offset` counts the characters before it; 0 restarts the reply.
    """
    return {"type": "token", "turn": turn, "offset": offset, "text": text}


def html_frame(*, turn: int, offset: int, html: str) -> dict[str, Any]:
    """Return the frame of completed Markdown blocks as HTML.

    `offset` is as in `token_frame`.
    """
    return {"type": "html", "turn": turn, "offset": offset, "html": html}


def trace_frame(*, turn: int, number: int, step: dict[str, Any]) -> dict[str, Any]:
    """Return the frame of one step before a reply.

    It is reasoning or a tool call. A later frame with the same number replaces it.
    """
    return {"type": "trace", "turn": turn, "number": number, "step": step}


def reply_frame(
    *, turn: int, text: str, can_rate: bool, html: str = "", trace: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Confirm a stored reply.

    It has `html` and `trace` if the study shows them.
    """
    frame = {"type": "reply", "turn": turn, "speaker": "bot", "text": text, "can_rate": can_rate}
    return {**frame, **({"html": html} if html else {}), **({"trace": list(trace)} if trace else {})}


def vote_frame(*, turn: int, value: int) -> dict[str, Any]:
    """Confirm a stored vote."""
    return {"type": "vote", "turn": turn, "value": value}


def marks_frame(*, turn: int, marks: list[str]) -> dict[str, Any]:
    """Confirm stored labels."""
    return {"type": "marks", "turn": turn, "marks": marks}


def waiting_frame(*, state: str, seconds_left: int, writes_first: bool) -> dict[str, Any]:
    """Report the human partner's state and the maximum wait for one.

    It follows every history of such a chat.
    """
    known = {"seconds_left": seconds_left} if state == "waiting" else {"writes_first": writes_first}
    return {"type": "waiting", "state": state, **known}


def helpline_frame() -> dict[str, Any]:
    """Ask the page to show the study's helpline text, which it has."""
    return {"type": "helpline"}


def pick_frame(*, turn: int, goes_on: bool) -> dict[str, Any]:
    """Confirm a pick, and whether the chats continue with this reply."""
    return {"type": "pick", "turn": turn, "goes_on": goes_on}


def error_frame(*, code: str, message: str, **details: Any) -> dict[str, Any]:
    """Report a refusal or failure; `details` help the page to react."""
    return {"type": "error", "code": code, "message": message, **details}


BUSY = "busy: "
"""Beginning of the stored reason of a reply that failed because too many participants waited for the bot."""


def bot_failed_frame(failure: Failure) -> dict[str, Any]:
    """Report a failed or overdue reply; the participant chooses how to continue.

    The page learns whether a retry may help, whether the reply may still come, and whether a filter refused the message
    (`reason`: "content").
    """
    if failure.is_content:
        return error_frame(
            code="bot_failed",
            message="The chatbot's provider did not accept this message. Write something else, or end the chat.",
            reason="content",
            turn=failure.turn,
            can=failure.can,
            can_rate=failure.can_rate,
        )
    busy, overdue = failure.error.startswith(BUSY), not failure.error
    is_partner = failure.error.startswith(NO_PARTNER)
    problem = "Your chat partner is not here." if is_partner else "The chatbot did not answer."
    if busy:
        problem = "Too many people are waiting for this chatbot. Try again in a minute."
    elif overdue:
        problem = "The chatbot has not answered for a long time."
    return error_frame(
        code="bot_failed",
        message=f"{problem} This is our fault, not yours. Your messages are saved.",
        turn=failure.turn,
        can=failure.can,
        can_rate=failure.can_rate,
        busy=busy,
        overdue=overdue,
        **({"partner": True} if is_partner else {}),
    )
