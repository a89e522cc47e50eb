"""Rows of named values on scales: leaderboards, facets, weights, and differences.

A cell positions its marks relative to its own width. The same cell therefore works in rows of a page, whose width
varies, and in a picture of fixed size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.plots.marks import bot_shape, mark_link
from evaluation.plots.svg import (
    SMALLEST_RANGE,
    drawing,
    el,
    group,
    padded_range,
    rating_ticks,
    rect,
    text,
    tick_step,
    ticks,
)
from evaluation.plots.text_layout import NAME_PX, shorten, text_width, tick_label, wrap

ROW = 30.0
HEAD = 34.0
AXIS = 26.0
STRIP = 34.0
"""Height in pixels of the strip of the whole scale, below the axis."""
EDGE = 10.0
GAP = 14.0
"""Gap between columns in pixels."""
FACET_GAP = 26.0
"""Gap in pixels between two drawn columns, which leaves room for the labels at the ends of their axes."""
LANE = 13.0
"""Gap in pixels between two bars that join rows."""

Lane = list[tuple[int, int, frozenset[int]]]
"""Bars in one lane, each with its first, last and all rows."""


@dataclass(frozen=True, slots=True)
class ScaleWindow:
    """Visible part of a scale.

    Attributes:
        low, high: ends of the window.
        ticks: ticks of the axis within it.
        scale: ends of the whole scale.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    scale: tuple[float, float]

    @property
    def is_whole(self) -> bool:
        """True if the window shows the whole scale."""
        return self.low <= self.scale[0] and self.high >= self.scale[1]

    def share(self, value: float) -> float:
        """Return the position of a value as a share of the width.

        Clipped to the ends.
        """
        return _share(min(max(value, self.low), self.high), self.low, self.high)

    def cuts_low(self, value: float | None) -> bool:
        """Return True if a value lies below the window."""
        return value is not None and value < self.low - (self.high - self.low) * 1e-9

    def cuts_high(self, value: float | None) -> bool:
        """Return True if a value lies above the window."""
        return value is not None and value > self.high + (self.high - self.low) * 1e-9

    def get_percent(self, value: float) -> str:
        """Return the position of a value in percent."""
        return _percent(self.share(value))


def full_window(low: float, high: float, at_most: int = 7) -> ScaleWindow:
    """Return the window of a whole rating scale."""
    return ScaleWindow(low, high, tuple(rating_ticks(low, high, at_most)), (low, high))


def window_around(values: Sequence[float], low: float, high: float, at_most: int = 7) -> ScaleWindow:
    """Return the smallest window around values, ending at ticks or scale ends.

    Without values it is the whole scale. Values outside the scale extend it.
    """
    values = [value for value in values if math.isfinite(value)]
    if not values:
        return full_window(low, high, at_most)
    least, greatest = min(values), max(values)
    room = max((greatest - least) * 0.05, (high - low) * 0.01)
    if room <= 0:
        least, greatest = padded_range([least, greatest])
    lowest, highest = min(low, least), max(high, greatest)
    start, end = max(least - room, lowest), min(greatest + room, highest)
    for _twice in range(2):  # ending at ticks can widen the window enough to increase the tick step
        step = tick_step(start, end, at_most)
        start = max(min(math.floor(start / step + 1e-9) * step, least), lowest)
        end = min(max(math.ceil(end / step - 1e-9) * step, greatest), highest)
    return ScaleWindow(start, end, tuple(ticks(start, end, at_most)), (low, high))


Span = tuple[float | None, float | None, float | None]
"""A mean and the ends of its interval."""


def rating_window(
    spans: Iterable[Span], low: float, high: float, at_most: int = 7, *, is_whole: bool = False, is_open: bool = False
) -> ScaleWindow:
    """Return the window of means on a rating scale.

    Intervals, but never means, are clipped at the scale's ends, where `interval_cell` draws an arrow.

    Args:
        is_whole: True to show the whole scale.
        is_open: True if the scale's ends are unknown; then intervals are not clipped.
    """
    spans = list(spans)
    values = [mean for mean, _low, _high in spans if mean is not None]
    ends = [end for _mean, *span in spans for end in span if end is not None]
    values += ends if is_open else [min(max(end, low), high) for end in ends]
    if is_whole and all(low <= value <= high for value in values):
        return full_window(low, high, at_most)
    return window_around([*values, low, high] if is_whole else values, low, high, at_most)


def unbounded_window(values: Sequence[float], at_most: int = 5) -> ScaleWindow:
    """Return the window of values without a scale."""
    low, high = padded_range([value for value in values if math.isfinite(value)] or [0.0, 1.0])
    return ScaleWindow(low, high, tuple(ticks(low, high, at_most)), (low, high))


def centred_window(values: Sequence[float]) -> ScaleWindow:
    """Return a window of differences, centred on 0."""
    greatest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    reach = greatest * 1.05 if greatest > SMALLEST_RANGE else 1.0
    return ScaleWindow(-reach, reach, tuple(ticks(-reach, reach, 5)), (-reach, reach))


def interval_cell(
    window: ScaleWindow,
    mean: float | None,
    low: float | None,
    high: float | None,
    *,
    hollow: bool = False,
    shade: tuple[float, float] | None = None,
) -> Markup:
    """Draw a mean with its interval over the grid.

    The bar is 6 px high and the tick 3 × 15 px.

    If the interval extends beyond the window, the bar ends in an arrow.

    Args:
        shade: range of values to shade in the background.
    """
    kind = " hollow" if hollow else ""
    parts: list[object] = [_grid(window)]
    if shade is not None:
        start, end = map(window.share, shade)
        parts.insert(0, el("rect", x=_percent(start), width=_percent(end - start), height="100%", class_="rated-span"))
    if low is not None and high is not None:
        start, end = window.share(low), window.share(high)
        bar = {"y": "50%", "height": 6, "rx": 3, "transform": "translate(0,-3)", "class_": f"interval{kind}"}
        parts.append(el("rect", x=_percent(start), width=_percent(end - start), **bar))
        parts += [
            el("svg", el("path", d=f"M0,-6 L{8 * way},0 L0,6 z"), x=x, y="50%", overflow="visible",
               class_=f"interval-arrow{kind}")
            for is_cut, x, way in ((window.cuts_low(low), "0%", -1), (window.cuts_high(high), "100%", 1))
            if is_cut
        ]  # fmt: skip
    if mean is not None:
        tick = {"y": "50%", "width": 3, "height": 15, "rx": 1.5, "transform": "translate(-1.5,-7.5)"}
        parts.append(el("rect", x=window.get_percent(mean), **tick, class_=f"mean-tick{kind}"))
    return cell(*parts)


def axis_cell(window: ScaleWindow) -> Markup:
    """Draw tick labels and, for a partial window, the whole scale's strip."""
    labels = [
        el("text", tick_label(tick), x=window.get_percent(tick), y=16, class_="tick middle") for tick in window.ticks
    ]
    if window.is_whole:
        return cell(*labels)
    low, high = window.scale
    start, end = (min(max(_share(value, low, high), 0.0), 1.0) for value in (window.low, window.high))
    return cell(
        *labels,
        el("rect", x="0%", y=28, width="100%", height=6, rx=3, class_="strip"),
        el("rect", x=_percent(start), y=28, width=_percent(end - start), height=6, rx=3, class_="strip-shown"),
        el("text", tick_label(low), x="0%", y=48, class_="tick"),
        el("text", "whole scale", x="50%", y=48, class_="tick", text_anchor="middle"),
        el("text", tick_label(high), x="100%", y=48, class_="tick end"),
    )


def lanes_of(groups: Sequence[Sequence[str]], order: Sequence[str]) -> list[Lane]:
    """Arrange bars that join groups in as few parallel lanes as possible."""
    position = {bot: i for i, bot in enumerate(order)}
    lanes: list[Lane] = []
    for rows in sorted(sorted(position[bot] for bot in alike) for alike in groups):
        bar = rows[0], rows[-1], frozenset(rows)
        free = next((lane for lane in lanes if lane[-1][1] < bar[0]), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def bars_cell(lanes: Sequence[Lane], row: int) -> Markup:
    """Draw a row's part of the bars, thin for other groups."""
    parts = []
    for n, lane in enumerate(lanes):
        x = _percent((n + 0.5) / len(lanes))
        for first, last, rows in lane:
            if first <= row <= last:
                ends = {"y1": "22%" if row == first else "0%", "y2": "78%" if row == last else "100%"}
                parts.append(el("line", x1=x, x2=x, **ends, class_="joins" if row in rows else "joins joins-past"))
    return cell(*parts, width=bars_width(lanes))


def bars_width(lanes: Sequence[Lane]) -> float:
    """Return the width of the lanes in pixels."""
    return max(len(lanes), 1) * LANE


def cell(*parts: object, width: float | str = "100%") -> Markup:
    """Make a cell's drawing, hidden from screen readers.

    The row has the same content as text.
    """
    return el("svg", *parts, class_="cell-svg", width=width, height="100%", overflow="visible", aria_hidden="true")


def marked_cell(href: str, says: str, content: Markup) -> Markup:
    """Make a cell with a tooltip and an optional link to `href`."""
    return mark_link(href or None, says, el("rect", width="100%", height="100%", class_="hit"), content)


def _grid(window: ScaleWindow) -> Markup:
    return group(
        *(
            el("line", x1=x, x2=x, y1="0%", y2="100%", class_="axis" if tick == 0 and window.low < 0 else "grid")
            for tick, x in ((tick, window.get_percent(tick)) for tick in window.ticks)
        )
    )


@dataclass(frozen=True, slots=True)
class RowName:
    """Name of a row with its bot's mark; slot 0 means none."""

    title: str
    slot: int = 0
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a picture of rows.

    Attributes:
        cells: a name, text or drawing per row.
        axis: drawing below the column and its height in pixels; also means that texts in this column replace drawings.
        align: "end" for numbers.
        width: in pixels, for drawings of fixed width.
        bold: rows with bold text.
    """

    title: str
    cells: Sequence[RowName | Markup | str]
    axis: Markup | None = None
    below: float = AXIS
    align: str = ""
    width: float = 0.0
    bold: frozenset[int] = frozenset()

    @property
    def is_drawn(self) -> bool:
        """True if the column shares the remaining width."""
        return self.axis is not None

    def room(self, width: float) -> float:
        """Return the required width in pixels.

        Names of up to 24 letters are truncated only in narrow drawings.
        """
        if self.width or self.is_drawn:
            return max(self.width, text_width(self.title, 12, bold=True)) if self.width else 0.0
        texts = [text_width(self.title, 12, bold=True)]
        for cell in self.cells:
            if isinstance(cell, RowName):
                limit = min(NAME_PX, width * (0.33 if cell.slot and width <= 400 else 0.5))
                texts.append(min(text_width(cell.title), limit) + (24 if cell.slot else 0))
            else:
                texts.append(text_width(cell, bold=bool(self.bold)))
        return max(texts)


def drawn_column(title: str, cells: Sequence[RowName | Markup | str], window: ScaleWindow) -> Column:
    """Return a column of drawings with the axis of their window."""
    return Column(title, cells, axis_cell(window), AXIS + (0 if window.is_whole else STRIP))


@dataclass(frozen=True, slots=True)
class ValueRow:
    """Named value with its interval.

    `says` is the hover text, `written` the text at the end of the row.
    """

    name: RowName
    mean: float | None
    low: float | None
    high: float | None
    says: str
    written: str
    href: str = ""
    hollow: bool = False


def values_drawing(
    rows: Sequence[ValueRow],
    width: float,
    *,
    name: str,
    other_values: Sequence[float] = (),
    shade: tuple[float, float] | None = None,
    foot: str = "",
    css: str = "",
) -> Markup:
    """Draw a row for each value, on a scale fitted to them.

    Args:
        width: in pixels.
        name: accessible name.
        other_values: further values that the scale must contain.
        shade: range of values to shade behind all rows.
        foot: title of the axis with its unit.
        css: class of the drawing.
    """
    ends = [end for row in rows for end in (row.mean, row.low, row.high) if end is not None]
    window = unbounded_window([*ends, *other_values, *(shade or ())], 6 if width > 400 else 3)
    cells = [
        marked_cell(
            row.href, row.says, interval_cell(window, row.mean, row.low, row.high, hollow=row.hollow, shade=shade)
        )
        for row in rows
    ]
    columns = [
        Column("", [row.name for row in rows]),
        drawn_column("", cells, window),
        Column("", [row.written for row in rows], align="end"),
    ]
    return rows_drawing([columns], width, name=name, heads=False, css=css, foot=foot)


def rows_drawing(
    blocks: Sequence[Sequence[Column]],
    width: float,
    *,
    name: str,
    heads: bool = True,
    css: str = "",
    title: str = "",
    description: str = "",
    foot: str = "",
) -> Markup:
    """Draw blocks of rows below their column titles.

    Drawn columns have the same width in all blocks.

    Args:
        width: in pixels.
        name: accessible name.
        heads: True to draw column titles.
        css: class of the drawing.
        title, description: texts of a stand-alone picture.
        foot: text below, wrapped to lines.
    """
    unit = min((_unit(block, width) for block in blocks), default=width)
    parts: list[object] = []
    top = 0.0
    for block in blocks:
        block_parts, bottom = _block(block, width, unit, top, heads=heads)
        parts += block_parts
        top = bottom + 8
    height = max(top - 8, 1.0)
    if foot:
        lines = wrap(foot, width - 2 * EDGE, 12)
        parts += [text(EDGE, height + 16 + 17 * i, words, class_="axis-title") for i, words in enumerate(lines)]
        height += 17 * len(lines) + 8
    if title:
        parts = [el("title", title), el("desc", " ".join(description.split())), *parts]
    return drawing(width, height, *parts, name=name, interactive=not title, class_=css or None)


def _unit(block: Sequence[Column], width: float) -> float:
    """Return the width of a drawn column."""
    n_drawn = sum(column.is_drawn for column in block)
    used_width = sum(column.room(width) for column in block) + 2 * EDGE
    return (width - used_width - sum(map(_gap, block[1:]))) / max(n_drawn, 1)


def _gap(column: Column) -> float:
    return FACET_GAP if column.is_drawn else GAP


def _block(
    block: Sequence[Column], width: float, unit: float, top: float, *, heads: bool
) -> tuple[list[object], float]:
    first = top + (HEAD if heads else 4.0)
    n_rows = max((len(column.cells) for column in block), default=0)
    bottom = first + ROW * n_rows
    parts: list[object] = [
        rect(0, first + i * ROW, width, ROW, rx=6, class_="zebra") for i in range(n_rows) if i % 2 == 0
    ]
    below = 8.0
    x = EDGE
    for i, column in enumerate(block):
        x += _gap(column) if i else 0.0
        room = unit if column.is_drawn else column.room(width)
        anchor = x + room if column.align else x
        if heads and column.title:
            head = shorten(column.title, room + 8, 12, bold=True)
            parts.append(text(anchor, top + 22, head, class_=f"head {column.align}".strip()))
        for row, content in enumerate(column.cells):
            y = first + row * ROW
            if isinstance(content, RowName):
                parts += _name(content, x, y, room)
            elif isinstance(content, Markup):
                parts.append(_placed(content, x, y, room, ROW))
            elif content:
                css = "tick" if column.is_drawn else f"value-light {column.align}{' strong' * (row in column.bold)}"
                parts.append(text(anchor, y + ROW / 2 + 4.5, content, class_=css.strip()))
        if column.axis is not None:
            below = max(below, column.below)
            parts.append(_placed(column.axis, x, bottom, room, below))
        x += room
    return parts, bottom + below


def _name(name: RowName, x: float, y: float, room: float) -> list[object]:
    inset = 24.0 if name.slot else 0.0
    mark = [bot_shape(x + 8, y + ROW / 2, name.slot, hollow=name.hollow)] if name.slot else []
    return [*mark, text(x + inset, y + ROW / 2 + 4.5, shorten(name.title, room - inset + 1), class_="name")]


def _placed(content: Markup, x: float, y: float, width: float, height: float) -> Markup:
    return el("svg", content, x=x, y=y, width=width, height=height, overflow="visible")


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
