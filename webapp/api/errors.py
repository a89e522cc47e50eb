"""Authorisation of API calls, and error responses in one shape.

The shape is `{"error": {"code", "message", "mistakes"}}`. Status codes: 400 cannot be done as requested, 401 no valid
token, 403 missing right, 404 not found, 413 too large, 415 wrong content type, 422 invalid values (all mistakes are
listed), 429 too many calls, 500 error in Confab, 503 busy or database unavailable.

A body is parsed only if it has the content type that the route expects. `JsonErrorMiddleware` gives the same shape to
Django's own error responses: unknown path, wrong method, wrong host, and failures in the middleware.
"""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation, ValidationError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.urls import Resolver404, resolve, reverse
from django.utils.connection import ConnectionProxy
from django.utils.datastructures import MultiValueDict
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationErrorContext
from ninja.parser import Parser
from ninja.security import HttpBearer
from ninja.throttling import SimpleRateThrottle

from chatbots.registry import UnknownName
from chatbots.text import are_sanitised
from chatbots.validation import Mistake, ValuesError, mistakes_of
from webapp.core.authentication import token_find, token_lacks
from webapp.core.errors import Refused, api_error_body, is_api_path
from webapp.core.health import redis_errors
from webapp.core.logs import route_of
from webapp.core.middleware import UNSTORABLE_MESSAGE
from webapp.core.models import ApiToken
from webapp.core.project_scope import enter_project
from webapp.core.rights import Right
from webapp.core.thread_pool import RETRY_AFTER_S


class Lacks(Exception):
    """Error of a token without all rights that a call needs."""

    def __init__(self, rights: list[Right]) -> None:
        super().__init__(", ".join(right.value for right in rights))
        self.rights = rights


class Token(HttpBearer):
    """Token authentication that requires these rights in addition to `Right.READ`."""

    def __init__(self, *rights: Right) -> None:
        super().__init__()
        self.rights = (Right.READ, *rights)

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken:
        api_token = token_find(token)
        request.user = api_token.user
        enter_project(api_token.project_id)
        demand(api_token, *self.rights)
        return api_token


def demand(token: ApiToken, *rights: Right) -> None:
    """Check that a token has these rights.

    Raises:
        Lacks: a right is missing.
    """
    if lacking := token_lacks(token, rights):
        raise Lacks(lacking)


def rights_of(request: HttpRequest) -> list[Right]:
    """Return the current rights of a call's token."""
    token: ApiToken = request.auth  # type: ignore[attr-defined]
    lacking = token_lacks(token, Right)
    return [right for right in Right if right not in lacking]


class PerToken(threading.local, SimpleRateThrottle):
    """Rate limit per token, set by `CONFAB_API_RATE`.

    With Redis all web processes share it.

    Each thread has its own instance, because the library's throttle stores the current request in itself.
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
            log.warning("an API call was not counted for the rate limit: %s", error)
            return True


JSON_TYPE = "application/json"
FORM_TYPE = "multipart/form-data"


class WrongType(Exception):
    """Error of a body with the wrong content type."""


class Bodies(Parser):
    """Parser of bodies whose header names the expected content type."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the content of a JSON body.

        Raises:
            WrongType: the header names another type.
            ValueError: the body is not JSON.
        """
        _demand(request, JSON_TYPE, "curl --json")
        return super().parse_body(request)

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        """Return the values of a query string or form.

        Raises:
            WrongType: the header of a form names another type.
            Refused: `bad_text`.
        """
        if data is not request.GET:
            _demand(request, FORM_TYPE, "curl --form")
            if not are_sanitised([[key, *values] for key, values in data.lists()]):
                raise Refused("bad_text", UNSTORABLE_MESSAGE)
        return super().parse_querydict(data, list_fields, request)


def _demand(request: HttpRequest, expected_type: str, example_command: str) -> None:
    """Check the content type of a body.

    A missing header counts as the right type.
    """
    content_type = request.content_type
    if content_type and content_type != expected_type:
        raise WrongType(
            f"The body is {content_type}; this call expects {expected_type}, as sent by `{example_command}`"
        )


log = logging.getLogger(__name__)

_STATUS = {"no_token": 401, "too_large": 413, "disk_full": 507, "project_disk_full": 507}
"""Status of each refusal code; all others are 400."""


class ErrorOut(Schema):
    """Reason why a call failed."""

    code: str
    message: str
    mistakes: list[Mistake]


class Failed(Schema):
    """Response of a call that failed."""

    error: ErrorOut


FAILURES: dict[int, Any] = dict.fromkeys((400, 401, 403, 404, 422, 429, 500, 503), Failed)
"""Errors that every call can return."""
BODY_FAILURES: dict[int, Any] = {**FAILURES, 413: Failed, 415: Failed}
"""Errors that a call with a body can return."""


def handlers_add(api: NinjaAPI) -> None:
    """Register handlers that give every error of this API the same shape."""

    def answer(
        request: HttpRequest, status: int, code: str, message: str, mistakes: list[dict[str, str]] | None = None
    ) -> HttpResponse:
        body = api_error_body(code, message, mistakes or [])
        response = api.create_response(request, body, status=status)
        if status == 401:
            response["WWW-Authenticate"] = "Bearer"
        return response

    @api.exception_handler(Lacks)
    def lacks(request: HttpRequest, error: Lacks) -> HttpResponse:
        missing_rights = "; ".join(f"{right.value} ({Right(right).label})" for right in error.rights)
        return answer(request, 403, "no_right", f"This call needs a token with an additional right: {missing_rights}")

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, error: Refused) -> HttpResponse:
        return answer(request, _STATUS.get(error.code, 400), error.code, error.message)

    @api.exception_handler(ValuesError)
    def values(request: HttpRequest, error: ValuesError) -> HttpResponse:
        mistakes = [{"path": mistake.path, "message": mistake.message} for mistake in error.mistakes]
        return answer(request, 422, "wrong_values", str(error), mistakes)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        return answer(request, 422, "wrong_values", "; ".join(error.messages))

    @api.exception_handler(UnknownName)
    def unknown(request: HttpRequest, error: UnknownName) -> HttpResponse:
        return answer(request, 400, "unknown_name", str(error))

    @api.exception_handler(ObjectDoesNotExist)
    @api.exception_handler(Http404)
    def missing(request: HttpRequest, error: Exception) -> HttpResponse:
        return answer(request, 404, "not_found", str(error) or "it does not exist")

    @api.exception_handler(AuthenticationError)
    def anonymous(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        words = "This call needs a token in the header `Authorization: Bearer confab_...`"
        return answer(request, 401, "no_token", words)

    @api.exception_handler(Throttled)
    def throttled(request: HttpRequest, error: Throttled) -> HttpResponse:
        return answer(request, 429, "too_many", "Too many calls; retry after the time in the header Retry-After.")

    @api.exception_handler(HttpError)
    def http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
        cause = error.__cause__
        if isinstance(cause, WrongType):
            return wrong_type(request, cause)
        if isinstance(cause, ValueError):  # of the parser
            return answer(request, error.status_code, "bad_json", f"The body is not JSON: {cause}")
        return answer(request, error.status_code, "bad_request", error.message)

    @api.exception_handler(WrongType)
    def wrong_type(request: HttpRequest, error: WrongType) -> HttpResponse:
        return answer(request, 415, "wrong_type", str(error))

    @api.exception_handler(MultiPartParserError)
    def no_form(request: HttpRequest, error: MultiPartParserError) -> HttpResponse:
        return answer(request, 400, "bad_form", f"The body is not a valid form: {error}")

    @api.exception_handler(SuspiciousOperation)
    def unreadable(request: HttpRequest, error: SuspiciousOperation) -> HttpResponse:
        if isinstance(error, RequestDataTooBig):
            return answer(request, 413, "too_large", str(error))
        return answer(request, 400, "bad_request", str(error))

    @api.exception_handler(OperationalError)
    @api.exception_handler(InterfaceError)
    def away(request: HttpRequest, error: Exception) -> HttpResponse:
        log.warning("The database is unavailable or busy: %s", error)
        response = answer(request, 503, "away", "The database is unavailable; try again later.")
        response["Retry-After"] = str(random.randint(*RETRY_AFTER_S))
        return response

    @api.exception_handler(Exception)
    def fault(request: HttpRequest, error: Exception) -> HttpResponse:
        log.exception("An API call failed: %s %s", request.method, route_of(request))
        return answer(request, 500, "fault", "Confab failed to process the call; see its log for the reason.")


class Api(NinjaAPI):
    """Ninja API whose validation errors use Confab's own wording."""

    def validation_error_from_error_contexts(self, error_contexts: list[ValidationErrorContext[Any]]) -> Any:
        """Return one error with the mistakes of all of a call's models."""
        mistakes: list[Mistake] = []
        for context in error_contexts:
            model = type(context.model) if not isinstance(context.model, type) else context.model
            for mistake in mistakes_of(context.pydantic_validation_error, model, subject="the call"):
                mistakes.append(_without_parameter(mistake, model))
        return ValuesError(mistakes)


def _without_parameter(mistake: Mistake, model: Any) -> Mistake:
    """Return the mistake without the body's parameter name.

    Callers do not know that name.
    """
    name, dot, rest = mistake.path.partition(".")
    field = model.model_fields.get(name)
    if not dot or field is None or not hasattr(field.annotation, "model_fields"):
        return mistake
    return Mistake(rest, mistake.message.replace(f"{name}.", "", 1))


GetResponse = Callable[[HttpRequest], HttpResponse]


class JsonErrorMiddleware:
    """Middleware that turns error pages of API calls into JSON.

    Headers are kept.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code < 400 or not is_api_path(request.path_info):
            return response
        if not response.get("Content-Type", "").startswith("application/json"):
            # Change the response in place: Django has marked it as logged or not.
            response.content = json.dumps(api_error_body(*_describe_error(request, response)))
            response["Content-Type"] = "application/json; charset=utf-8"
            response["Content-Length"] = str(len(response.content))
        return response


def _describe_error(request: HttpRequest, response: HttpResponse) -> tuple[str, str]:
    """Return the code and message of an error response made by Django."""
    status = response.status_code
    if status == 404:
        return "not_found", _describe_missing_route(request)
    if status == 405:
        takes = response.get("Allow", "")
        return "wrong_method", f"{request.path} accepts {takes}, not {request.method}"
    if status == 503:
        return "away", "The server cannot respond now; retry after the time in the header Retry-After"
    if status >= 500:
        return "fault", "Confab failed to process the call; see its log for the reason."
    return "bad_request", f"{response.reason_phrase}: the call was rejected before it was read"


def _describe_missing_route(request: HttpRequest) -> str:
    """Return the message for a missing route.

    It has a hint if only a slash is too many.
    """
    shorter = request.path_info.rstrip("/")
    try:
        match = resolve(shorter)
    except Resolver404:
        match = None
    if match is not None and shorter != request.path_info and match.url_name != "api-root":
        return f"Remove the slash at the end: {request.path.rstrip('/')}"
    return f"There is no route {request.path}; see {reverse('api:openapi-json')} for all routes"
