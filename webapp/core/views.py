"""Health, and the icon."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponseRedirect, JsonResponse
from django.templatetags.static import static

from webapp.core.health import health_now

logger = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when this process can serve, 503 otherwise."""
    results = health_now()
    ok = all(result.ok for result in results.values())
    if broken := {n: r.details["error"] for n, r in results.items() if "error" in r.details}:
        logger.warning("not healthy: %s", broken)
    body = {"ok": ok, **{name: {"ok": r.ok, **r.details} for name, r in results.items()}}
    return JsonResponse(body, status=200 if ok else 503)


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Lead to the icon, for pages that name none (those of the admin)."""
    return HttpResponseRedirect(static("core/favicon.svg"))
