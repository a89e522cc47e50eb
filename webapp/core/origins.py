"""Origins of pages that may open a socket here: this server's, and trusted ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings


def origin_allowed(origin: str | None, host: str) -> bool:
    """Return True if a page of `origin` may open a socket on `host`.

    A browser always names the origin. An API client that names none sends no user's cookies by accident, so it
    may pass.
    """
    if origin is None:
        return True
    return urlsplit(origin).netloc == host or origin in settings.CSRF_TRUSTED_ORIGINS


class OriginValidator:
    """ASGI middleware: refuses sockets that pages of other origins open."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        host = headers.get(b"host", b"").decode("latin-1")
        if origin_allowed(origin.decode("latin-1") if origin is not None else None, host):
            return await self.application(scope, receive, send)
        return await WebsocketDenier.as_asgi()(scope, receive, send)
