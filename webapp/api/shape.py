"""Django's own error responses, before or behind the routes, put into the shape of all errors.

They answer an address without a call, a method that a call does not take, a host that is not this server's, and
any failure in the middleware.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve, reverse

from webapp.core.programs import failure, is_call

GetResponse = Callable[[HttpRequest], HttpResponse]


class OneShape:
    """Middleware that leaves pages alone and gives errors of calls their shape, with the headers that they had."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code < 400 or not is_call(request.path_info):
            return response
        if not response.get("Content-Type", "").startswith("application/json"):
            # The same answer with other words: Django has noted at it whether it was logged.
            response.content = json.dumps(failure(*_told(request, response)))
            response["Content-Type"] = "application/json; charset=utf-8"
            response["Content-Length"] = str(len(response.content))
        return response


def _told(request: HttpRequest, response: HttpResponse) -> tuple[str, str]:
    """Return the code and the message of an error that Django made."""
    status = response.status_code
    if status == 404:
        return "not_found", _nothing_there(request)
    if status == 405:
        takes = response.get("Allow", "")
        return "wrong_method", f"{request.path} takes {takes}, not {request.method}"
    if status == 503:
        return "away", "The server cannot answer now; the header Retry-After says when to try again"
    if status >= 500:
        return "fault", "Confab failed here; its log has the reason."
    return "bad_request", f"{response.reason_phrase}: the call was refused before it was read"


def _nothing_there(request: HttpRequest) -> str:
    """Say that there is no such call, and which is meant where only a slash is too many."""
    shorter = request.path_info.rstrip("/")
    try:
        found = resolve(shorter)
    except Resolver404:
        found = None
    if found is not None and shorter != request.path_info and found.url_name != "api-root":
        return f"Addresses of calls end without a slash: {request.path.rstrip('/')}"
    return f"There is no call {request.path}; {reverse('api:openapi-json')} describes all of them"
