"""Refusal of requests with text that no column takes: U+0000, or half a surrogate pair.

PostgreSQL refuses both, wherever a value is compared or stored. They come from programs alone: no browser sends them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from django.core.exceptions import RequestDataTooBig
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    JsonResponse,
    UnreadablePostError,
)

from chatbots.storable import are_storable
from webapp.core.failing import not_found
from webapp.core.programs import failure, is_call

WORDS = "This holds the character U+0000 or half a surrogate pair, which cannot be stored. Send it without them."
NOT_FOUND = 4404
"""Close code of a socket to an unknown conversation."""
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_SUSPECT = re.compile(rb"\\u0000|\\u[dD]|\x00|\xed[\xa0-\xbf]")
"""Bytes without which no JSON text holds an unstorable character."""


class StorableRequests:
    """Middleware: answers 404 to an unstorable address, and 400 to such a header, cookie, form or JSON body."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = [request.path_info, *_pairs(request.GET)]
        if not are_storable(address):
            return _refuse(request, is_address=True)
        headers = [value for key, value in request.META.items() if key.startswith("HTTP_")]
        if not are_storable([headers, request.COOKIES]):
            return _refuse(request)
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, _args: Any, _named: Any
    ) -> HttpResponse | None:
        """Check the body, after the check of CSRF; calls check forms where they parse them."""
        if request.method in ("GET", "HEAD"):
            return None
        if request.content_type not in _FORMS:
            return None if _is_json_storable(request) else _refuse(request)
        if is_call(request.path_info):
            return None
        if getattr(view, "csrf_exempt", False):
            _ = (
                request.body
            )  # Keeps the body for a view that checks its signature: parsing a form uses it up.
        return None if are_storable(_pairs(request.POST)) else _refuse(request)


class StorableSockets:
    """ASGI middleware: closes sockets with an unstorable address or cookie, as for an unknown conversation."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        given = [scope["query_string"], *(value for _name, value in scope["headers"])]
        if "\x00" not in scope["path"] and not any(
            b"\x00" in unquote_to_bytes(one) for one in given
        ):
            return await self.application(scope, receive, send)
        await receive()  # websocket.connect
        # A socket that was never accepted has no close code of its own.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": NOT_FOUND})
        return None


def _is_json_storable(request: HttpRequest) -> bool:
    try:
        suspect = _SUSPECT.search(request.body)
        return not suspect or are_storable(json.loads(request.body))
    except (ValueError, RecursionError, RequestDataTooBig, UnreadablePostError):
        return True  # no JSON, or too large: the view says so in its own words


def _pairs(data: Any) -> list[Any]:
    return [[key, *values] for key, values in data.lists()]


def _refuse(request: HttpRequest, *, is_address: bool = False) -> HttpResponse:
    if is_call(request.path_info):
        return JsonResponse(failure("bad_text", WORDS), status=400)
    return not_found(request) if is_address else HttpResponseBadRequest(WORDS, "text/plain")
