"""What every page's skeleton needs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    """The theme of the `theme` cookie: light, dark or the system's."""
    theme = request.COOKIES.get("theme", "")
    return {"theme": theme if theme in ("light", "dark") else ""}
