"""Removal of participant tokens and requested addresses from logs."""

from __future__ import annotations

import logging
import re

LINE_MAX_CHARS = 20_000

_TOKEN = re.compile(r"([?&](?:t|rehearsal)=|/(?:go-on|withdraw|shared)/)[^&/\s\"']+(?=[&/\s\"']|$)")


def redact_tokens(text: str) -> str:
    """Replace every token by three dots: of `t=`, `rehearsal=`, and of links to move, withdraw or read a report by."""
    return _TOKEN.sub(r"\1…", text)


class RedactTokens(logging.Filter):
    """Applies `redact_tokens` to the finished message of every record.

    What Django says of a request names its address, which the name of the page replaces.
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
