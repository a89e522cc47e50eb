"""WebSocket of a chat: passes frames to `chat_frames`, sends results.

It publishes results to other pages, and never waits for a bot.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path
from django.utils import translation
from structlog.contextvars import bind_contextvars

from chatbots.text import sanitise
from webapp.conversations import events, frames, selectors, services
from webapp.core.database import DATABASE_AWAY, DirectDispatch, in_database
from webapp.core.errors import Refused
from webapp.core.logs import request_id_new
from webapp.participant.chat_frames import (
    MOVED,
    NOT_FOUND,
    ChatPage,
    FloodGate,
    FrameResult,
    frame_of_error,
    moved_refusal,
    open_chat_page,
    publish_result,
    reply_frames,
)

logger = logging.getLogger(__name__)
_CLOSE_CODES = {NOT_FOUND: 4404, MOVED: 4409}
lines = logging.getLogger("webapp.core.middleware")

# Time after which a reply is looked up in the database, and requested again if it is free.
LOOK_UP_AFTER_S = 2.5
# Interval at which a page looks for a partner or checks that the partner is present.
LOOK_FOR_PARTNER_S = 1.0
SEE_PARTNER_S = 4.0


class ChatConsumer(DirectDispatch, AsyncWebsocketConsumer):
    """One open page of one conversation."""

    channel_layer_alias = events.FRAMES
    conversation_id: UUID
    _page: ChatPage | None = None  # None until the participant is known

    async def connect(self) -> None:
        self._began = time.monotonic()
        self._watch: asyncio.Task[None] | None = None
        self._partner_watch: asyncio.Task[None] | None = None
        self._heard_at: dict[int, float] = {}  # turn -> time of the last piece of its reply
        self._due_turn: int | None = None
        self._is_gone = self._is_joined = False
        await self.accept()
        self.conversation_id = self.scope["url_route"]["kwargs"]["conversation_id"]
        # All later log lines of this connection have both, because its task has its own context.
        bind_contextvars(request_id=request_id_new(), conversation_id=str(self.conversation_id))
        token = parse_qs(self.scope["query_string"].decode("latin-1")).get("t", [""])[0]
        try:
            opened = in_database(open_chat_page)
            page = await opened(self.scope["session"], token, self.conversation_id, FloodGate())
            await self._welcome(page)
        except (Refused, *DATABASE_AWAY) as error:
            await self._refuse(error)
            if not isinstance(error, Refused):
                await self._close(1013)  # retry later

    async def _welcome(self, page: ChatPage) -> None:
        translation.activate(page.locale)
        self._page = page
        # Pages on devices that the participant has left close.
        if page.n_moves:
            await events.move_publish(self.conversation_id, page.n_moves)
        # Join the group before reading the history: an event between the two then arrives twice, and is never lost.
        await self._join()
        await self._send_history(page)
        if page.has_person:
            self._partner_watch = asyncio.get_running_loop().create_task(self._follow_partner(page))

    async def _follow_partner(self, page: ChatPage) -> None:
        """Record that this page is open, and report changes of the partner.

        The partner may join, finish or leave.
        """
        while not self._is_gone:
            is_alone = page.partner == "waiting"
            await asyncio.sleep(LOOK_FOR_PARTNER_S if is_alone else SEE_PARTNER_S)
            try:
                look = await in_database(services.partner_look)(conversation_id=self.conversation_id)
                if look is None:
                    return
                if look.state != page.partner:
                    await self._send_history(page)
            except DATABASE_AWAY as error:
                logger.warning("cannot look up the partner of %s: %s", self.conversation_id, error)

    async def _join(self) -> None:
        """Subscribe to the conversation's frames.

        If the layer is unavailable, this is retried at each message; until then the page looks its replies up.
        """
        if not self._is_joined:
            self._is_joined = await events.page_join(self.conversation_id, self.channel_name)

    async def _refuse(self, error: Exception, text: str | None = None) -> None:
        """Send the error of a refused or failed frame.

        A page that cannot continue is closed.
        """
        frame = frame_of_error(error, self.conversation_id, text)
        await self._send(frame)
        if isinstance(error, Refused) and (code := _CLOSE_CODES.get(error.code)):
            await self._close(code)

    async def moved(self, event: dict[str, Any]) -> None:
        """Close the page of a device that the participant has left."""
        if self._page is not None and event["n_moves"] > self._page.n_moves:
            await self._refuse(moved_refusal())

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
        if self._page is None:
            return  # a frame in progress when the page was refused
        try:
            await self._apply(await in_database(self._page.store)(self._page.read(text_data)))
        except Exception as error:  # report errors of every type to the page
            await self._refuse(error, text_data)

    async def _apply(self, result: FrameResult) -> None:
        """Send a frame's result, and wait for the due reply.

        This page always gets the frames; other pages only if the channel layer delivers them.
        """
        for frame in result.frames:
            await self._send(frame)
        await publish_result(result, sender=self.channel_name)
        await self._join()
        if result.awaited is not None:
            self._watch_for(result.awaited, at_once=result.is_repeated, known_failure=result.failure)

    async def _send_history(self, page: ChatPage) -> None:
        await self._apply(await in_database(page.history)())

    async def frame_publish(self, event: dict[str, Any]) -> None:
        """Forward a frame published to every page of this conversation."""
        if event.get("sender") == self.channel_name:
            return
        frame = event["frame"]
        kind, turn = frame["type"], frame.get("turn")
        if kind == "token":
            self._heard_at[turn] = time.monotonic()
        elif kind == "turn":
            # A late frame of an earlier message does not end the search for the awaited reply.
            self._watch_for(max(turn + 1, self._due_turn or 0))
        elif kind == "vote":
            frame = await self._vote_now(frame)
        elif turn == self._due_turn and (kind == "reply" or frame.get("code") == "bot_failed"):
            self._watch_stop()
        await self._send(frame)

    async def _vote_now(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the stored vote.

        If two tabs vote at once, either may receive the other's frame last.
        """
        try:
            value = await in_database(selectors.vote_of)(self.conversation_id, frame["turn"])
        except DATABASE_AWAY:
            return frame
        return frame if value is None else frames.vote_frame(turn=frame["turn"], value=value)

    def _watch_for(self, turn: int, *, at_once: bool = False, known_failure: selectors.Failure | None = None) -> None:
        if self._due_turn == turn and not at_once:
            return
        self._watch_stop()
        self._due_turn = turn
        self._watch = asyncio.get_running_loop().create_task(self._look_up(turn, at_once, known_failure))

    def _watch_stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._due_turn = None

    async def _look_up(self, turn: int, at_once: bool, known_failure: selectors.Failure | None) -> None:
        """Look for a reply whose frames may be lost, until it ends.

        It ends when it is seen or has failed.
        """
        if not at_once:
            await asyncio.sleep(LOOK_UP_AFTER_S)
        while True:
            is_silent = time.monotonic() - self._heard_at.get(turn, 0) >= LOOK_UP_AFTER_S
            if at_once or is_silent:
                at_once = False
                try:
                    state = await in_database(selectors.reply_state)(self.conversation_id, turn)
                except DATABASE_AWAY as error:
                    logger.warning("cannot look up the reply of %s: %s", self.conversation_id, error)
                else:
                    if await self._show(turn, state, known_failure):
                        return
                    known_failure = state.failure
            await asyncio.sleep(LOOK_UP_AFTER_S)

    async def _show(self, turn: int, state: selectors.DueReply, known_failure: selectors.Failure | None) -> bool:
        """Send a reply's state if it changed.

        Return True if the reply is final.
        """
        for frame in reply_frames(turn, state, known_failure):
            await self._send(frame)
        if state.text is not None or (state.failure is not None and state.failure.error):
            self._due_turn = None
            return True
        if state.is_free:
            await events.reply_request(conversation_id=self.conversation_id, bot_id=state.bot_id)
        return not state.is_due

    async def _send(self, frame: dict[str, Any]) -> None:
        """Send a frame unless the page is gone.

        A page reads stored messages when it reconnects.
        """
        if self._is_gone:
            return
        text = sanitise(json.dumps(frame, ensure_ascii=False))
        try:
            await self.send(text_data=text)
        except (OSError, RuntimeError) as error:
            # Server messages about a closed socket: only the first error is an OSError.
            self._is_gone = True
            logger.debug("the page of %s has gone: %s", self.conversation_id, error)

    async def _close(self, code: int) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # already closed by the page
            await self.close(code=code)


websocket_urlpatterns = [
    path("ws/chat/<uuid:conversation_id>/", ChatConsumer.as_asgi()),
    # Other requests are refused normally, without an error in the log.
    re_path(r"", WebsocketDenier.as_asgi()),
]
