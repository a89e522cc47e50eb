"""Template context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of every page.

    `theme`, of the cookie of that name: light, dark or the system's. `prefix`: the path below which Confab lies.
    `program`: what commands are called by.
    """
    theme = request.COOKIES.get("theme", "")
    return {
        "theme": theme if theme in ("light", "dark") else "",
        "prefix": settings.CONFAB_PATH_PREFIX,
        "program": settings.CONFAB_PROGRAM,
    }
