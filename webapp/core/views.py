"""Health and the error pages."""

from __future__ import annotations

import logging
import random
import secrets
import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.utils import translation

from webapp.core.crew import RETRY_AFTER_S, busy_page
from webapp.core.health import health_now
from webapp.core.speaking import locale_for

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


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 404 in the frame of every page."""
    return render(request, "core/not_found.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500 with a reference code that is also in the log; 503 where the database is away or busy."""
    if isinstance(sys.exc_info()[1], (OperationalError, InterfaceError)):
        seconds = random.randint(*RETRY_AFTER_S)
        with translation.override(locale_for(request)):
            body = busy_page(seconds, reloads=request.method in ("GET", "HEAD"))
        return HttpResponse(body, status=503, headers={"Retry-After": str(seconds)})
    reference = secrets.token_hex(4)
    logger.error("server error %s at %s", reference, request.path)
    with translation.override(locale_for(request)):
        return render(request, "core/server_error.html", {"reference": reference}, status=500)
