"""Context of every dashboard page's frame: the navigation and its open part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from webapp.core.rights import Right, may

_NEXT_THEME = {"": "light", "light": "dark", "dark": "system"}


@dataclass(frozen=True, slots=True)
class NavItem:
    """One entry of the navigation."""

    key: str
    title: str
    icon: str
    href: str


def navigation(user: Any) -> list[NavItem]:
    """Return the entries of the sidebar, top to bottom, without pages that this user may not open."""
    items = [
        NavItem("studies", "Studies", "list", reverse("dashboard:studies")),
        NavItem("bots", "Bots", "bot", reverse("dashboard:bots")),
        NavItem("runs", "Self-play", "repeat", reverse("dashboard:runs")),
        NavItem("imports", "Imports", "download", reverse("dashboard:imports")),
        NavItem("metrics", "Metrics", "book", reverse("dashboard:metrics")),
        NavItem("benchmark", "Benchmark", "chart", reverse("dashboard:benchmark")),
        NavItem("system", "System", "sliders", reverse("dashboard:system")),
        NavItem("admin", "Admin", "people", reverse("admin:index")),
    ]
    return [item for item in items if item.key != "imports" or may(user, Right.RUN)]


def page(
    request: HttpRequest, template: str, section: str, status: int = 200, **context: Any
) -> HttpResponse:
    """Render a dashboard page with its navigation."""
    theme = request.COOKIES.get("theme", "")
    context = {
        "section": section,
        "navigation": navigation(request.user),
        "theme_next": _NEXT_THEME.get(theme, "light"),
        **context,
    }
    return render(request, f"dashboard/{template}", context, status=status)
