"""The pages of errors, for whoever has no better ones."""

from __future__ import annotations

import logging
import random
import secrets
import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation

from webapp.core.crew import RETRY_AFTER_S, busy_page
from webapp.core.speaking import locale_for

logger = logging.getLogger(__name__)


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
