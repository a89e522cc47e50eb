"""Layout of log lines, readable or as JSON, and the ids by which related lines are found.

The code that begins a request, a socket, a reply or a slice of a job binds its id to the context
(`structlog.contextvars`); every line that is written inside carries it, in other threads too. Fields come from a
fixed list, so that no personal data gets into a line when it is passed to a logger.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from django.http import HttpRequest
from structlog.contextvars import merge_contextvars
from structlog.processors import JSONRenderer, LogfmtRenderer, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.typing import EventDict

from chatbots.storable import storable
from webapp.core.redaction import LINE_MAX_CHARS, redact_tokens

Style = Literal["line", "json"]

FIELDS = ("route", "method", "status", "duration_ms")
"""What a line may have beside its message, the ids of its context aside."""


def request_id_new() -> str:
    """Return an id for a request or a socket, short enough to be read out from an error page."""
    return secrets.token_hex(5)


def route_of(request: HttpRequest) -> str:
    """Return the name of the requested page, never its address, which may carry a token."""
    match = request.resolver_match
    return match.view_name if match is not None and match.view_name else "unknown"


class Lines(ProcessorFormatter):
    """Formats records of all loggers.

    Args:
        style: `line` for people, `json` for programs: an object on each line.
    """

    def __init__(self, style: Style) -> None:
        self.is_json = style == "json"
        render = JSONRenderer(serializer=_dumps) if self.is_json else _readable
        super().__init__(
            foreign_pre_chain=[
                add_log_level,
                add_logger_name,
                ExtraAdder(allow=FIELDS),
                merge_contextvars,
            ],
            processors=[
                _at,
                _without_refusals,
                format_exc_info,
                _harmless,
                self.remove_processors_meta,
                render,
            ],
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a readable one ends where it becomes endless, one of JSON stays whole."""
        text = super().format(record)
        return text if self.is_json else storable(text, LINE_MAX_CHARS)


def _dumps(fields: EventDict, **options: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, **options)


def _at(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Say when it was, UTC."""
    moment = datetime.fromtimestamp(fields["_record"].created, UTC)
    return {"at": moment.isoformat(timespec="milliseconds"), **fields}


def _without_refusals(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Drop the traceback where the client is at fault: a right is missing, or a body cannot be read."""
    if getattr(fields["_record"], "status_code", 500) < 500:
        fields.pop("exc_info", None)
    return fields


def _harmless(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Make the texts storable, of bounded length and free of tokens: exceptions may quote anything."""
    for name in ("event", "exception"):
        if name in fields:
            fields[name] = storable(redact_tokens(str(fields[name])), LINE_MAX_CHARS // 2)
    return fields


_pairs: Callable[..., str] = LogfmtRenderer()


def _readable(logger: Any, method: str, fields: EventDict) -> str:
    at = fields.pop("at")[:23].replace("T", " ")
    text = f"{at} {fields.pop('level').upper()} {fields.pop('logger')}: {fields.pop('event')}"
    exception = fields.pop("exception", "")
    if fields:
        text += f" [{_pairs(logger, method, fields)}]"
    return f"{text}\n{exception}" if exception else text
