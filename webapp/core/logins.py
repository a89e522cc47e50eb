"""Login throttling: axes' limit for each address and account, and a slow one for each account.

Many addresses together would try many passwords of one account. So an account takes a limited number of
wrong ones an hour, wherever they come from. A browser that has signed in to it before does not count
among them and is let in all the same: nobody can keep an administrator out by trying for ever.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from asgiref.sync import iscoroutinefunction
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessFailureLog
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

ACCOUNT_LIMIT = 30
ACCOUNT_WINDOW = timedelta(hours=1)
_COOKIE = "confab_browser"
_SALT = "confab.browser"
_REMEMBERED_S = 180 * 24 * 3600


class LoginHandler(AxesDatabaseHandler):
    """axes, with the limit of the account."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Return True if the login is locked: passwords are not even checked."""
        if super().is_locked(request, credentials):
            return True
        username = get_client_username(request, credentials)
        return not is_known(request, username) and n_wrong(username) >= ACCOUNT_LIMIT


def n_wrong(username: str | None) -> int:
    """Count the wrong passwords for this account within the last hour; those refused unseen are not logged."""
    since = timezone.now() - ACCOUNT_WINDOW
    return AccessFailureLog.objects.filter(username=username, attempt_time__gt=since).count()


def is_known(request: HttpRequest, username: str | None) -> bool:
    """Return True if this browser has signed in to the account before."""
    try:
        signed = signing.loads(request.COOKIES.get(_COOKIE, ""), salt=_SALT, max_age=_REMEMBERED_S)
    except signing.BadSignature:
        return False
    return bool(signed == username)


def signed_in(request: HttpRequest | None, user: Any, **_kwargs: Any) -> None:
    """Note whom the answer's cookie is to remember (receiver of `user_logged_in`)."""
    if request is not None:
        request.signed_in_as = user.get_username()  # type: ignore[attr-defined]


@sync_and_async_middleware
def remember_browser(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the pages so that a browser that signs in is remembered as one that has."""
    if iscoroutinefunction(get_response):

        async def asynchronous(request: HttpRequest) -> HttpResponse:
            return _with_cookie(request, await get_response(request))

        return asynchronous

    def synchronous(request: HttpRequest) -> HttpResponse:
        return _with_cookie(request, get_response(request))

    return synchronous


def _with_cookie(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    username = getattr(request, "signed_in_as", None)
    if username is not None:
        response.set_cookie(
            _COOKIE,
            signing.dumps(username, salt=_SALT),
            max_age=_REMEMBERED_S,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
    return response


def client_address(request: HttpRequest) -> str | None:
    """Return the client's address: the peer's, or the one that the declared proxies report.

    Each proxy adds the address it heard from to the right of X-Forwarded-For; any client can forge what stands
    further left.
    """
    peer: str | None = request.META.get("REMOTE_ADDR") or None
    n_proxies: int = settings.CONFAB_PROXY_COUNT
    heard = [word.strip() for word in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    if n_proxies <= 0 or len(heard) < n_proxies:
        return peer
    try:
        return str(ipaddress.ip_address(heard[-n_proxies].strip("[]")))
    except ValueError:
        return peer
