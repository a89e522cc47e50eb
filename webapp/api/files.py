"""Answers that are files, as OpenAPI describes them."""

from __future__ import annotations

from typing import Any

_BYTES = {"schema": {"type": "string", "format": "binary"}}


def file_described(what: str, *kinds: str) -> dict[str, Any]:
    """Return the OpenAPI description of a call whose response is a file of one of these types."""
    content = dict.fromkeys(kinds or ("application/octet-stream",), _BYTES)
    return {"responses": {200: {"description": what, "content": content}}}
