"""Keeps participant tokens out of logs, and what a log cannot hold: exceptions may quote any text."""

from __future__ import annotations

import logging
import re

from chatbots.storable import storable

LINE_MAX_CHARS = 20_000

_TOKEN = re.compile(r"([?&](?:t|rehearsal)=|/(?:go-on|withdraw)/)[^&/\s\"']+(?=[&/\s\"']|$)")


def redact_tokens(text: str) -> str:
    """Replace every token by three dots: of `t=`, `rehearsal=`, and of links to move or withdraw by."""
    return _TOKEN.sub(r"\1…", text)


class RedactTokens(logging.Filter):
    """Applies `redact_tokens` to the finished message of every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        redacted = redact_tokens(message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True


class StorableFormatter(logging.Formatter):
    """Formats a record, its traceback included, as text that can be written and is not endless."""

    def format(self, record: logging.LogRecord) -> str:
        return storable(super().format(record), LINE_MAX_CHARS)
