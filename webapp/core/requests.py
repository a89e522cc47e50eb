"""An id for every request: in its answer, in every line that is logged meanwhile, and in one line at its end.

The line has the page's name, status and duration, never an address: those of participants carry tokens and the ids that
recruitment platforms give people.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bind_contextvars, clear_contextvars

from webapp.core.instruments import REQUESTS
from webapp.core.log_lines import request_id_new, route_of

logger = logging.getLogger(__name__)

HEADER = "X-Request-ID"
_UNTOLD = ("healthz", "metrics")
"""Pages that monitors ask for every few seconds."""


class RequestLines:
    """Middleware around all others."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        request_id = request_id_new()
        request.request_id = request_id  # type: ignore[attr-defined]
        # What was bound stays bound after the answer: Django logs a page that is missing at the very end, and each
        # request has a context of its own.
        clear_contextvars()
        bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response[HEADER] = request_id
        self._tell(request, response, time.perf_counter() - began)
        return response

    def process_view(
        self, request: HttpRequest, _view: Any, _args: Any, named: dict[str, Any]
    ) -> None:
        """Bind the conversation that the page is about."""
        if "conversation_id" in named:
            bind_contextvars(conversation_id=str(named["conversation_id"]))

    @staticmethod
    def _tell(request: HttpRequest, response: HttpResponse, duration_s: float) -> None:
        route = route_of(request)
        if route in _UNTOLD or request.path.startswith(settings.STATIC_URL):
            return
        part = route.partition(":")[0] if ":" in route else "other"
        REQUESTS.labels(part, f"{response.status_code // 100}xx").observe(duration_s)
        fields = {
            "route": route,
            "method": request.method,
            "status": response.status_code,
            "duration_ms": round(duration_s * 1000, 1),
        }
        logger.info("request", extra=fields)
