"""Keeps participant tokens out of logs."""

from __future__ import annotations

import logging
import re

_TOKEN = re.compile(r"([?&](?:t|rehearsal)=)[^&\s\"']+")


def redact_tokens(text: str) -> str:
    """Replace the value of every `t=` and `rehearsal=` query parameter by three dots."""
    return _TOKEN.sub(r"\1…", text)


class RedactTokens(logging.Filter):
    """Applies `redact_tokens` to the finished message of every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        redacted = redact_tokens(message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True
