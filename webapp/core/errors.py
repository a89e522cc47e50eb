"""Errors that entry points turn into an error frame, a message next to a field or one clear line."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A request that the rules do not allow.

    Args:
        code: short and stable, as in the chat's error frames ("too_long", "closed", …).
        message: one sentence for the person who asked.
        details: what helps a program: `limit`, `retry_after_s`, …
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = str(message)
        self.details = details
