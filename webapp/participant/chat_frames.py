"""Frames of a chat, handled alike for sockets and HTTP requests.

`ChatPage` reads and writes rows in a database thread. Its callers send a result's frames to their page and publish them
to other pages with `publish_result`.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatbots.bots.person import PERSON
from webapp.conversations import events, frames, selectors, services
from webapp.conversations.images import image_fields
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.picked_replies import last_pick
from webapp.core.database import DATABASE_AWAY
from webapp.core.errors import Refused
from webapp.core.language import locale_of
from webapp.participant.access import is_here, known_of
from webapp.ratings.reply_picks import reply_pick
from webapp.ratings.turn_annotation import annotation_request, marks_given, reply_mark
from webapp.studies.conditions import condition_texts
from webapp.studies.languages import version_speak

logger = logging.getLogger(__name__)

MOVED = "moved"
NOT_FOUND = "not_found"
_MOVED_WORDS = gettext_lazy("You continued on another device. Everything you saved is there.")


class FloodGate:
    """Token bucket per connection; stored messages return their token.

    Waiting for replies already limits people; this stops programs that flood the socket.
    """

    def __init__(self, *, capacity: float = 30, per_s: float = 3) -> None:
        self.capacity, self.per_s = capacity, per_s
        self._tokens, self._at = capacity, time.monotonic()

    def take(self) -> float:
        """Take one token; return 0.0, or the seconds until one is available."""
        now = time.monotonic()
        self._tokens = min(self.capacity, self._tokens + (now - self._at) * self.per_s)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self.per_s
        self._tokens -= 1
        return 0.0

    def give_back(self) -> None:
        """Return the token of a useful frame."""
        self._tokens = min(self.capacity, self._tokens + 1)


@dataclass(slots=True)
class FrameResult:
    """Frames that report stored data, and actions that follow.

    Attributes:
        frames: frames for the requesting page, in order.
        published: frames for other open pages, each with its conversation.
        reply_in: chat whose reply a bot host can generate now; None: none.
        bot_id: bot of that reply.
        awaited: turn of the reply that the page waits for; None: none.
        is_repeated: True if the message was stored before.
        failure: state of the awaited reply that the frames report.
    """

    frames: list[dict[str, Any]] = field(default_factory=list)
    published: list[tuple[UUID, dict[str, Any]]] = field(default_factory=list)
    reply_in: UUID | None = None
    bot_id: str = ""
    awaited: int | None = None
    is_repeated: bool = False
    failure: selectors.Failure | None = None


class ChatPage:
    """One open page of a participant's chat.

    Attributes:
        conversation: the chat, as read when the page was opened.
        n_moves: the participant's number of moves at that time.
        locale: language of the page.
        has_person: True if the chat partner is a person.
        partner: state of that person in the latest history; empty without one.
    """

    def __init__(self, conversation: Conversation, n_moves: int, gate: FloodGate) -> None:
        assert conversation.version is not None, f"chat {conversation.pk} without a version"
        self.conversation, self.n_moves, self.gate = conversation, n_moves, gate
        self.conversation_id = conversation.pk
        self.values = conversation.version.values
        self.locale = locale_of(self.values.texts.language)
        self.has_person = conversation.bot.kind == PERSON
        self.partner = ""

    @cached_property
    def _is_marked(self) -> bool:
        return annotation_request(self.conversation) is not None

    def read(self, text: str | None) -> frames.ClientFrame:
        """Parse a client's frame.

        Raises:
            Refused: `too_fast` or `bad_frame`.
        """
        if wait_s := self.gate.take():
            seconds = max(1, round(wait_s))
            raise Refused(
                "too_fast",
                _("One moment. You can send again in %(s)s seconds.") % {"s": seconds},
                retry_after_s=seconds,
                **frame_names(text),
            )
        if text is None:
            raise Refused("bad_frame", "Frames are JSON text, not bytes.")
        return frames.frame_parse(text)

    def store(self, frame: frames.ClientFrame) -> FrameResult:
        """Store the content of a client's frame.

        Raises:
            Refused: `moved` if the participant continued on another device; and as in the services.
        """
        if selectors.moves_of(self.conversation_id) not in (self.n_moves, None):
            raise moved_refusal()
        if isinstance(frame, frames.MessageFrame):
            return self._message(frame)
        if isinstance(frame, frames.VoteFrame):
            services.vote_set(conversation_id=self.conversation_id, turn_index=frame.turn, value=frame.value)
            return self._for_all(frames.vote_frame(turn=frame.turn, value=frame.value))
        if isinstance(frame, frames.MarksFrame):
            reply_mark(conversation_id=self.conversation_id, turn_index=frame.turn, marks=frame.marks)
            return self._for_all(frames.marks_frame(turn=frame.turn, marks=frame.marks))
        if isinstance(frame, frames.PickFrame):
            return self._pick(frame)
        bot_id = services.reply_retry(conversation_id=self.conversation_id)
        result = self.history()  # this also updates pages that retry without need
        if bot_id is not None:
            result.reply_in, result.bot_id = self.conversation_id, bot_id
        return result

    def _for_all(self, frame: dict[str, Any]) -> FrameResult:
        return FrameResult([frame], [(self.conversation_id, frame)])

    def _add_for_all(self, result: FrameResult, frame: dict[str, Any]) -> None:
        result.frames.append(frame)
        result.published.append((self.conversation_id, frame))

    def _helpline_frames(self) -> list[dict[str, Any]]:
        """Return the frame that shows the helpline text if a message of this chat is marked."""
        is_shown = selectors.shows_helpline(Q(pk=self.conversation_id), self.values)
        return [frames.helpline_frame()] if is_shown else []

    def _message(self, frame: frames.MessageFrame) -> FrameResult:
        human = services.turn_add_human(
            conversation_id=self.conversation_id,
            client_id=frame.client_id,
            text=frame.text,
            typed=frame.typing,
            image=frame.image,
        )
        turn = human.turn
        image = image_fields(getattr(turn, "image", None), turn.text) if frame.image is not None else {}
        stored = frames.turn_frame(turn=turn.index, text=turn.text, client_id=frame.client_id, **image)
        if not human.created:
            return FrameResult([stored], awaited=turn.index + 1, is_repeated=True)
        self.gate.give_back()
        result = self._for_all(stored)
        if human.is_marked:
            self._add_for_all(result, frames.helpline_frame())
        if human.is_end:
            self._add_for_all(result, _ended_frame())
            return result
        if human.is_last:
            history = self.history()
            result.frames += history.frames
            result.awaited, result.failure = history.awaited, history.failure
        else:
            result.awaited = turn.index + 1
        result.reply_in, result.bot_id = human.reply_in, human.bot_id
        return result

    def _pick(self, frame: frames.PickFrame) -> FrameResult:
        """Store a pick, for the pages of both chats."""
        picked = reply_pick(conversation_id=self.conversation_id, turn_index=frame.turn, is_equal=frame.equal)
        result = FrameResult()
        if (copied := picked.copied) is not None:
            html = selectors.reply_html(copied.conversation, copied.text)
            reply = frames.reply_frame(turn=copied.index, text=copied.text, can_rate=False, html=html)
            result.published.append((copied.conversation_id, reply))
        for chat_id, goes_on in picked.goes_on.items():
            news = frames.pick_frame(turn=picked.turn, goes_on=goes_on)
            result.published.append((chat_id, news))
            if chat_id == self.conversation_id:
                result.frames.append(news)
        return result

    def history(self) -> FrameResult:
        """Return the whole state of the chat for a newly connected page."""
        look = services.partner_look(conversation_id=self.conversation_id) if self.has_person else None
        self.partner = look.state if look is not None else ""
        history = selectors.history(self.conversation_id)
        frame: dict[str, Any] = {
            "type": "history",
            "turns": history.turns,
            "can_rate": history.can_rate,
            "pending": history.pending,
        }
        if self._is_marked:
            frame["marks"] = marks_given(self.conversation_id)
        if self.values.conditions.factors:
            frame["condition"] = condition_texts(self.values, self.conversation.condition).for_participants()
        if history.time is not None:
            frame["time"] = history.time.for_page()
        result = FrameResult([frame, *_partner_frames(look), *self._helpline_frames()])
        if history.pending is not None:
            result.failure = history.failure
            if history.failure is not None:
                result.frames.append(frames.bot_failed_frame(history.failure))
            if history.failure is None or not history.failure.error:
                result.awaited = history.pending["turn"]
        return result

    def news(self, after: int) -> FrameResult:
        """Return frames of everything stored after turn `after`.

        They include the states of partner, pick and due reply. They report what a socket reports, without pieces of
        replies. A repeated call returns the same.
        """
        look = services.partner_look(conversation_id=self.conversation_id) if self.has_person else None
        can_rate, client_ids = False, dict[int, UUID | None]()
        turns = selectors.turns_of(self.conversation, after=after)
        if turns:
            can_rate = selectors.can_rate(self.conversation)
            own_turns = Turn.objects.filter(conversation=self.conversation_id, index__gt=after, client_id__isnull=False)
            client_ids = dict(own_turns.values_list("index", "client_id"))
        result = FrameResult()
        for turn in turns:
            if turn["speaker"] == "bot":
                result.frames.append({"type": "reply", **turn, "can_rate": can_rate})
            else:
                result.frames.append({"type": "turn", **turn, "client_id": str(client_ids.get(turn["turn"], ""))})
        result.frames += [*_partner_frames(look), *self._helpline_frames()]
        if pick := last_pick(self.conversation):
            result.frames.append(frames.pick_frame(turn=pick[0], goes_on=pick[1]))
        if (failure := selectors.failure_of(self.conversation)) is not None:
            result.frames.append(frames.bot_failed_frame(failure))
        if self.conversation.state == Conversation.State.WITHDRAWN:
            result.frames.append(_ended_frame())
        return result


def _ended_frame() -> dict[str, Any]:
    return frames.error_frame(code="closed", message=_("This chat has ended."), ended=True)


def open_chat_page(session: Any, token: str, conversation_id: UUID, gate: FloodGate) -> ChatPage:
    """Return the chat page of the participant in the session or token.

    Raises:
        Refused: `not_found` if the chat is not theirs, `moved` if they continued on another device.
    """
    known = known_of(session, token)
    conversation = selectors.conversation_for(known, conversation_id)
    if conversation is None or conversation.participant is None or conversation.version is None:
        raise Refused(NOT_FOUND, _("We cannot open this chat here. Open your link in the browser you started with."))
    version_speak(conversation.version, conversation.participant.language)
    page = ChatPage(conversation, conversation.participant.n_moves, gate)
    if not is_here(known, conversation.participant):
        with translation.override(page.locale):
            raise moved_refusal()
    return page


def moved_refusal() -> Refused:
    """Return the refusal for a device that the participant has left."""
    return Refused(MOVED, str(_MOVED_WORDS))


async def publish_result(result: FrameResult, *, sender: str = "") -> None:
    """Publish a result to other open pages, and request a due reply from a bot host.

    Args:
        sender: channel of the page that already has the frames.
    """
    for conversation_id, frame in result.published:
        await events.frame_publish(conversation_id, frame, sender=sender)
    if result.reply_in is not None:
        await events.reply_request(conversation_id=result.reply_in, bot_id=result.bot_id)


def reply_frames(turn: int, state: selectors.DueReply, reported: selectors.Failure | None) -> list[dict[str, Any]]:
    """Return the frame of a stored or failed reply.

    A failure that was already reported has none.
    """
    if state.text is not None:
        frame = frames.reply_frame(
            turn=turn, text=state.text, can_rate=state.can_rate, html=state.html, trace=state.trace
        )
        return [{**frame, **image_fields(state.image, state.text, state.html)}]
    if state.failure is not None and state.failure != reported:
        return [frames.bot_failed_frame(state.failure)]
    return []


def _partner_frames(look: services.PartnerLook | None) -> list[dict[str, Any]]:
    if look is None or look.failure is not None:
        return []
    return [frames.waiting_frame(state=look.state, seconds_left=look.seconds_left, writes_first=not look.writes_second)]


def frame_of_error(error: Exception, conversation_id: UUID, text: str | None = None) -> dict[str, Any]:
    """Return the error frame of a failed client frame.

    Failures are logged, refusals are not.
    """
    if isinstance(error, Refused):
        names = frame_names(text) if error.code == MOVED else {}
        return frames.error_frame(code=error.code, message=error.message, **{**names, **error.details})
    if isinstance(error, DATABASE_AWAY):
        # The frame may already be stored; a repeated one is stored only once.
        logger.warning("the database is unavailable for %s: %s", conversation_id, error)
        message = _("The server cannot save anything at the moment. Try again soon.")
        return frames.error_frame(code="unavailable", message=message, **frame_names(text))
    logger.error("a frame of %s failed", conversation_id, exc_info=error)
    message = _("Something went wrong on this page. Please reload the page. Your chat is saved.")
    return frames.error_frame(code="bad_frame", message=message, **frame_names(text))


def frame_names(text: str | None) -> dict[str, Any]:
    """Return the `client_id` or `turn` of a refused frame.

    Its page matches the error by it.
    """
    try:
        frame = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(frame, dict):
        return {}
    client_id, turn = frame.get("client_id"), frame.get("turn")
    if isinstance(client_id, str):
        return {"client_id": client_id}
    return {"turn": turn} if isinstance(turn, int) else {}
