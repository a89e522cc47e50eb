"""Refusals, and error bodies of the API.

Entry points turn `Refused` into an error frame, a message next to a field or one clear line. Every failed API call has
the same form: `{"error": {"code", "message", "mistakes"}}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Refused(Exception):
    """Request that the rules do not allow.

    Args:
        code: short and stable, as in the chat's error frames ("too_long", "closed", …).
        message: one sentence for the user.
        details: values for programs: `limit`, `retry_after_s`, …
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = str(message)
        self.details = details


API_ROOT = "/api"
"""Prefix of API calls, which are not made with a browser."""


def is_api_path(path: str) -> bool:
    """Return True if a path is that of an API call, not of a page.

    The path has no common prefix.
    """
    return path == API_ROOT or path.startswith(f"{API_ROOT}/")


def api_error_body(code: str, message: str, mistakes: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """Return the response body of a failed call.

    Args:
        code: short and stable.
        message: the problem and its solution.
        mistakes: invalid values, each with `path` and `message`.
    """
    return {"error": {"code": code, "message": message, "mistakes": list(mistakes)}}
