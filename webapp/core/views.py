"""Health and the two error pages."""

from __future__ import annotations

import secrets

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static

from webapp.core.health import health_now


def healthz(request: HttpRequest) -> JsonResponse:
    """200 when this process can serve, 503 otherwise."""
    results = health_now()
    ok = all(result.ok for result in results.values())
    body = {"ok": ok, **{name: {"ok": r.ok, **r.details} for name, r in results.items()}}
    return JsonResponse(body, status=200 if ok else 503)


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Pages that name no icon (the admin's) ask for this one."""
    return HttpResponseRedirect(static("core/favicon.svg"))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404 in the frame of every page."""
    return render(request, "core/not_found.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """500 with a reference code that also stands in the log."""
    import logging

    reference = secrets.token_hex(4)
    logging.getLogger("webapp").error("server error %s at %s", reference, request.path)
    return render(request, "core/server_error.html", {"reference": reference}, status=500)
