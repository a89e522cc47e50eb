"""Limits of request bodies, checked on arrival: Django would write them to disk before a view checks the sender."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from webapp.core.database import in_database
from webapp.core.errors import Refused
from webapp.core.programs import failure, is_call
from webapp.core.rights import Right, may
from webapp.core.tokens import token_find, token_lacks

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class BodyLimits:
    """ASGI application: answers 413 as soon as a body is too large, by its header or by counting it.

    Args:
        application: what answers all other requests.
        limit: bytes that anybody may send; they stay in memory.
        upload_limit: bytes that staff may send to a page that takes files.
        rights_to_upload: which rights that takes at an address; none where it takes no files.
    """

    def __init__(
        self,
        application: Application,
        *,
        limit: int,
        upload_limit: int,
        rights_to_upload: Callable[[str], Collection[Right]],
    ) -> None:
        self.application = application
        self.limit = limit
        self.upload_limit = upload_limit
        self.rights_to_upload = rights_to_upload

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        limit = self.limit
        declared = _declared(scope)
        if declared > limit:
            limit = await self._raised(scope)
            if declared > limit:
                await self._refuse(scope, send, limit)
                return
        n_received = 0
        is_refused = False

        async def receive_counted() -> Message:
            nonlocal limit, n_received, is_refused
            message = await receive()
            n_received += len(message.get("body", b""))
            if n_received > limit and limit == self.limit:
                limit = max(limit, await self._raised(scope))
            if n_received > limit:
                is_refused = True
                await self._refuse(scope, send, limit)
                return {"type": "http.disconnect"}  # as if the sender had gone: nothing is kept
            return message

        async def send_unless_refused(message: Message) -> None:
            if not is_refused:
                await send(message)

        await self.application(scope, receive_counted, send_unless_refused)

    async def _raised(self, scope: dict[str, Any]) -> int:
        """Return the sender's limit; called only where the usual limit is exceeded."""
        rights = self.rights_to_upload(scope["path"])
        if scope["method"] != "POST" or not rights:
            return self.limit

        async def is_allowed() -> bool:
            return await in_database(_may)(scope, *rights)

        # In a context of its own: this request has no thread yet, and where the client keeps its connection the
        # server may begin it in the context of the one before, whose thread is gone.
        asking = asyncio.create_task(is_allowed(), context=Context())
        return self.upload_limit if await asking else self.limit

    async def _refuse(self, scope: dict[str, Any], send: Send, limit: int) -> None:
        told = f"This is too large: at most {limit / 1_048_576:.0f} MB can be sent here"
        kind, text = "text/plain", f"{told}.\n"
        if is_call(scope["path"].removeprefix(settings.CONFAB_PATH_PREFIX)):
            rights = self.rights_to_upload(scope["path"])
            if rights and limit < self.upload_limit:
                told += f", and {self.upload_limit / 1_048_576:.0f} MB with a token that may {' and '.join(rights)}"
            kind, text = "application/json", json.dumps(failure("too_large", told))
        headers = [
            (b"content-type", f"{kind}; charset=utf-8".encode()),
            (b"content-length", str(len(text)).encode()),
            (b"connection", b"close"),  # what is still on its way is not read
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})


def _declared(scope: dict[str, Any]) -> int:
    """Return the length that the request says it has; 0 if it says none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


def _may(scope: dict[str, Any], *rights: Right) -> bool:
    """Return True if the request's token or session belongs to staff with these rights."""
    headers = dict(scope["headers"])
    kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        try:
            return not token_lacks(token_find(text.strip()), rights)
        except Refused:
            return False
    cookies = SimpleCookie()
    try:
        cookies.load(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return False
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(
        morsel.value if morsel else None
    )
    return may(get_user(request), *rights)
