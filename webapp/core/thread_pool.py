"""Thread pool of pages: few threads, each with one lasting database connection.

Django gives every ASGI request a new thread and every thread opens a connection, so hundreds of participants arriving
at once would exceed PostgreSQL's limit. Here requests borrow one of a few lasting threads, whose connections stay open.
If none is free, a request waits in line; after too long it gets a page that says so (503 with Retry-After). Static
files need no connection and never wait, sockets use the threads of `core/database.py`, and `/healthz` and `/metrics`
have a separate thread, so that a busy process does not look ill.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.template.loader import render_to_string
from django.utils import translation

from chatbots.threads import ContextPool
from webapp.core.database import database_outage
from webapp.core.errors import api_error_body, is_api_path
from webapp.core.health import SENT_AWAY
from webapp.core.language import requested_locale

logger = logging.getLogger(__name__)

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

# Size of the chunks of a large response: each is sent before the next is generated.
PIECE_BYTES = 64 * 1024
# Random per response, so that rejected clients do not all return at once.
RETRY_AFTER_S = (3, 8)


class PoolExhausted(Exception):
    """Raised if no thread became free in time."""


class PageThreadPool:
    """Lasting threads that requests borrow in order of arrival."""

    def __init__(self, n_threads: int, name: str) -> None:
        # One worker each: all work of a borrower runs in the same thread.
        self._idle = [ContextPool(1, f"{name}-{n}") for n in range(n_threads)]
        self._places = asyncio.Semaphore(n_threads)
        self._moved_at = time.monotonic()

    @property
    def has_idle(self) -> bool:
        """True if a thread can be borrowed without waiting."""
        return not self._places.locked()

    def stands_s(self) -> float:
        """Return the seconds that all threads have been busy with the same work.

        0 while one is free. Any thread may call this.
        """
        return 0.0 if self._idle else time.monotonic() - self._moved_at

    async def borrow(self) -> ContextPool:
        """Wait for a thread, preferring the last used one.

        In quiet hours few connections are therefore open.
        """
        await self._places.acquire()
        self._moved_at = time.monotonic()
        return self._idle.pop()

    def give_back(self, thread: ContextPool) -> None:
        """Return the thread to the next caller in line."""
        self._moved_at = time.monotonic()
        self._idle.append(thread)
        self._places.release()


class _Borrowed(Executor):
    """Thread of one request, borrowed once the request has been read."""

    thread: ContextPool | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert self.thread is not None, "a request runs before it was read"
        return self.thread.submit(work, *args, **kwargs)


class PagesInOneThread(ASGIHandler):
    """Django with a page's middleware and view in one visit to the thread.

    Django's own handler returns to the event loop before the view and between middleware. An asynchronous view still
    runs on the event loop. Pages from a plain iterator are streamed as they are generated; Django's own handler
    collects everything first.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Make the middleware always call each other directly."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the page, generated in the thread that the request borrowed."""
        return await sync_to_async(self.get_response)(request)

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send the page, in pieces if it is streamed."""
        if isinstance(response, StreamingHttpResponse) and not response.is_async:
            response.streaming_content = in_pieces(iter(response))
        await super().send_response(response, send)


async def in_pieces(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield an iterator's values, joined to pieces worth a thread visit.

    The iterator runs in the thread of the request.

    Output that must arrive immediately needs an asynchronous iterator, which does not come here.
    """
    next_piece = sync_to_async(_piece)
    while piece := await next_piece(parts):
        yield piece


def _piece(parts: Iterator[bytes]) -> bytes:
    """Return the next piece; empty once the iterator has ended."""
    piece, size = [], 0
    for part in parts:
        piece.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            break
    return b"".join(piece)


class ThreadPooledApp:
    """ASGI application that serves Django's pages with a bounded number of threads.

    Args:
        application: Django.
        n_threads: number of pages processed at once.
        wait_s: maximum wait for a thread.
    """

    def __init__(self, application: AsgiApplication, *, n_threads: int, wait_s: float) -> None:
        self.application = application
        self.wait_s = wait_s
        self._pages = PageThreadPool(n_threads, "page")
        self._health = PageThreadPool(1, "health")

    def stands_s(self) -> float:
        """Return the seconds without a finished page while all threads are busy."""
        return self._pages.stands_s()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(settings.STATIC_URL):
            # Use a new context even so. If a client did not wait for its last response, the server starts the next
            # request in the context of the last one, whose thread has been lent to another request.
            with ContextPool(1, "static") as thread:
                async with ThreadSensitiveContext(executor=thread):
                    await self.application(scope, receive, send)
            return
        is_health = path.removeprefix(settings.CONFAB_PATH_PREFIX) in ("/healthz", "/metrics")
        crew = self._health if is_health else self._pages
        borrowed = _Borrowed()

        async def receive_and_wait() -> Message:
            """Receive a message; borrow a thread only after the whole body has arrived.

            Slow senders therefore block no thread.
            """
            message = await receive()
            is_end = message["type"] == "http.request" and not message.get("more_body", False)
            if is_end and borrowed.thread is None:
                return await self._wait(crew, borrowed, receive) or message
            return message

        try:
            async with ThreadSensitiveContext(executor=borrowed):
                await self.application(scope, receive_and_wait, send)
        except PoolExhausted:
            SENT_AWAY.inc()
            logger.warning("no thread became free within %g s", self.wait_s)
            await _send_away(scope, send)
        finally:
            if borrowed.thread is not None:
                crew.give_back(borrowed.thread)

    async def _wait(self, crew: PageThreadPool, borrowed: _Borrowed, receive: Receive) -> Message | None:
        """Borrow a thread.

        If the client disconnects meanwhile, its message is returned.

        Raises:
            Crowded: if no thread became free in time.
        """
        if crew.has_idle:
            borrowed.thread = await crew.borrow()
            return None
        waiting = asyncio.ensure_future(crew.borrow())
        leaving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({waiting, leaving}, timeout=self.wait_s, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                borrowed.thread = waiting.result()
                return None
            if leaving.done():
                return leaving.result()
            raise PoolExhausted
        finally:
            leaving.cancel()
            if borrowed.thread is None and not waiting.cancel():
                crew.give_back(waiting.result())


async def _send_away(scope: dict[str, Any], send: Send) -> None:
    """Send the busy page without using a thread, a session or the database."""
    seconds = random.randint(*RETRY_AFTER_S)
    accepted = dict(scope.get("headers", ())).get(b"accept-language", b"").decode("latin-1")
    kind = "text/html"
    if is_api_path(scope["path"].removeprefix(settings.CONFAB_PATH_PREFIX)):
        kind = "application/json"
        body = json.dumps(api_error_body("busy", f"Too many requests at once; try again in {seconds} s")).encode()
    else:
        with translation.override(requested_locale(scope["path"], accepted)):
            body = busy_page(
                seconds, reloads=scope["method"] in ("GET", "HEAD"), is_outage=database_outage.is_going_on()
            ).encode()
    headers = {
        "content-type": f"{kind}; charset=utf-8",
        "content-length": str(len(body)),
        "retry-after": str(seconds),
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self' data:",
        "referrer-policy": settings.SECURE_REFERRER_POLICY,
    }
    await send(
        {
            "type": "http.response.start",
            "status": 503,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def busy_page(retry_after_s: int, *, reloads: bool, is_outage: bool) -> str:
    """Return the page for a busy server.

    Args:
        retry_after_s: seconds after which to try again.
        reloads: whether the page reloads itself; it must not if the request submitted something.
        is_outage: True if the database is unavailable, not the server busy.
    """
    context = {"retry_after_s": retry_after_s, "reloads": reloads, "is_outage": is_outage}
    return render_to_string("core/busy.html", context)
