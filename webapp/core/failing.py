"""Pages of errors, where there are no better ones."""

from __future__ import annotations

import logging
import random
import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation

from webapp.core.crew import RETRY_AFTER_S, busy_page
from webapp.core.log_lines import request_id_new, route_of
from webapp.core.speaking import locale_for

logger = logging.getLogger(__name__)


def reference_of(request: HttpRequest) -> str:
    """Return the request's id, by which the log is searched for what went wrong."""
    return getattr(request, "request_id", None) or request_id_new()


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500 with a reference code that is also in the log; 503 where the database is away or busy."""
    if isinstance(sys.exc_info()[1], (OperationalError, InterfaceError)):
        seconds = random.randint(*RETRY_AFTER_S)
        with translation.override(locale_for(request)):
            body = busy_page(seconds, reloads=request.method in ("GET", "HEAD"))
        return HttpResponse(body, status=503, headers={"Retry-After": str(seconds)})
    reference = reference_of(request)
    logger.error("server error %s at %s", reference, route_of(request))
    with translation.override(locale_for(request)):
        return render(request, "core/server_error.html", {"reference": reference}, status=500)


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
