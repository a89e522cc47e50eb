"""WebSocket of a chat: checks a frame, calls one service, publishes. It never waits for a bot."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from structlog.contextvars import bind_contextvars

from chatbots.bots.person import PERSON
from chatbots.text import sanitise
from webapp.conversations import events, frames, selectors, services
from webapp.conversations.images import image_fields
from webapp.core.database import DATABASE_AWAY, DirectDispatch, in_database
from webapp.core.errors import Refused
from webapp.core.language import locale_of
from webapp.core.logs import request_id_new
from webapp.participant.access import is_here, known_of
from webapp.ratings.reply_picks import reply_pick
from webapp.ratings.turn_annotation import annotation_request, marks_given, reply_mark
from webapp.studies.conditions import condition_texts
from webapp.studies.languages import version_speak

logger = logging.getLogger(__name__)
lines = logging.getLogger("webapp.core.middleware")

# A reply not seen for this long is looked up in the database, and asked for again if it is free.
LOOK_UP_AFTER_S = 2.5
# A page without a partner looks so often for one; with a partner, whether that one is still here.
LOOK_FOR_PARTNER_S = 1.0
SEE_PARTNER_S = 4.0
MOVED = "moved"
_MOVED_WORDS = gettext_lazy("You continued on another device. Everything that was saved is there.")


class FloodGate:
    """A bucket of tokens per connection. A stored message gives its token back.

    People are held back by the wait for the reply alone; this stops programs that send for nothing.
    """

    def __init__(self, *, capacity: float = 30, per_s: float = 3) -> None:
        self.capacity, self.per_s = capacity, per_s
        self._tokens, self._at = capacity, time.monotonic()

    def take(self) -> float:
        """Take one token; 0.0 if there was one, else the seconds until there is."""
        now = time.monotonic()
        self._tokens = min(self.capacity, self._tokens + (now - self._at) * self.per_s)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self.per_s
        self._tokens -= 1
        return 0.0

    def give_back(self) -> None:
        """Return the token of a frame that was useful."""
        self._tokens = min(self.capacity, self._tokens + 1)


class ChatConsumer(DirectDispatch, AsyncWebsocketConsumer):
    """One open page of one conversation."""

    channel_layer_alias = events.FRAMES
    conversation_id: UUID
    _n_moves = 0  # the participant's number of moves when this page was loaded

    async def connect(self) -> None:
        self._began = time.monotonic()
        self._watch: asyncio.Task[None] | None = None
        self._partner_watch: asyncio.Task[None] | None = None
        self._gate = FloodGate()
        self._heard_at: dict[int, float] = {}  # turn -> when a piece of its reply last passed
        self._due_turn: int | None = None
        self._is_gone = False
        self._is_marked = self._is_joined = False
        self._has_person, self._partner = False, ""  # as the page was told of the partner
        self._condition: dict[str, str] | None = None  # texts, in a study with conditions
        await self.accept()
        self.conversation_id = self.scope["url_route"]["kwargs"]["conversation_id"]
        # What this connection logs from now on carries both: it has a task, and so a context, of its own.
        bind_contextvars(request_id=request_id_new(), conversation_id=str(self.conversation_id))
        try:
            await self._welcome()
        except DATABASE_AWAY as error:
            await self._unavailable(error)
            await self._close(1013)  # try again later

    async def _welcome(self) -> None:
        conversation, is_theirs = await in_database(self._asked_for)()
        if conversation is None:
            await self._send(
                frames.error_frame(
                    code="not_found",
                    message=_(
                        "We cannot open this chat here. Open the link you were given, in the browser you started with."
                    ),
                )
            )
            await self._close(4404)
            return
        translation.activate(locale_of(conversation.version.values.texts.language))
        self._n_moves = conversation.participant.n_moves
        if not is_theirs:
            await self._leave()
            return
        # Pages on devices that the participant has left close.
        if self._n_moves:
            await events.move_publish(self.conversation_id, self._n_moves)
        self._is_marked = annotation_request(conversation) is not None
        values = conversation.version.values
        if values.conditions.factors:
            self._condition = condition_texts(values, conversation.condition).for_participants()
        # Join the group before reading the history: an event between the two then arrives twice, and is never lost.
        await self._join()
        self._has_person = conversation.bot.kind == PERSON
        await self._send_history()
        if self._has_person:
            self._partner_watch = asyncio.get_running_loop().create_task(self._follow_partner())

    async def _follow_partner(self) -> None:
        """Note again and again that this page is open, and tell it when a partner comes, finishes or leaves."""
        while not self._is_gone:
            is_alone = self._partner == "waiting"
            await asyncio.sleep(LOOK_FOR_PARTNER_S if is_alone else SEE_PARTNER_S)
            try:
                look = await in_database(services.partner_look)(conversation_id=self.conversation_id)
                if look is None:
                    return
                if look.state != self._partner:
                    await self._send_history()
            except DATABASE_AWAY as error:
                logger.warning("no look for the partner of %s: %s", self.conversation_id, error)

    async def _join(self) -> None:
        """Hear the frames of the conversation; where the layer was away before, from the next message on.

        Until then the page looks its replies up.
        """
        if not self._is_joined:
            self._is_joined = await events.page_join(self.conversation_id, self.channel_name)

    def _asked_for(self) -> tuple[Any, bool]:
        """Return the conversation, if this page may know of it, and whether its person is still on this device."""
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        known = known_of(self.scope["session"], query.get("t", [""])[0])
        conversation = selectors.conversation_for(known, self.conversation_id)
        if conversation is None or conversation.participant is None:
            return None, False
        if conversation.version is not None:
            version_speak(conversation.version, conversation.participant.language)
        return conversation, is_here(known, conversation.participant)

    def _in_place(self, service: Callable[..., Any], **asked: Any) -> Any:
        """Call a service for the participant, unless they continued on another device.

        Raises:
            Refused: `moved`; and as the service.
        """
        if selectors.moves_of(self.conversation_id) not in (self._n_moves, None):
            raise Refused(MOVED, str(_MOVED_WORDS))
        return service(conversation_id=self.conversation_id, **asked)

    async def _leave(self, **details: Any) -> None:
        """Close the socket: the participant continued on another device."""
        await self._send(frames.error_frame(code=MOVED, message=str(_MOVED_WORDS), **details))
        await self._close(4409)

    async def moved(self, event: dict[str, Any]) -> None:
        """Close the page of a device that the participant has left."""
        if event["n_moves"] > self._n_moves:
            await self._leave()

    async def disconnect(self, code: int) -> None:
        for watch in (self._watch, self._partner_watch):
            if watch is not None:
                watch.cancel()
        lines.info(
            "socket closed",
            extra={
                "route": "chat socket",
                "status": code,
                "duration_ms": round((time.monotonic() - self._began) * 1000),
            },
        )
        if self._is_joined:
            await events.page_leave(self.conversation_id, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            wait_s = self._gate.take()
            if wait_s:
                seconds = max(1, round(wait_s))
                raise Refused(
                    "too_fast",
                    _("One moment. You can send again in %(s)s seconds.") % {"s": seconds},
                    retry_after_s=seconds,
                    **_names(text_data),
                )
            if text_data is None:
                raise Refused("bad_frame", "Frames are JSON text, not bytes.")
            frame = frames.frame_parse(text_data)
            if isinstance(frame, frames.MessageFrame):
                await self._message(frame)
            elif isinstance(frame, frames.VoteFrame):
                await self._vote(frame)
            elif isinstance(frame, frames.MarksFrame):
                await self._mark(frame)
            elif isinstance(frame, frames.PickFrame):
                await self._pick(frame)
            else:
                await self._retry()
        except Refused as refused:
            if refused.code == MOVED:
                await self._leave(**_names(text_data))
                return
            await self._send(frames.error_frame(code=refused.code, message=refused.message, **refused.details))
        except DATABASE_AWAY as error:
            await self._unavailable(error, **_names(text_data))
        except Exception:
            logger.exception("a frame of %s failed", self.conversation_id)
            await self._send(
                frames.error_frame(
                    code="bad_frame",
                    message=_("Something went wrong on this page. Reload it; your chat is saved."),
                    **_names(text_data),
                )
            )

    async def _unavailable(self, error: Exception, **details: Any) -> None:
        """Say that the server cannot save at the moment.

        What was asked for may or may not be stored; sent again it is stored once.
        """
        logger.warning("the database is away for %s: %s", self.conversation_id, error)
        await self._send(
            frames.error_frame(
                code="unavailable",
                message=_("The server cannot save anything at the moment. Try again soon."),
                **details,
            )
        )

    async def _message(self, frame: frames.MessageFrame) -> None:
        human = await in_database(self._in_place)(
            services.turn_add_human, client_id=frame.client_id, text=frame.text, typed=frame.typing, image=frame.image
        )
        turn = human.turn
        fields = {}
        if frame.image is not None:
            fields = await in_database(lambda: image_fields(getattr(turn, "image", None), turn.text))()
        stored = frames.turn_frame(turn=turn.index, text=turn.text, client_id=frame.client_id, **fields)
        if not human.created:
            # Sent again: send this page the stored messages, and the reply if it has arrived.
            await self._send(stored)
            self._watch_for(turn.index + 1, at_once=True)
            return
        self._gate.give_back()
        await self._tell(stored)
        await self._join()
        if human.reply_in is not None:
            await events.reply_request(conversation_id=human.reply_in, bot_id=human.bot_id)
        if human.is_last:
            await self._send_history()
        else:
            self._watch_for(turn.index + 1)

    async def _vote(self, frame: frames.VoteFrame) -> None:
        await in_database(self._in_place)(services.vote_set, turn_index=frame.turn, value=frame.value)
        await self._tell(frames.vote_frame(turn=frame.turn, value=frame.value))

    async def _mark(self, frame: frames.MarksFrame) -> None:
        await in_database(self._in_place)(reply_mark, turn_index=frame.turn, marks=frame.marks)
        await self._tell(frames.marks_frame(turn=frame.turn, marks=frame.marks))

    async def _pick(self, frame: frames.PickFrame) -> None:
        """Store a pick, and tell the pages of both chats."""
        picked = await in_database(self._in_place)(reply_pick, turn_index=frame.turn, is_equal=frame.equal)
        if picked.copied is not None:
            copied = picked.copied
            html = await in_database(selectors.reply_html)(copied.conversation, copied.text)
            reply = frames.reply_frame(turn=copied.index, text=copied.text, can_rate=False, html=html)
            await events.frame_publish(copied.conversation_id, reply)
        for chat_id, goes_on in picked.goes_on.items():
            told = frames.pick_frame(turn=picked.turn, goes_on=goes_on)
            if chat_id == self.conversation_id:
                await self._tell(told)
            else:
                await events.frame_publish(chat_id, told)

    async def _tell(self, frame: dict[str, Any]) -> None:
        """Tell that something is stored: this page for certain, other pages if the channel layer keeps the message."""
        await self._send(frame)
        await events.frame_publish(self.conversation_id, frame, sender=self.channel_name)

    async def _retry(self) -> None:
        bot_id = await in_database(self._in_place)(services.reply_retry)
        if bot_id is not None:
            await events.reply_request(conversation_id=self.conversation_id, bot_id=bot_id)
        # This also updates pages that retry without need.
        await self._send_history()

    async def _send_history(self) -> None:
        look: services.PartnerLook | None = None
        if self._has_person:
            look = await in_database(services.partner_look)(conversation_id=self.conversation_id)
            self._partner = look.state if look is not None else ""
        history = await in_database(selectors.history)(self.conversation_id)
        await self._send(
            {
                "type": "history",
                "turns": history.turns,
                "can_rate": history.can_rate,
                "pending": history.pending,
                **({"marks": await in_database(self._marks)()} if self._is_marked else {}),
                **({"condition": self._condition} if self._condition is not None else {}),
                **({"time": history.time.for_page()} if history.time is not None else {}),
            }
        )
        if look is not None and look.failure is None:
            await self._send(
                frames.waiting_frame(
                    state=look.state, seconds_left=look.seconds_left, writes_first=not look.writes_second
                )
            )
        if history.pending is None:
            return
        if history.failure is not None:
            await self._send(frames.bot_failed_frame(history.failure))
        if history.failure is None or not history.failure.error:
            self._watch_for(history.pending["turn"], told=history.failure)

    def _marks(self) -> dict[int, list[str]]:
        return marks_given(self.conversation_id)

    async def frame_publish(self, event: dict[str, Any]) -> None:
        """Pass on a frame for every page of this conversation."""
        if event.get("sender") == self.channel_name:
            return
        frame = event["frame"]
        kind, turn = frame["type"], frame.get("turn")
        if kind == "token":
            self._heard_at[turn] = time.monotonic()
        elif kind == "turn":
            self._watch_for(turn + 1)
        elif kind == "vote":
            frame = await self._vote_now(frame)
        elif turn == self._due_turn and (kind == "reply" or frame.get("code") == "bot_failed"):
            self._watch_stop()
        await self._send(frame)

    async def _vote_now(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the vote as it is stored now: of two tabs that vote at once, either may hear of itself last."""
        try:
            value = await in_database(selectors.vote_of)(self.conversation_id, frame["turn"])
        except DATABASE_AWAY:
            return frame
        return frame if value is None else frames.vote_frame(turn=frame["turn"], value=value)

    def _watch_for(self, turn: int, *, at_once: bool = False, told: selectors.Failure | None = None) -> None:
        if self._due_turn == turn and not at_once:
            return
        self._watch_stop()
        self._due_turn = turn
        self._watch = asyncio.get_running_loop().create_task(self._look_up(turn, at_once, told))

    def _watch_stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._due_turn = None

    async def _look_up(self, turn: int, at_once: bool, told: selectors.Failure | None) -> None:
        """Look for a reply whose frames may have been lost, until it is seen or has failed."""
        if not at_once:
            await asyncio.sleep(LOOK_UP_AFTER_S)
        while True:
            is_silent = time.monotonic() - self._heard_at.get(turn, 0) >= LOOK_UP_AFTER_S
            if at_once or is_silent:
                at_once = False
                try:
                    state = await in_database(selectors.reply_state)(self.conversation_id, turn)
                except DATABASE_AWAY as error:
                    logger.warning("no look at the reply of %s: %s", self.conversation_id, error)
                else:
                    if await self._show(turn, state, told):
                        return
                    told = state.failure
            await asyncio.sleep(LOOK_UP_AFTER_S)

    async def _show(self, turn: int, state: selectors.DueReply, told: selectors.Failure | None) -> bool:
        """Tell the page how a reply stands, if that is news; whether nothing more will happen to it."""
        if state.text is not None:
            self._due_turn = None
            frame = frames.reply_frame(
                turn=turn, text=state.text, can_rate=state.can_rate, html=state.html, trace=state.trace
            )
            await self._send({**frame, **image_fields(state.image, state.text, state.html)})
            return True
        if state.failure is not None and state.failure != told:
            await self._send(frames.bot_failed_frame(state.failure))
        if state.failure is not None and state.failure.error:
            self._due_turn = None
            return True
        if state.is_free:
            await events.reply_request(conversation_id=self.conversation_id, bot_id=state.bot_id)
        return not state.is_due

    async def _send(self, frame: dict[str, Any]) -> None:
        """Send a frame, unless the page is gone: it reads stored messages when it reconnects."""
        if self._is_gone:
            return
        text = sanitise(json.dumps(frame, ensure_ascii=False))
        try:
            await self.send(text_data=text)
        except (OSError, RuntimeError) as error:
            # The server's own words for a closed socket: the first error is an OSError, later ones are not.
            self._is_gone = True
            logger.debug("the page of %s has gone: %s", self.conversation_id, error)

    async def _close(self, code: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # closed already, by the page
            await self.close(code=code)


def _names(text: str | None) -> dict[str, Any]:
    """Return the `client_id` or `turn` of a refused frame, so that its page can match the error to it."""
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


websocket_urlpatterns = [
    path("ws/chat/<uuid:conversation_id>/", ChatConsumer.as_asgi()),
    # Whatever else is asked for is refused in order, without an error in the log.
    re_path(r"", WebsocketDenier.as_asgi()),
]
