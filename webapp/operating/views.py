"""`/metrics`, for Prometheus."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe

from webapp.core.authentication import client_address
from webapp.operating.system_load import exposition

_CLOSED = (
    "Access denied: send the token in CONFAB_PROMETHEUS_TOKEN as “Authorization: Bearer …”, or connect from an "
    "address in CONFAB_PROMETHEUS_ALLOW.\n"
)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all processes' metrics to clients with the token or address."""
    if not (_has_token(request) or _is_allowed(request)):
        return HttpResponse(_CLOSED, status=403, content_type="text/plain; charset=utf-8")
    text, content_type = exposition(request.headers.get("Accept", ""))
    return HttpResponse(text, content_type=content_type, headers={"Cache-Control": "no-store"})


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    expected_token = settings.CONFAB_PROMETHEUS_TOKEN
    return bool(expected_token) and scheme == "Bearer" and constant_time_compare(token.strip(), expected_token)


def _is_allowed(request: HttpRequest) -> bool:
    """Return True if the client's address is allowed.

    Never for an undeclared proxy, which hides all clients.
    """
    is_passed_on = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    if is_passed_on and settings.CONFAB_PROXY_COUNT <= 0:
        return False
    try:
        asker = ipaddress.ip_address(client_address(request) or "")
    except ValueError:  # a socket file
        return False
    return any(asker in network for network in _networks())


def _networks() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text, strict=False) for text in settings.CONFAB_PROMETHEUS_ALLOW]
