"""Log lines, log files, and removal of tokens from them.

The code that starts a request, a socket, a reply or a slice of a job binds its id to the context
(`structlog.contextvars`); every line logged meanwhile includes it, also from other threads. Fields come from a fixed
list, so that personal data passed to a logger never reach a line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging import LogRecord
from logging.handlers import RotatingFileHandler
from typing import Any, Literal, cast

from django.http import HttpRequest
from filelock import FileLock
from structlog.contextvars import merge_contextvars
from structlog.processors import JSONRenderer, LogfmtRenderer, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.typing import EventDict

from chatbots.text import sanitise

LINE_MAX_CHARS = 20_000

_TOKEN = re.compile(r"([?&](?:t|rehearsal)=|/(?:go-on|withdraw|shared)/)[^&/\s\"']+(?=[&/\s\"']|$)")


def redact_tokens(text: str) -> str:
    """Replace every token by three dots.

    Tokens are values of `t=` and `rehearsal=`, and parts of links to move, withdraw or read a report.
    """
    return _TOKEN.sub(r"\1…", text)


class RedactTokens(logging.Filter):
    """Filter that applies `redact_tokens` to every finished message.

    Django's messages contain a request's address, which is replaced by the name of the page.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        path, match = getattr(request, "path", None), getattr(request, "resolver_match", None)
        if path is not None and isinstance(record.args, tuple):
            page = getattr(match, "view_name", None) or "unknown"
            record.args = tuple(page if arg == path else arg for arg in record.args)
        message = record.getMessage()
        redacted = redact_tokens(message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True


LogStyle = Literal["line", "json"]

LOG_FIELDS = ("route", "method", "status", "duration_ms")
"""Fields that a line may have besides its message and the ids of its context."""


def request_id_new() -> str:
    """Return an id for a request or a socket.

    It is short enough to be read out from an error page.
    """
    return secrets.token_hex(5)


def route_of(request: HttpRequest) -> str:
    """Return the name of the requested page.

    Never its address, which may contain a token.
    """
    match = request.resolver_match
    return match.view_name if match is not None and match.view_name else "unknown"


class LogLineFormatter(ProcessorFormatter):
    """Formatter for the records of all loggers.

    Args:
        style: `line` for people, `json` for programs (one object per line).
    """

    def __init__(self, style: LogStyle) -> None:
        self.is_json = style == "json"
        render = JSONRenderer(serializer=_dumps) if self.is_json else _readable
        super().__init__(
            foreign_pre_chain=[add_log_level, add_logger_name, ExtraAdder(allow=LOG_FIELDS), merge_contextvars],
            processors=[
                _add_timestamp,
                _without_refusals,
                format_exc_info,
                _harmless,
                self.remove_processors_meta,
                render,
            ],
        )

    def format(self, record: logging.LogRecord) -> str:
        """Return the line.

        A readable line is cut off if it is very long; a line of JSON stays whole.
        """
        text = super().format(record)
        return text if self.is_json else sanitise(text, LINE_MAX_CHARS)


def _dumps(fields: EventDict, **options: Any) -> str:
    return json.dumps(fields, ensure_ascii=False, **options)


def _add_timestamp(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Add the time, in UTC."""
    moment = datetime.fromtimestamp(fields["_record"].created, UTC)
    return {"at": moment.isoformat(timespec="milliseconds"), **fields}


def _without_refusals(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Drop the traceback if the client is at fault.

    A right is missing, or a body is invalid.
    """
    if getattr(fields["_record"], "status_code", 500) < 500:
        fields.pop("exc_info", None)
    return fields


def _harmless(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Sanitise and shorten the texts and remove tokens.

    Exceptions may quote anything.
    """
    for name in ("event", "exception"):
        if name in fields:
            fields[name] = sanitise(redact_tokens(str(fields[name])), LINE_MAX_CHARS // 2)
    return fields


_pairs: Callable[..., str] = LogfmtRenderer()


def _readable(logger: Any, method: str, fields: EventDict) -> str:
    timestamp = fields.pop("at")[:23].replace("T", " ")
    text = f"{timestamp} {fields.pop('level').upper()} {fields.pop('logger')}: {fields.pop('event')}"
    exception = fields.pop("exception", "")
    if fields:
        text += f" [{_pairs(logger, method, fields)}]"
    return f"{text}\n{exception}" if exception else text


class SharedRotatingFile(RotatingFileHandler):
    """Rotating log file shared by web process, workers and bot hosts.

    Only its owner can read it.

    Python's own handler would keep writing to the old file after another process has started a new one.
    """

    def __init__(self, filename: str, maxBytes: int, backupCount: int) -> None:
        super().__init__(filename, maxBytes=maxBytes, backupCount=backupCount, encoding="utf-8", delay=True)
        self._lock_made()

    def _lock_made(self) -> None:
        self._among_processes, self._pid = FileLock(f"{self.baseFilename}.lock"), os.getpid()

    def emit(self, record: LogRecord) -> None:
        if self._pid != os.getpid():  # a worker's child, which must not use its parent's lock
            self._lock_made()
        with self._among_processes:
            if self.stream is not None and not self._has_name(self.stream):
                self.stream.close()
                self.stream = self._open()
            super().emit(record)

    def _has_name(self, stream: TextIOWrapper) -> bool:
        """Return True if the open file still has this name."""
        try:
            return os.path.samestat(os.fstat(stream.fileno()), os.stat(self.baseFilename))
        except FileNotFoundError:
            return False

    def _open(self) -> TextIOWrapper:
        opener = partial(os.open, mode=0o600)
        return cast(TextIOWrapper, open(self.baseFilename, self.mode, encoding="utf-8", opener=opener))
