"""Refusals by the rules, and error bodies of the API.

Entry points turn `Refused` into an error frame, a message next to a field or one clear line. Every failed call of the
API has one shape: `{"error": {"code", "message", "mistakes"}}`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        self.code = str(code)
        self.message = str(message)
        self.details = details


API_ROOT = "/api"
"""Where the addresses of calls begin; nobody looks at them with a browser."""


def is_api_path(path: str) -> bool:
    """Return True if a path, without the prefix of all, is that of an API call rather than of a page."""
    return path == API_ROOT or path.startswith(f"{API_ROOT}/")


def api_error_body(code: str, message: str, mistakes: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """Return the answer of a call that failed.

    Args:
        code: short and stable.
        message: what is wrong and what would be right.
        mistakes: of values that were sent: `path` and `message` of each.
    """
    return {"error": {"code": code, "message": message, "mistakes": list(mistakes)}}
