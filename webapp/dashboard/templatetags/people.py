"""Filters of the page People: seconds, waits, shares, rough times."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils import timezone

from webapp.core.language import plural

register = template.Library()


@register.filter
def seconds(value: float | None) -> str:
    """Write a latency, such as `0.9 s`."""
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 10 else f"{round(value)} s"


@register.filter
def since(start: datetime, now: datetime) -> str:
    """Format a waiting time, such as `34 s` or `2 min`."""
    elapsed = max(0, round((now - start).total_seconds()))
    return f"{elapsed} s" if elapsed < 90 else f"{round(elapsed / 60)} min"


@register.filter
def elapsed(since_s: float) -> str:
    """Format the time since the start of a visit as `h:mm:ss` or `m:ss`."""
    minutes, rest = divmod(int(since_s), 60)
    n_hours, minutes = divmod(minutes, 60)
    return f"{n_hours}:{minutes:02}:{rest:02}" if n_hours else f"{minutes}:{rest:02}"


@register.filter
def per_cent(value: float | None) -> str:
    """Write a share from 0 to 1 in per cent, without decimals."""
    return "–" if value is None else str(round(value * 100))


@register.filter
def clock(time: datetime) -> str:
    """Write a recent time.

    `21:40` for today, otherwise `29 Nov, 21:40`.
    """
    local = timezone.localtime(time)
    return f"{local:%H:%M}" if local.date() == timezone.localdate() else f"{local.day} {local:%b, %H:%M}"


@register.filter
def planned_time(minutes: int) -> str:
    """Write a planned time, as `45 min` or `8 h`."""
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60):,} h"


@register.filter
def hours(value: float) -> str:
    """Write a rough duration, such as `3 h` or `20 min`."""
    if value < 1:
        return f"{max(5, 5 * round(value * 12))} min"
    if value < 48:
        return f"{round(value)} h"
    n = round(value / 24)
    return plural(n, "%(n)d day", "%(n)d days") % {"n": n}
