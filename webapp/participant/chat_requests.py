"""Chat over HTTP requests, for networks that block WebSockets.

Both addresses carry the socket's frames as JSON lists, handled by the same code (`chat_frames`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from threading import Lock
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from chatbots.text import sanitise
from webapp.conversations import events, frames
from webapp.core.database import DATABASE_AWAY
from webapp.core.errors import Refused
from webapp.core.middleware import origin_allowed, takes_any_text
from webapp.participant.chat_frames import (
    MOVED,
    NOT_FOUND,
    ChatPage,
    FloodGate,
    frame_of_error,
    open_chat_page,
    publish_result,
)

MOST_FRAMES = 20
"""Frames in one request."""
_STATUSES = {NOT_FOUND: 404, MOVED: 409, "bad_frame": 400, "forbidden": 403, "unavailable": 503}


class _Gates:
    """Flood gates by chat, because requests share no connection.

    The least recently used gate is dropped first.
    """

    def __init__(self, capacity: int = 10_000) -> None:
        self._gates: OrderedDict[UUID, FloodGate] = OrderedDict()
        self._lock, self._capacity = Lock(), capacity

    def get(self, conversation_id: UUID) -> FloodGate:
        with self._lock:
            gate = self._gates.setdefault(conversation_id, FloodGate())
            self._gates.move_to_end(conversation_id)
            if len(self._gates) > self._capacity:
                self._gates.popitem(last=False)
        return gate


_gates = _Gates()


@takes_any_text
@csrf_exempt  # as at the socket, check the origin; forms of other pages cannot send JSON
@never_cache
@require_POST
def chat_messages(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Store the frames of a list, in order, and return the resulting ones.

    A refused frame does not stop the frames after it. A single frame may come without a list.
    """
    try:
        _check_origin(request)
        sent = _frames_sent(request)
        page = _open(request, conversation_id)
    except (Refused, *DATABASE_AWAY) as error:
        return _refusal(error, conversation_id)
    answers: list[dict[str, Any]] = []
    with translation.override(page.locale):
        for text in sent:
            answers += _answers(page, text)
    return _response(answers)


@never_cache
@require_safe
def chat_state(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Return frames of everything stored after turn `after`.

    Without it, those of a new connection.
    """
    try:
        page = _open(request, conversation_id)
        after = _turn(request.GET.get("after", ""))
        with translation.override(page.locale):
            result = page.history() if after is None else page.news(after)
    except (Refused, *DATABASE_AWAY) as error:
        return _refusal(error, conversation_id)
    if after is None and page.n_moves:
        async_to_sync(events.move_publish)(conversation_id, page.n_moves)
    return _response(result.frames)


def _open(request: HttpRequest, conversation_id: UUID) -> ChatPage:
    return open_chat_page(request.session, request.GET.get("t", ""), conversation_id, _gates.get(conversation_id))


def _answers(page: ChatPage, text: str) -> list[dict[str, Any]]:
    """Store one frame, publish its results, and return its page's frames."""
    try:
        result = page.store(page.read(text))
        if result.is_repeated and result.awaited is not None:
            result.frames += page.news(result.awaited - 1).frames
    except Exception as error:  # every failure is reported to the page
        return [frame_of_error(error, page.conversation_id, text)]
    async_to_sync(publish_result)(result)
    return result.frames


def _check_origin(request: HttpRequest) -> None:
    if not origin_allowed(request.headers.get("Origin"), request.get_host()):
        raise Refused("forbidden", "Pages from other origins cannot write to a chat.")
    if request.content_type != "application/json":
        raise Refused("bad_frame", "Send a JSON list of frames with the content type application/json.")


def _frames_sent(request: HttpRequest) -> list[str]:
    """Return the request's frames, each as JSON text."""
    text = request.body.decode("utf-8", errors="replace")
    if len(text) > frames.FRAME_MAX_CHARS:
        raise Refused("bad_frame", f"The list has {len(text)} characters; the limit is {frames.FRAME_MAX_CHARS}.")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("bad_frame", "Invalid JSON. Send a list of frames.") from None
    items = data if isinstance(data, list) else [data]
    if len(items) > MOST_FRAMES:
        raise Refused("bad_frame", f"The list has {len(items)} frames; the limit is {MOST_FRAMES} per request.")
    return [json.dumps(item, ensure_ascii=False) for item in items]


def _turn(value: str) -> int | None:
    if not value:
        return None
    number = value.removeprefix("-")
    if not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise Refused("bad_frame", "`after` must be a turn number such as 3, or -1 for all turns.")
    return int(value)


def _refusal(error: Exception, conversation_id: UUID) -> HttpResponse:
    frame = frame_of_error(error, conversation_id)
    return _response([frame], status=_STATUSES.get(frame["code"], 400))


def _response(answers: list[dict[str, Any]], *, status: int = 200) -> HttpResponse:
    text = sanitise(json.dumps(answers, ensure_ascii=False))
    return HttpResponse(text, content_type="application/json; charset=utf-8", status=status)
