"""Confab below a path of a host that it shares, such as https://lab.example.org/confab/."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class PathPrefix:
    """ASGI application: the same for requests with the prefix and without, as proxies pass it on or take it off.

    Args:
        application: sees every path with the prefix, and the prefix as its `root_path`.
        prefix: begins with a slash and ends without; empty for none.
    """

    def __init__(self, application: Application, prefix: str) -> None:
        self.application = application
        self.prefix = prefix

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await self.application(self._placed(scope) if self.prefix else scope, receive, send)

    def _placed(self, scope: Scope) -> Scope:
        path: str = scope["path"]
        if path == self.prefix or path.startswith(f"{self.prefix}/"):
            return {**scope, "root_path": self.prefix}
        raw = scope.get("raw_path")
        return {
            **scope,
            "root_path": self.prefix,
            "path": self.prefix + path,
            "raw_path": self.prefix.encode() + raw if raw is not None else None,
        }
