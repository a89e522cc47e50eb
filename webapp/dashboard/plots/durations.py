"""Histogram of task durations, with the threshold below which work is flagged as fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from evaluation.plots.scale import Scale
from evaluation.plots.svg import drawing, line, rect, text
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.quality.flags.base import clock

_HEIGHT, _TOP, _FOOT = 150.0, 22.0, 42.0
_WIDE, _NARROW = 760.0, 298.0


def durations_figure(durations: Mapping[str, Any]) -> Figure | None:
    """Draw the durations of a study's finished tasks; None where nobody has finished.

    Args:
        durations: as `webapp.quality.durations` has them.
    """
    if not durations.get("n"):
        return None
    median, threshold = durations["median"], durations["threshold"]
    if threshold is None:
        method = "{n} finished tasks, median {median} minutes; too few to call anybody fast."
    else:
        method = "{n} finished tasks, median {median} minutes; flagged as fast below {threshold}, half of it."
    method = method.format(n=durations["n"], median=clock(median), threshold=clock(threshold or 0))
    return Figure(
        id="durations",
        title="How long tasks took",
        method=method,
        wide=_drawn(durations, _WIDE, name=method, css="plot-wide"),
        narrow=[Variant("", _drawn(durations, _NARROW, name=method))],
        table=_table(durations),
    )


def _drawn(durations: Mapping[str, Any], width: float, *, name: str, css: str = "") -> Markup:
    bars, bar_s = durations["bars"], durations["width"]
    x = Scale(0, bar_s * len(bars), 4, width - 4)
    y = Scale(0, max(bars), _TOP + _HEIGHT, _TOP + 14)
    bottom = _TOP + _HEIGHT
    threshold = durations["threshold"]
    parts: list[object] = []
    for number, n in enumerate(bars):
        left, right = x(number * bar_s), x((number + 1) * bar_s)
        is_fast = threshold is not None and (number + 1) * bar_s <= threshold + bar_s / 2
        css_bar = "duration fast" if is_fast else "duration"
        if n:
            parts.append(rect(left + 1, y(n), right - left - 2, bottom - y(n), class_=css_bar))
    parts.append(line(4, bottom, width - 4, bottom, class_="axis"))
    every = 6 if width > _NARROW else 12
    for number in range(0, len(bars), every):
        anchor = "tick" if number == 0 else "tick middle"
        parts.append(text(x(number * bar_s), bottom + 17, clock(number * bar_s), class_=anchor))
    parts.append(
        text(
            width / 2,
            bottom + 36,
            "minutes; the last bar has all who took longer",
            class_="tick middle",
        )
    )
    if threshold is not None:
        at = x(threshold)
        parts.append(line(at, _TOP - 6, at, bottom, class_="duration-line"))
        parts.append(text(at + 6, _TOP, f"fast below {clock(threshold)}", class_="tick"))
    return drawing(width, bottom + _FOOT, *parts, name=name, interactive=False, class_=css or None)


def _table(durations: Mapping[str, Any]) -> Table:
    bars, width = durations["bars"], durations["width"]
    rows = []
    for number, n in enumerate(bars):
        low, high = clock(number * width), clock((number + 1) * width)
        is_last = number == len(bars) - 1
        span = "{low} or more" if is_last else "{low} to {high}"
        rows.append([Cell(span.format(low=low, high=high)), Cell(f"{n:,}", raw=(n,))])
    return Table([Header("Minutes"), Header("Tasks", numeric=True)], rows)
