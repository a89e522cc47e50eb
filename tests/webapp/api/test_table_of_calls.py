"""The table of all calls in docs/reference/api.md: what the routes themselves say, line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ninja.constants import NOT_SET

from tests.documents import ROOT
from webapp.api.urls import api
from webapp.core.rights import Right

CALL = re.compile(r"\| `(GET|POST|PUT|PATCH|DELETE) ")


def calls() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the path, the method, the operation and what lets a token through of every call."""
    for _prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    own = operation.auth_param
                    yield path, method, operation, router.auth if own is NOT_SET else own


def row_of(path: str, method: str, operation: Any, token: Any) -> str:
    """Return a call's line; the right to read is the ground of all, and named only where it is alone."""
    rights = [right.value for right in token.rights if right is not Right.READ] or ["read"]
    shown = "/" + path.lstrip("/")
    for name in ("key", "id", "kind", "note", "part", "table"):
        shown = shown.replace(f"{{{name}}}", name.upper())
    told = operation.view_func.__doc__.strip().splitlines()[0]
    return f"| `{method} {shown}` | {', '.join(rights)} | {told} |"


def test_the_table_has_every_call_with_its_right_and_what_it_does() -> None:
    wanted = [row_of(*call) for call in sorted(calls(), key=lambda call: call[:2])]
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if CALL.match(line)]
    assert shown == wanted, "put these lines there:\n" + "\n".join(wanted)
