"""Small helpers of the live room's template: bars, dots, seconds, shares."""

from __future__ import annotations

from datetime import datetime

from django import template
from markupsafe import Markup

from evaluation.plots.svg import el, rect
from webapp.core.language import plural

register = template.Library()

_HIGH = 84
_MOST_DOTS = 12


@register.simple_tag
def way_bar(n: int, most: int) -> Markup:
    """Draw how many got to a stage: upright on wide pages; phones turn it by their style."""
    height = max(round(n / most * _HIGH, 1), 2) if most else 2
    return el(
        "svg",
        rect(0, _HIGH - height, 96, height, rx=6),
        viewBox=f"0 0 96 {_HIGH}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


@register.simple_tag
def dots(n: int) -> Markup:
    """Draw a dot for each person, a dozen at most."""
    shown = min(n, _MOST_DOTS)
    circles = [el("circle", cx=5 + 10 * i, cy=5, r=4) for i in range(shown)]
    return el(
        "svg",
        *circles,
        viewBox=f"0 0 {10 * shown} 10",
        width=10 * shown,
        height=10,
        class_="way-dots",
        aria_hidden="true",
    )


@register.filter
def seconds(value: float | None) -> str:
    """Write a latency, as `0.9 s`."""
    if value is None:
        return "–"
    return "{n} s".format(n=f"{value:.1f}" if value < 10 else round(value))


@register.filter
def since(start: datetime, now: datetime) -> str:
    """Write how long somebody waits, as `34 s` or `2 min`."""
    gone = max(0, round((now - start).total_seconds()))
    return f"{gone} s" if gone < 90 else f"{round(gone / 60)} min"


@register.filter
def per_cent(value: float | None) -> str:
    """Write a share from 0 to 1 in per cent, without decimals."""
    return "–" if value is None else str(round(value * 100))


@register.filter
def hours(value: float) -> str:
    """Write a rough time, as `3 h` or `20 min`."""
    if value < 1:
        n = max(5, 5 * round(value * 12))
        return f"{n} min"
    if value < 48:
        return f"{round(value)} h"
    n = round(value / 24)
    return plural(n, "%(n)d day", "%(n)d days") % {"n": n}
