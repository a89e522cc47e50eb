"""Middleware around pages and sockets, for ASGI and for Django.

Path prefix: Confab runs below a path of a shared host, such as https://lab.example.org/confab/.

Origins: only this server's and trusted pages may open a socket.

Limits of bodies, enforced while they arrive: Django would store them on disk before any view checks the sender.

Text that cannot be stored (U+0000, or half a surrogate pair): PostgreSQL rejects both, wherever a value is compared or
stored. Only programs send them, never browsers.

Request ids: in the response, in every line logged meanwhile, and in a final line. That line has the page's name, status
and duration, but no address: participants' addresses contain tokens and recruitment ids.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from channels.security.websocket import WebsocketDenier
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse, UnreadablePostError
from django.shortcuts import render
from django.urls import ResolverMatch
from structlog.contextvars import bind_contextvars, clear_contextvars

from chatbots.text import are_sanitised
from webapp.core.audit_trail import ADMIN_FORM, enter_request, record, vocabulary_add
from webapp.core.authentication import client_address, token_find, token_lacks
from webapp.core.database import in_database
from webapp.core.errors import Refused, api_error_body, is_api_path
from webapp.core.health import REQUESTS
from webapp.core.logs import request_id_new, route_of
from webapp.core.pages import not_found
from webapp.core.project_scope import UNDECIDED, enter_project
from webapp.core.projects import may_open_admin
from webapp.core.rights import Right, may_somewhere

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
PrefixedApplication = Callable[[Scope, Any, Any], Awaitable[None]]


class PathPrefix:
    """ASGI application that accepts requests with or without the prefix.

    Proxies may keep the prefix or remove it.

    Args:
        application: gets every path with the prefix, and the prefix as its `root_path`.
        prefix: starts with a slash and does not end with one; empty for none.
    """

    def __init__(self, application: PrefixedApplication, prefix: str) -> None:
        self.application = application
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await self.application(self._placed(scope) if self.prefix else scope, receive, send)

    def _placed(self, scope: Scope) -> Scope:
        path: str = scope["path"]
        if path == self.prefix or path.startswith(f"{self.prefix}/"):
            return {**scope, "root_path": self.prefix}
        raw = scope.get("raw_path")
        return {
            **scope,
            "root_path": self.prefix,
            "path": self.prefix + path,
            "raw_path": self.prefix.encode() + raw if raw is not None else None,
        }


def origin_allowed(origin: str | None, host: str) -> bool:
    """Return True if a page of `origin` may open a socket on `host`.

    Browsers always send the origin. API clients that send none do not send a user's cookies by accident, so they are
    allowed.
    """
    if origin is None:
        return True
    return urlsplit(origin).netloc == host or origin in settings.CSRF_TRUSTED_ORIGINS


class OriginValidator:
    """ASGI middleware that refuses sockets from pages of other origins."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        host = headers.get(b"host", b"").decode("latin-1")
        if origin_allowed(origin.decode("latin-1") if origin is not None else None, host):
            return await self.application(scope, receive, send)
        return await WebsocketDenier.as_asgi()(scope, receive, send)


Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApplication = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class BodyLimits:
    """ASGI application that responds 413 as soon as a body is too large.

    It checks the header and counts the bytes.

    Args:
        application: application for all other requests.
        limit: bytes that anyone may send; they stay in memory.
        upload_limit: bytes that staff may send to a page that accepts files.
        rights_to_upload: rights needed for an upload to an address; none if it accepts no files.
        page_limit: bytes that anyone may send to an address, if that is not `limit`; otherwise 0.
    """

    def __init__(
        self,
        application: AsgiApplication,
        *,
        limit: int,
        upload_limit: int,
        rights_to_upload: Callable[[str], Collection[Right]],
        page_limit: Callable[[str], int] = lambda path: 0,
    ) -> None:
        self.application = application
        self.limit = limit
        self.upload_limit = upload_limit
        self.rights_to_upload = rights_to_upload
        self.page_limit = page_limit

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
                return {"type": "http.disconnect"}  # as if the sender had disconnected: nothing is stored
            return message

        async def send_unless_refused(message: Message) -> None:
            if not is_refused:
                await send(message)

        await self.application(scope, receive_counted, send_unless_refused)

    async def _raised(self, scope: dict[str, Any]) -> int:
        """Return the sender's limit.

        Called only if the usual limit is exceeded.
        """
        if scope["method"] == "POST" and (limit := self.page_limit(scope["path"])):
            return limit
        rights = self.rights_to_upload(scope["path"])
        if scope["method"] != "POST" or not rights:
            return self.limit

        async def is_allowed() -> bool:
            return await in_database(_may)(scope, *rights)

        # Use a new context: this request has no thread yet, and with a kept-alive connection the server may start it in
        # the context of the previous one, whose thread is gone.
        asking = asyncio.create_task(is_allowed(), context=Context())
        return self.upload_limit if await asking else self.limit

    async def _refuse(self, scope: dict[str, Any], send: Send, limit: int) -> None:
        message = f"This is too large: at most {limit / 1_048_576:.0f} MB can be sent here"
        kind, text = "text/plain", f"{message}.\n"
        if is_api_path(scope["path"].removeprefix(settings.CONFAB_PATH_PREFIX)):
            rights = self.rights_to_upload(scope["path"])
            if rights and limit < self.upload_limit:
                message += f", and {self.upload_limit / 1_048_576:.0f} MB with a token that may {' and '.join(rights)}"
            kind, text = "application/json", json.dumps(api_error_body("too_large", message))
        headers = [
            (b"content-type", f"{kind}; charset=utf-8".encode()),
            (b"content-length", str(len(text)).encode()),
            (b"connection", b"close"),  # the rest of the body is not read
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": text.encode()})


def _declared(scope: dict[str, Any]) -> int:
    """Return the request's declared length; 0 if it declares none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


def _may(scope: dict[str, Any], *rights: Right) -> bool:
    """Return True if the token or session belongs to staff with these rights."""
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
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(morsel.value if morsel else None)
    return may_somewhere(get_user(request), *rights)


UNSTORABLE_MESSAGE = (
    "This contains the character U+0000 or half a surrogate pair, which cannot be stored. Send it without them."
)
NOT_FOUND_RESPONSE = 4404
"""Close code of a socket to an unknown conversation."""
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_SUSPECT = re.compile(rb"\\u0000|\\u[dD]|\x00|\xed[\xa0-\xbf]")
"""Bytes without which JSON text contains no unstorable character."""


View = TypeVar("View", bound=Callable[..., HttpResponse])


class StorableTextMiddleware:
    """Middleware that rejects unstorable text.

    It responds 404 to such an address, and 400 to such a header, cookie, form or JSON body.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = [request.path_info, *_pairs(request.GET)]
        if not are_sanitised(address):
            return _refuse(request, is_address=True)
        headers = [value for key, value in request.META.items() if key.startswith("HTTP_")]
        if not are_sanitised([headers, request.COOKIES]):
            return _refuse(request)
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, _args: Any, _kwargs: Any) -> HttpResponse | None:
        """Check the body after the CSRF check.

        API calls check forms when they parse them.
        """
        if request.method in ("GET", "HEAD") or getattr(view, "takes_any_text", False):
            return None
        if request.content_type not in _FORMS:
            return None if _is_json_storable(request) else _refuse(request)
        if is_api_path(request.path_info):
            return None
        # Such views accept no forms with files, which may be larger than a body in memory.
        if getattr(view, "csrf_exempt", False) and request.content_type != "multipart/form-data":
            _ = request.body  # Keep the body for views that check its signature: parsing a form consumes it.
        return None if are_sanitised(_pairs(request.POST)) else _refuse(request)


def takes_any_text(view: View) -> View:
    """Mark a view that sanitises its body itself, like the chat socket."""
    view.takes_any_text = True  # type: ignore[attr-defined]
    return view


class StorableTextSockets:
    """ASGI middleware that closes sockets with unstorable text.

    In an address or cookie; the close code is that of an unknown conversation.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        untrusted = [scope["query_string"], *(value for _name, value in scope["headers"])]
        if "\x00" not in scope["path"] and not any(b"\x00" in unquote_to_bytes(part) for part in untrusted):
            return await self.application(scope, receive, send)
        await receive()  # websocket.connect
        # A socket that was not accepted has no close code of its own.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": NOT_FOUND_RESPONSE})
        return None


def _is_json_storable(request: HttpRequest) -> bool:
    try:
        suspect = _SUSPECT.search(request.body)
        return not suspect or are_sanitised(json.loads(request.body))
    except (ValueError, RecursionError, RequestDataTooBig, UnreadablePostError):
        return True  # invalid or too large JSON: the view reports it


def _pairs(data: Any) -> list[Any]:
    return [[key, *values] for key, values in data.lists()]


def _refuse(request: HttpRequest, *, is_address: bool = False) -> HttpResponse:
    if is_api_path(request.path_info):
        return JsonResponse(api_error_body("bad_text", UNSTORABLE_MESSAGE), status=400)
    return not_found(request) if is_address else HttpResponseBadRequest(UNSTORABLE_MESSAGE, "text/plain")


class ProjectMiddleware:
    """Middleware that hides all rows from staff routes until rights are checked, and notes the origin of actions.

    The admin shows the records of all projects, so on a server with several projects only superusers can open it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, _view: Any, _args: Any, _kwargs: Any) -> HttpResponse | None:
        """Forbid queries until a project is entered, or refuse the admin.

        This depends on the namespace of the route.
        """
        match = request.resolver_match
        namespace = match.namespaces[0] if match is not None and match.namespaces else ""
        enter_request(request, client_address(request))
        if namespace in ("dashboard", "api"):
            enter_project(UNDECIDED)
        elif namespace == "admin" and request.user.is_authenticated and not may_open_admin(request.user):
            context = {"missing": ["Superuser, as this server has several projects"], "is_staff": True}
            return render(request, "core/forbidden.html", context, status=403)
        elif namespace == "admin" and request.method == "POST" and request.user.is_authenticated and match is not None:
            _record_admin_form(match)
        return None


def _record_admin_form(match: ResolverMatch) -> None:
    """Record a form of Django's admin: its pages can change accounts and rights, too."""
    model, row = (match.url_name or "").rpartition("_")[0], str(match.kwargs.get("object_id", ""))
    known = model in _admin_models()
    number = int(row) if row.isascii() and row.isdigit() and len(row) < 19 else None
    record(ADMIN_FORM, model=model if known else None, row=number if known else None)


def _admin_models() -> set[str]:
    return {f"{model._meta.app_label}_{model._meta.model_name}" for model in apps.get_models()}


vocabulary_add("model", _admin_models)


REQUEST_ID_HEADER = "X-Request-ID"
_UNLOGGED_ROUTES = ("healthz", "metrics", "participant:chat-state")
"""Pages that monitors and open chats request every few seconds."""


class RequestLogMiddleware:
    """Middleware around all others."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        request_id = request_id_new()
        request.request_id = request_id  # type: ignore[attr-defined]
        # Keep the context bound after the response: Django logs a missing page at the very end, and each request has
        # its own context.
        clear_contextvars()
        bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response[REQUEST_ID_HEADER] = request_id
        self._tell(request, response, time.perf_counter() - began)
        return response

    def process_view(self, request: HttpRequest, _view: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        """Bind the conversation of the page."""
        if "conversation_id" in kwargs:
            bind_contextvars(conversation_id=str(kwargs["conversation_id"]))

    @staticmethod
    def _tell(request: HttpRequest, response: HttpResponse, duration_s: float) -> None:
        route = route_of(request)
        if route in _UNLOGGED_ROUTES or request.path.startswith(settings.STATIC_URL):
            return
        part = route.partition(":")[0] if ":" in route else "other"
        REQUESTS.labels(part, f"{response.status_code // 100}xx").observe(duration_s)
        fields = {
            "route": route,
            "method": request.method,
            "status": response.status_code,
            "duration_ms": round(duration_s * 1000, 1),
        }
        logger.info("request", extra=fields)
