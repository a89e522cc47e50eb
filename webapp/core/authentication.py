"""Authentication of staff: API tokens, and login throttling.

Tokens are shown once, stored as digests, and can be revoked at any time.

Axes limits logins per address and account. A second limit applies per account, since many addresses together could try
many passwords: an account accepts a limited number of wrong passwords an hour from all addresses. Browsers that have
signed in before are exempt, so an attacker cannot lock an administrator out.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import iscoroutinefunction
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessFailureLog
from django.conf import settings
from django.core import signing
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import gettext as _

from chatbots.text import is_blank
from webapp.core.audit_trail import TOKEN_CREATE, TOKEN_REVOKE, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.models import ApiToken
from webapp.core.project_scope import in_project, project_of_new_rows
from webapp.core.rights import Right, may, may_in

if TYPE_CHECKING:
    from django.contrib.auth.models import User

CREDENTIAL_PREFIX = "confab_"
"""Prefix of every token, by which people and secret scanners recognise one."""
LONGEST_TOKEN_DAYS = 3650
_USE_NOTED_EVERY = timedelta(minutes=1)


def token_make(*, user: User, name: str, rights: Sequence[str], days: int | None = None) -> tuple[ApiToken, str]:
    """Create a token.

    Return its row and its text, which is not stored.

    Args:
        rights: `Right.READ` is always included.
        days: days until it expires; None: never.

    Raises:
        Refused: `bad_token`: no name, an unknown right or one that the person lacks, or an impossible number of days.
    """
    name = name.strip()
    if is_blank(name) or len(name) > 100:
        raise Refused("bad_token", _("A token needs a name of 1 to 100 characters."))
    known = [right.value for right in Right]
    for right in rights:
        if right not in known:
            raise Refused(
                "bad_token",
                _("There is no right “{right}”. Use one of: {known}.").format(right=right, known=", ".join(known)),
            )
    granted = [right for right in Right if right.value in {*rights, Right.READ.value}]
    project = project_of_new_rows()
    if lacking := [right.value for right in granted if not may_in(user, project, right)]:
        raise Refused(
            "bad_token",
            _("{user} does not have the right {right}, so a token cannot have it either.").format(
                user=user.get_username(), right=", ".join(lacking)
            ),
        )
    if days is not None and not 1 <= days <= LONGEST_TOKEN_DAYS:
        raise Refused(
            "bad_token", _("A token can last 1 to {most} days, not {days}.").format(most=LONGEST_TOKEN_DAYS, days=days)
        )
    text = CREDENTIAL_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ApiToken.objects.create(
            user=user,
            name=name,
            digest=_digest(text),
            rights=[right.value for right in granted],
            expires_at=None if days is None else database_now() + timedelta(days=days),
        )
        record(TOKEN_CREATE, row, rights=granted, days=days)
    return row, text


def token_revoke(*, token: ApiToken) -> None:
    """Revoke a token (idempotent)."""
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=database_now()):
            record(TOKEN_REVOKE, token)


def token_find(text: str) -> ApiToken:
    """Return the token of an API client, and record its use.

    Raises:
        Refused: `no_token`, with the reason why it is invalid.
    """
    token = ApiToken.everywhere.select_related("user").filter(digest=_digest(text)).first()
    now = database_now()
    if token is None:
        raise Refused("no_token", _("This server does not know the token. Create a new one and use that."))
    if token.revoked_at is not None:
        raise Refused(
            "no_token",
            _("The token “{name}” was revoked on {day}.").format(name=token.name, day=f"{token.revoked_at:%Y-%m-%d}"),
        )
    if token.expires_at is not None and token.expires_at <= now:
        raise Refused(
            "no_token",
            _("The token “{name}” expired on {day}.").format(name=token.name, day=f"{token.expires_at:%Y-%m-%d}"),
        )
    if not may(token.user):
        raise Refused("no_token", _("The user who made this token is no longer on the staff."))
    not_noted = Q(last_used_at=None) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
    ApiToken.everywhere.filter(not_noted, pk=token.pk).update(last_used_at=now)
    return token


def token_lacks(token: ApiToken, rights: Collection[Right]) -> list[Right]:
    """Return the rights missing from the token or its user."""
    with in_project(token.project_id):
        return [
            right
            for right in Right
            if right in rights and (right.value not in token.rights or not may(token.user, right))
        ]


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return a user's tokens, newest first, including revoked ones."""
    return ApiToken.objects.filter(user=user)


def _digest(text: str) -> str:
    # A plain digest: the text has 256 random bits, too many to guess.
    return hashlib.sha256(text.encode()).hexdigest()


ACCOUNT_LIMIT = 30
ACCOUNT_WINDOW = timedelta(hours=1)
_COOKIE = "confab_browser"
_SALT = "confab.browser"
_REMEMBERED_S = 180 * 24 * 3600


class LoginHandler(AxesDatabaseHandler):
    """Login handler of axes, with an additional limit per account."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Return True if the login is locked.

        Passwords are not checked then.
        """
        if super().is_locked(request, credentials):
            return True
        username = get_client_username(request, credentials)
        return not is_known_browser(request, username) and n_wrong_passwords(username) >= ACCOUNT_LIMIT


def n_wrong_passwords(username: str | None) -> int:
    """Count the account's wrong passwords within the last hour.

    Those refused without a check are not logged.
    """
    since = database_now() - ACCOUNT_WINDOW
    return AccessFailureLog.objects.filter(username=username, attempt_time__gt=since).count()


def is_known_browser(request: HttpRequest, username: str | None) -> bool:
    """Return True if this browser has signed in to the account before."""
    try:
        signed = signing.loads(request.COOKIES.get(_COOKIE, ""), salt=_SALT, max_age=_REMEMBERED_S)
    except signing.BadSignature:
        return False
    return bool(signed == username)


def note_sign_in(request: HttpRequest | None, user: Any, **_kwargs: Any) -> None:
    """Mark the request, so that the response remembers the browser (receiver)."""
    if request is not None:
        request.signed_in_as = user.get_username()  # type: ignore[attr-defined]


@sync_and_async_middleware
def remember_browser(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Set a cookie that identifies browsers after a sign-in (middleware)."""
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
    """Return the client's address.

    It is the peer's, or the one that the declared proxies report.

    Each proxy appends the address of its peer to X-Forwarded-For; clients can forge everything before that.
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
