"""Line charts over turns: trajectories of groups, and tracks along a conversation.

A track has a cell next to every turn. Rows are as high as their text, which the server does not know. So each cell is a
separate drawing that stretches to its row: line pieces meet at the rows' borders, and dots are round strokes that do
not scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from evaluation.data.result_tables import Cell, PageTable, count_cell, number_cell, page_table
from evaluation.data.tables import Column
from evaluation.number_format import figure, span
from evaluation.plots.marks import mark_link
from evaluation.plots.svg import Scale, drawing, el, group, line, number, padded_range, rect, text, ticks
from evaluation.plots.text_layout import shorten, text_width, tick_label
from evaluation.stats.trajectories import Course
from webapp.insights.charts.figure import NARROW, WIDE, PageFigure, Variant
from webapp.insights.narrative import phrases

GAP = 40.0
FEWEST = 20
"""Minimum conversations for a point; points with fewer are only in the table."""


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Compared group; its position defines its colour and marker.

    `link` returns the address of the conversations behind a point, by exchange from 1.
    """

    title: str
    course: Course
    link: Callable[[int], str] = lambda exchange: ""


@dataclass(frozen=True, slots=True)
class LineAxes:
    """The last turn, and the lowest and the highest value."""

    n_turns: int
    range: tuple[float, float]


@dataclass(frozen=True, slots=True)
class LinePanel:
    """Panel of a measure by turn; `missing` explains an empty panel.

    `axes` are shared with other panels; without them, axes fit its own groups.
    """

    title: str
    groups: list[LineGroup]
    missing: str = ""
    axes: LineAxes | None = None

    @property
    def n_turns(self) -> int:
        """Number of turns drawn."""
        return max((_reach(line_group.course) for line_group in self.groups), default=0)

    @property
    def values(self) -> list[float]:
        """Means and ends of intervals drawn."""
        courses = [line_group.course for line_group in self.groups]
        ends = [line[_drawn_turns(course)] for course in courses for line in (course.mean, course.low, course.high)]
        return [float(value) for line in ends for value in line if np.isfinite(value)]


def with_shared_axes(*figures: Sequence[LinePanel]) -> list[list[LinePanel]]:
    """Return the panels of a page's figures with shared axes.

    They share the axis of turns, and the range of each measure.
    """
    panels = [panel for figure in figures for panel in figure]
    n_turns = max((panel.n_turns for panel in panels), default=0)
    values: dict[str, list[float]] = {}
    for panel in panels:
        values.setdefault(panel.title, []).extend(panel.values)
    axes = {
        title: LineAxes(n_turns, padded_range(panel_values)) for title, panel_values in values.items() if panel_values
    }
    return [[replace(panel, axes=axes.get(panel.title)) for panel in figure] for figure in figures]


def lines_figure(panels: Sequence[LinePanel], *, x_title: str, **texts: Any) -> PageFigure:
    """Draw the panels, two side by side if there is room.

    Turns are counted from 1. A group is drawn for turns that at least `FEWEST` of its conversations reach.
    """
    drawn_panels = [panel for panel in panels if not panel.missing]
    names = list(dict.fromkeys(g.title for panel in drawn_panels for g in panel.groups))
    height = 214.0
    wide_parts: list[object] = [_legend(names, 0, WIDE)]
    half = (WIDE - GAP) / 2
    for i, panel in enumerate(drawn_panels):
        x_left, y_top = (i % 2) * (half + GAP), 26 + (i // 2) * (height + 22)
        wide_parts.append(_panel(panel, names, x_left, y_top, half, height, x_title))
    rows = (len(drawn_panels) + 1) // 2
    description = f"{len(drawn_panels)} measures by turn for {' and '.join(names) or '–'}."
    wide = drawing(
        WIDE,
        26 + rows * (height + 22) if rows else 26,
        *wide_parts,
        name=description,
        interactive=True,
        class_="plot-wide",
    )
    narrow = [
        Variant(
            panel.title,
            drawing(
                NARROW,
                height + 26,
                _legend(names, 0, NARROW),
                _panel(panel, names, 0, 26, NARROW, height, x_title),
                name=f"{panel.title}. {description}",
                interactive=True,
            ),
        )
        for panel in drawn_panels
    ]
    marks = f"Drawn if at least {FEWEST} conversations reach the {x_title}."
    return PageFigure(wide=wide, narrow=narrow, table=_table(panels, x_title), marks=marks, **texts)


def _mark(i: int, x: float, y: float) -> Markup:
    """Draw a point.

    The first group has a disc, the second a square, the third a ring.
    """
    css = f"line-point line-{i + 1}"
    if i == 1:
        return rect(x - 3.4, y - 3.4, 6.8, 6.8, class_=css)
    return el("circle", cx=x, cy=y, r=3.8, class_=css)


def _legend(names: Sequence[str], x_left: float, width: float) -> Markup:
    parts: list[object] = []
    x = x_left + 4
    for i, name in enumerate(names):
        label = shorten(name, width / max(len(names), 1) - 26)
        parts += [_mark(i, x, 9), text(x + 9, 13.5, label, class_="name")]
        x += text_width(label) + 32
    return group(*parts)


def _reach(course: Course) -> int:
    """Return the last turn drawn, from 1; 0 if none is."""
    return int(max(_drawn_turns(course), default=-1)) + 1


def _drawn_turns(course: Course) -> np.ndarray:
    """Return the turns drawn, from 0.

    Their means include at least `FEWEST` conversations.
    """
    return np.flatnonzero((course.n >= FEWEST) & np.isfinite(course.mean))


def _panel(
    panel: LinePanel, names: Sequence[str], x_left: float, y_top: float, width: float, height: float, x_title: str
) -> Markup:
    parts: list[object] = [text(x_left, y_top + 12, shorten(panel.title, width, bold=True), class_="head")]
    if not panel.values:
        reason = f"fewer than {FEWEST} conversations"
        parts.append(text(x_left, y_top + 40, reason, class_="tick"))
        return group(*parts)
    axes = panel.axes or LineAxes(panel.n_turns, padded_range(panel.values))
    n_turns, (low, high) = axes.n_turns, axes.range
    y_ticks = ticks(low, high, 6)
    gutter = max(max(text_width(tick_label(tick), 12) for tick in y_ticks) + 8, 30)
    bottom = y_top + height - 26 - 14 * len(names)
    x = Scale(1, max(n_turns, 2), x_left + gutter + 8, x_left + width - text_width(x_title, 12) - 12)
    y = Scale(low, high, bottom, y_top + 24)
    for tick in y_ticks:
        parts += [
            line(x_left + gutter, y(tick), x_left + width, y(tick), class_="grid"),
            text(x_left + gutter - 6, y(tick) + 4, tick_label(tick), class_="tick end"),
        ]
    turn_ticks = [t for t in ticks(1, max(n_turns, 2), 8 if width > 400 else 6) if float(t).is_integer()]
    for tick in dict.fromkeys([1.0, *turn_ticks]):
        parts.append(text(x(tick), bottom + 17, tick_label(tick), class_="tick middle"))
        for i, line_group in enumerate(panel.groups):
            turn = int(tick) - 1
            n = int(line_group.course.n[turn]) if turn < len(line_group.course.n) else 0
            row = bottom + 32 + 14 * names.index(line_group.title)
            parts.append(text(x(tick), row, str(n), class_="tick middle small"))
            if tick == 1.0:
                parts.append(_mark(i, x_left + 6, row - 4))
    parts.append(text(x_left + width, bottom + 17, x_title, class_="tick end"))
    for line_group in panel.groups:
        parts.append(_line(line_group, names.index(line_group.title), panel.title, x, y, x_title))
    return group(*parts)


def _line(line_group: LineGroup, i: int, title: str, x: Scale, y: Scale, x_title: str) -> Markup:
    course = line_group.course
    turns = _drawn_turns(course).tolist()
    band = [t for t in turns if np.isfinite(course.low[t])]
    parts: list[object] = []
    if len(band) > 1:
        upper_edge = [f"{number(x(t + 1))},{number(y(course.high[t]))}" for t in band]
        lower_edge = [f"{number(x(t + 1))},{number(y(course.low[t]))}" for t in reversed(band)]
        parts.append(el("polygon", points=" ".join(upper_edge + lower_edge), class_=f"line-band line-{i + 1}"))
    path = " ".join(f"{number(x(t + 1))},{number(y(course.mean[t]))}" for t in turns)
    parts.append(el("polyline", points=path, class_=f"line-path line-{i + 1}"))
    for t in turns:
        says = (
            f"{line_group.title}\n{title}, {x_title} {t + 1}\n{figure(course.mean[t])} "
            f"{span(course.low[t], course.high[t])}\n" + phrases.conversations_text(int(course.n[t]))
        )
        cx, cy = x(t + 1), y(course.mean[t])
        parts.append(
            mark_link(line_group.link(t + 1), says, rect(cx - 8, cy - 8, 16, 16, class_="hit"), _mark(i, cx, cy))
        )
    return group(*parts)


def _table(panels: Sequence[LinePanel], x_title: str) -> PageTable:
    def point(row: tuple[LinePanel, LineGroup | None, int]) -> list[Cell]:
        panel, line_group, t = row
        if line_group is None:
            return [Cell("–", reason=panel.missing)] * 5
        course, n = line_group.course, int(line_group.course.n[t])
        ends = (float(course.low[t]), float(course.high[t]))
        reason = "a single conversation has no spread" if n < 2 else "all conversations have the same value"
        interval = Cell(span(*ends), reason="" if math.isfinite(ends[0]) else reason, raw=ends)
        numbers = [count_cell(t + 1), number_cell(float(course.mean[t])), interval]
        return [Cell(line_group.title), *numbers, Cell(str(n), href=line_group.link(t + 1), raw=(n,))]

    rows: list[tuple[LinePanel, LineGroup | None, int]] = []
    for panel in panels:
        rows += [(panel, None, 0)] if panel.missing else []
        rows += [
            (panel, line_group, int(t)) for line_group in panel.groups for t in np.flatnonzero(line_group.course.n)
        ]
    titles = ("Group", x_title.capitalize(), "Mean", "90 %", "n")
    return page_table(rows, ("Measure", lambda row: Cell(row[0].title)), (titles, point))


@dataclass(frozen=True, slots=True)
class TrackCell:
    """Cell of a track for one turn.

    It has a drawing, and the printed value or the reason for a missing one.
    """

    svg: Markup | None
    value: str
    reason: str


def printed(value: float | None, unit: str) -> str:
    """Write a metric's value.

    Whole numbers are written as such, others with two decimals.
    """
    if value is None:
        return "–"
    return tick_label(value) if float(value).is_integer() and unit not in ("1", "cosine") else figure(value)


def track(values: Sequence[float | None], speakers: Sequence[str], column: Column, reason: str) -> list[TrackCell]:
    """Return the cells of one track, in the order of turns.

    Args:
        values: per turn, None where undefined.
        speakers: per turn; the bot's marks are filled, the participant's hollow.
        column: gives the range.
        reason: reason for missing values.
    """
    known = [value for value in values if value is not None]
    # A value outside its metric's range extends the track instead of being drawn at a wrong position.
    low = min([*known, 0.0 if column.range[0] is None else column.range[0]])
    high = max([*known, 1.0 if column.range[1] is None else column.range[1]])
    scale = Scale(low, high, 10, 90)
    xs = [None if value is None else scale(value) for value in values]
    zero = scale(0) if low < 0 < high else None
    # A column that never describes one speaker's turns has no gap there, so the line continues.
    silent = {
        speaker
        for speaker in set(speakers)
        if all(x is None for x, s in zip(xs, speakers, strict=True) if s == speaker)
    }
    path = _through(xs, [speaker in silent for speaker in speakers])
    cells = []
    for i, x in enumerate(xs):
        before = _border(path[i - 1], path[i]) if i else None
        after = _border(path[i], path[i + 1]) if i + 1 < len(path) else None
        svg = _cell(x, path[i], before, after, zero, speakers[i] == "bot") if known else None
        if x is not None:
            cells.append(TrackCell(svg, printed(values[i], column.unit), ""))
        else:
            cells.append(TrackCell(svg, "" if path[i] is not None else "none", reason))
    return cells


def _through(xs: Sequence[float | None], silent: Sequence[bool]) -> list[float | None]:
    """Return the points; a missing value between two known ones is interpolated."""
    path = list(xs)
    for i in range(1, len(xs) - 1):
        if xs[i] is None and silent[i]:
            path[i] = _border(xs[i - 1], xs[i + 1])
    return path


def _border(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else (a + b) / 2


def _cell(
    x: float | None, middle: float | None, before: float | None, after: float | None, zero: float | None, filled: bool
) -> Markup:
    steady = {"vector_effect": "non-scaling-stroke"}
    parts: list[object] = []
    if zero is not None:
        parts.append(el("path", d=f"M{number(zero)} 0V100", class_="track-zero", **steady))
    if middle is not None:
        for border, y in ((before, 0), (after, 100)):
            if border is not None:
                d = f"M{number(border)} {y}L{number(middle)} 50"
                parts.append(el("path", d=d, class_="track-line", **steady))
    if x is not None:
        dot = f"M{number(x)} 50h0.01"
        parts.append(el("path", d=dot, class_="track-halo", **steady))
        parts.append(el("path", d=dot, class_="track-dot" if filled else "track-ring", **steady))
        if not filled:
            parts.append(el("path", d=dot, class_="track-hole", **steady))
    return el("svg", *parts, viewBox="0 0 100 100", preserveAspectRatio="none", class_="track", aria_hidden="true")
