"""Authorisation of API calls: a token in the header `Authorization: Bearer …`, with the rights of the call."""

from __future__ import annotations

import logging
import threading

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest
from django.utils.connection import ConnectionProxy
from ninja.security import HttpBearer
from ninja.throttling import SimpleRateThrottle

from webapp.core.authentication import token_find, token_lacks
from webapp.core.health import redis_errors
from webapp.core.models import ApiToken
from webapp.core.rights import Right

log = logging.getLogger(__name__)


class Lacks(Exception):
    """The token has not all the rights that a call needs."""

    def __init__(self, rights: list[Right]) -> None:
        super().__init__(", ".join(right.value for right in rights))
        self.rights = rights


class Token(HttpBearer):
    """Token authentication that requires these rights besides `Right.READ`."""

    def __init__(self, *rights: Right) -> None:
        super().__init__()
        self.rights = (Right.READ, *rights)

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken:
        found = token_find(token)
        request.user = found.user
        demand(found, *self.rights)
        return found


def demand(token: ApiToken, *rights: Right) -> None:
    """Check that a token has these rights.

    Raises:
        Lacks: it has not all of them.
    """
    if lacking := token_lacks(token, rights):
        raise Lacks(lacking)


def rights_of(request: HttpRequest) -> list[Right]:
    """Return the rights that a call's token has now."""
    token: ApiToken = request.auth  # type: ignore[attr-defined]
    lacking = token_lacks(token, Right)
    return [right for right in Right if right not in lacking]


class PerToken(threading.local, SimpleRateThrottle):
    """So many calls of one token in a time, by the setting `CONFAB_API_RATE`; where there is Redis, of all web
    processes.

    The library's throttle keeps the request at hand in itself: each thread has one of its own.
    """

    cache = ConnectionProxy(caches, "shared")  # type: ignore[assignment]
    scope = "token"

    def __init__(self) -> None:
        SimpleRateThrottle.__init__(self, settings.CONFAB_API_RATE)

    def get_cache_key(self, request: HttpRequest) -> str | None:
        return f"confab.api.{request.auth.pk}"  # type: ignore[attr-defined]

    def allow_request(self, request: HttpRequest) -> bool:
        self.num_requests, self.duration = self.parse_rate(settings.CONFAB_API_RATE)
        try:
            return bool(super().allow_request(request))
        except redis_errors() as error:
            log.warning("a call of the API is not counted: %s", error)
            return True
