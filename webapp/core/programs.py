"""Error responses of the API: one shape, `{"error": {"code", "message", "mistakes"}}`, wherever a call fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALLS = "/api"
"""Where the addresses of calls begin; nobody looks at them with a browser."""


def is_call(path: str) -> bool:
    """Return True if a path, without the prefix of all, is that of an API call rather than of a page."""
    return path == CALLS or path.startswith(f"{CALLS}/")


def failure(code: str, message: str, mistakes: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """Return the answer of a call that failed.

    Args:
        code: short and stable.
        message: what is wrong and what would be right.
        mistakes: of values that were sent: `path` and `message` of each.
    """
    return {"error": {"code": code, "message": message, "mistakes": list(mistakes)}}
