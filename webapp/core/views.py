"""Health and the error pages."""

from __future__ import annotations

import logging

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.utils import translation

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
    with translation.override(locale_for(request)):
        return render(request, "core/not_found.html", status=404)


def form_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer 403 to a form whose secret is missing or old, with what to do.

    Args:
        reason: why, in Django's words; the log has it.
    """
    with translation.override(locale_for(request)):
        return render(request, "core/form_refused.html", status=403)
