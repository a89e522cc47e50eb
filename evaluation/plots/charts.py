"""Charts of results: scatter plot, coefficients, and differences between bots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from markupsafe import Markup

from evaluation.findings import Reason
from evaluation.number_format import figure, probability, share, span
from evaluation.plots.marks import bot_shape, cross_mark, mark_link
from evaluation.plots.rows import RowName, ValueRow, values_drawing
from evaluation.plots.svg import Scale, drawing, group, line, padded_range, rect, text, ticks
from evaluation.plots.text_layout import NAME_PX, Box, covers_any, place_labels, shorten, text_width, tick_label, wrap
from evaluation.stats.comparisons import Comparison


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """Point of one bot: human mean and prediction, with their intervals.

    `human` is None for a bot without ratings, which appears only in the table. `says` is the hover text of its mark.
    """

    title: str
    slot: int
    is_control: bool
    human: float | None
    human_span: tuple[float, float] | None
    predicted: float | None
    predicted_span: tuple[float, float] | None
    n: int
    href: str = ""
    says: str = ""

    @property
    def values(self) -> list[float]:
        """Available means and predictions with the ends of their intervals."""
        means = [value for value in (self.human, self.predicted) if value is not None]
        return [*means, *(self.human_span or ()), *(self.predicted_span or ())]


def scatter_drawing(
    points: Sequence[ScatterPoint],
    width: float,
    height: float,
    x_title: str,
    y_title: str,
    *,
    name: str,
    equal: str = "equal",
    other_values: Sequence[float] = (),
    size: float = 13,
    css: str = "",
) -> Markup:
    """Draw each bot with both intervals, and the line of equality.

    Args:
        points: bots with both values.
        width, height, size: size of drawing and font, in pixels.
        name: accessible name.
        equal: label of the line of equality.
        other_values: further values that both axes must contain.
        css: class of the drawing.
    """
    left_margin, right_margin, top_margin, bottom_margin = 46.0, 12.0, 12.0, 50.0
    values = [value for point in points for value in point.values]
    low, high = padded_range([*values, *other_values] or [0.0, 1.0])
    x = Scale(low, high, left_margin, width - right_margin)
    y = Scale(low, high, height - bottom_margin, top_margin)
    parts: list[object] = []
    for tick in ticks(low, high, 6 if width > 400 else 5):
        parts += [
            line(x(tick), top_margin, x(tick), height - bottom_margin, class_="grid"),
            line(left_margin, y(tick), width - right_margin, y(tick), class_="grid"),
            text(x(tick), height - bottom_margin + 19, tick_label(tick), class_="tick middle"),
            text(left_margin - 9, y(tick) + 4, tick_label(tick), class_="tick end"),
        ]
    middle = (top_margin + height - bottom_margin) / 2
    parts += [
        text((left_margin + width - right_margin) / 2, height - 8, x_title, class_="axis-title middle"),
        text(12, middle, y_title, class_="axis-title middle", transform=f"rotate(-90 12 {middle:.0f})"),
        line(x(low), y(low), x(high), y(high), class_="equal"),
    ]
    centres = [(x(p.human or 0), y(p.predicted or 0)) for p in points]
    obstacles, marks = [], []
    for point, (cx, cy) in zip(points, centres, strict=True):
        across = point.human_span and (x(point.human_span[0]), x(point.human_span[1]))
        along = point.predicted_span and (y(point.predicted_span[1]), y(point.predicted_span[0]))
        obstacles.append(Box(cx - 8, cy - 8, cx + 8, cy + 8))
        if across:
            obstacles.append(Box(across[0], cy - 1.5, across[1], cy + 1.5))
        if along:
            obstacles.append(Box(cx - 1.5, along[0], cx + 1.5, along[1]))
        marks.append(
            mark_link(
                point.href or None,
                point.says,
                cross_mark(cx, cy, across or None, along or None, point.slot),
                rect(cx - 14, cy - 14, 28, 28, class_="hit"),
                group(bot_shape(cx, cy, point.slot, r=7, hollow=point.is_control), class_="haloed"),
            )
        )
    equal_at = (x(high) - text_width(equal) - 14, y(high) + 8)
    obstacles.append(Box(equal_at[0], equal_at[1] - 10, equal_at[0] + text_width(equal), equal_at[1] + 4))
    bounds = Box(left_margin, top_margin, width, height - bottom_margin)
    titles = [shorten(point.title, width * 0.4, size, bold=True) for point in points]
    labels = place_labels(titles, centres, obstacles, bounds, size)
    legend: list[object] = []
    if covers_any(labels, obstacles, bounds):
        # A name over a mark would hide a value, so put all names into a legend below the plot.
        labels, titles = [], []
        legend, height = _legend(points, width, height)
    leaders = [
        line(
            cx, cy, min(max(cx, label.box.x0), label.box.x1), min(max(cy, label.box.y0), label.box.y1), class_="leader"
        )
        for label, (cx, cy) in zip(labels, centres, strict=bool(labels))
        if label.leader
    ]
    parts += leaders
    parts += marks
    parts += [
        text(label.x, label.y, title, class_="label" if size > 12 else "label small")
        for label, title in zip(labels, titles, strict=True)
    ]
    parts.append(text(equal_at[0], equal_at[1], equal, class_="tick"))
    parts += legend
    return drawing(width, height, *parts, name=name, interactive=True, class_=css or None)


def _legend(points: Sequence[ScatterPoint], width: float, top: float) -> tuple[list[object], float]:
    """Return a legend in columns below a plot, and its height."""
    longest = max(text_width(point.title) for point in points) + 40
    n_columns = max(int(width // longest), 1)
    room = width / n_columns
    parts: list[object] = []
    for i, point in enumerate(points):
        x, y = room * (i % n_columns), top + 20 * (i // n_columns) + 12
        parts.append(bot_shape(x + 12, y, point.slot, hollow=point.is_control))
        parts.append(text(x + 26, y + 4.5, shorten(point.title, room - 30), class_="name"))
    return parts, top + 20 * -(-len(points) // n_columns) + 8


@dataclass(frozen=True, slots=True)
class Weight:
    """Mean coefficient of a feature, with interval if known, and link."""

    title: str
    mean: float
    low: float | None
    high: float | None
    about: str = ""
    href: str = ""

    @property
    def includes_zero(self) -> bool:
        """True if the interval contains 0, or if there is no interval."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


def weights_drawing(weights: Sequence[Weight], width: float, *, name: str, unit: str, css: str = "") -> Markup:
    """Draw a row for each weight, in order.

    Args:
        width: in pixels.
        name: accessible name.
        unit: unit of the axis.
        css: class of the drawing.
    """
    rows = []
    for weight in weights:
        says = f"{weight.title}\n{share(weight.mean)} {span(weight.low, weight.high, shares=True)}"
        says += f"\n{weight.about}" if weight.about else ""
        name_of_row = RowName(weight.title)
        rows.append(
            ValueRow(
                name_of_row,
                weight.mean,
                weight.low,
                weight.high,
                says,
                share(weight.mean),
                hollow=weight.includes_zero,
                href=weight.href,
            )
        )
    return values_drawing(rows, width, name=name, other_values=[0.0], foot=unit, css=css)


Pair = tuple[str, str]
WIDE = 720.0
NUMBER_PX = 13.0
"""Font size of the numbers in the cells; must match the style sheet."""


@dataclass(frozen=True, slots=True)
class RatedBot:
    """Bot in the grid of differences, with its colour index."""

    bot_id: str
    title: str
    slot: int
    is_control: bool = False


@dataclass(frozen=True)
class Differences:
    """Content of the plot.

    Attributes:
        pairs: comparisons by bot ids, in the order of `Comparison`.
        digits: number of decimals.
        holm: name of the corrected p.
        render_reason: function that renders the reason for an undefined number.
        link: function that returns the address of two bots' conversations.
    """

    pairs: Mapping[Pair, Comparison]
    digits: int
    holm: str = "Holm"
    render_reason: Callable[[Reason | str | None], str] = str
    link: Callable[[str, str], str] = lambda a, b: ""

    @cached_property
    def largest(self) -> float:
        """Largest difference, shown in the darkest colour."""
        known = (abs(c.difference) for c in self.pairs.values() if c.difference is not None)
        return max(known, default=1.0)

    def get_pair(self, a: str, b: str) -> tuple[Comparison, int] | None:
        """Return the comparison of two bots, and the sign for a − b."""
        if (a, b) in self.pairs:
            return self.pairs[a, b], 1
        return (self.pairs[b, a], -1) if (b, a) in self.pairs else None

    @property
    def least_cell(self) -> float:
        """Minimum width of a cell for its number, in pixels."""
        return text_width(figure(-self.largest, self.digits), NUMBER_PX) + 6


def difference_ends(comparison: Comparison, sign: int) -> tuple[float | None, float | None]:
    """Return the ends of the interval of sign times the difference."""
    if comparison.low is None or comparison.high is None:
        return None, None
    return (comparison.low, comparison.high) if sign > 0 else (-comparison.high, -comparison.low)


@dataclass(frozen=True, slots=True)
class GridCell:
    """Grid cell with number, colour class, hover text and link."""

    text: str
    shade: str
    says: str
    bold: bool = False
    href: str = ""


def diverging_class(share_of_most: float | None) -> str:
    """Return the class of one of nine colours from −1 to +1."""
    return "div-none" if share_of_most is None else f"div-{5 + round(share_of_most * 4)}"


def grid_drawing(
    rows: Sequence[RowName],
    columns: Sequence[RowName],
    cells: Mapping[tuple[int, int], GridCell],
    width: float,
    *,
    name: str,
    most_cell: float = 62.0,
    least_cell: float = 0.0,
    css: str = "",
) -> Markup:
    """Draw a grid; missing cells are the diagonal.

    Column titles that do not fit are numbered and listed below.

    Args:
        width: in pixels; the drawing is wider if cells need more.
        name: accessible name.
        most_cell, least_cell: maximum and minimum width of a cell; cells under 28 pixels have no numbers.
        css: class of the drawing.
    """
    longest = max((text_width(row.title) for row in rows), default=60.0)
    names = names_width(longest, width) + (24 if any(row.slot for row in rows) else 0)
    wide = max(min((width - names) / max(len(columns), 1), most_cell), least_cell)
    high = min(max(wide, 24.0), 32.0)
    heads, below = _heads(columns, names, wide, width)
    top = max(14.0 * max((len(lines) for lines in heads), default=1) + 10, 28.0 if any(c.slot for c in columns) else 0)
    parts: list[object] = []
    for j, (column, lines) in enumerate(zip(columns, heads, strict=True)):
        x = names + (j + 0.5) * wide
        if column.slot:
            parts.append(bot_shape(x, 13, column.slot, hollow=column.hollow))
        start = top - 12 - 14 * (len(lines) - 1)
        is_marked = column.slot and lines
        parts += [
            text(x + (14 if is_marked else 0), start + 14 * k + (2 if is_marked else 0), head,
                 class_="name" if is_marked else "tick middle small")
            for k, head in enumerate(lines)
        ]  # fmt: skip
    for i, row in enumerate(rows):
        y = top + i * high
        if row.slot:
            parts.append(bot_shape(10, y + high / 2, row.slot, hollow=row.hollow))
        shift = 24 if row.slot else 0
        parts.append(text(shift, y + high / 2 + 4.5, shorten(row.title, names - shift - 6), class_="name"))
        for j in range(len(columns)):
            box = {"x": names + j * wide + 1, "y": y + 1, "width": wide - 2, "height": high - 2, "rx": 5}
            cell = cells.get((i, j))
            if cell is None:
                parts.append(rect(**box, class_="cell-self"))
                continue
            bold = " sure" if cell.bold else ""
            written = text(
                names + (j + 0.5) * wide, y + high / 2 + 4.5, cell.text, class_=f"step-text {cell.shade}{bold}"
            )
            square = rect(**box, class_=f"step {cell.shade}")
            parts.append(mark_link(cell.href or None, cell.says, square, written if wide >= 28 else None))
    bottom = top + len(rows) * high + 6
    for k, note in enumerate(below):
        parts.append(text(2, bottom + 14 + 17 * k, shorten(note, width), class_="tick"))
    width = max(width, names + len(columns) * wide)
    css += " plot-grown" if width > WIDE and css and least_cell else ""
    return drawing(width, bottom + 17 * len(below) + 6, *parts, name=name, interactive=True, class_=css or None)


def _heads(columns: Sequence[RowName], names: float, wide: float, width: float) -> tuple[list[list[str]], list[str]]:
    """Return the title lines above columns and the list below the grid."""
    if any(column.slot for column in columns):  # marks identify the columns
        alone = [shorten(columns[0].title, width - names - wide)] if len(columns) == 1 else []
        return [alone for _column in columns], []
    wrapped = [wrap(column.title, wide - 4, 11) for column in columns]
    if all(text_width(head, 11) <= wide for lines in wrapped for head in lines):
        return wrapped, []
    return [[str(j + 1)] for j in range(len(columns))], [f"{j + 1}  {column.title}" for j, column in enumerate(columns)]


def names_width(longest: float, width: float) -> float:
    """Return the width of the row names in pixels.

    In wide drawings names of up to 24 letters are not truncated.
    """
    return min(longest + 12, max(width * 0.3, NAME_PX + 12) if width >= 500 else width * 0.45)


def differences_drawing(
    rows: Sequence[RatedBot],
    columns: Sequence[RatedBot],
    differences: Differences,
    least_width: float = WIDE,
    *,
    name: str,
    css: str = "",
) -> Markup:
    """Draw a grid of differences, row bot minus column bot.

    With many bots the drawing is wider than `least_width` pixels; the page scales it down or scrolls.

    Args:
        name: accessible name.
        css: class of the drawing.
    """
    cells = {}
    for (i, bot), (j, column_bot) in product(enumerate(rows), enumerate(columns)):
        pair = differences.get_pair(bot.bot_id, column_bot.bot_id) if bot != column_bot else None
        if pair is not None:
            cells[i, j] = _difference_cell(bot, column_bot, *pair, differences)
    return grid_drawing(
        [RowName(bot.title, bot.slot, bot.is_control) for bot in rows],
        [RowName(bot.title, bot.slot, bot.is_control) for bot in columns],
        cells,
        least_width,
        name=name,
        least_cell=differences.least_cell,
        css=css,
    )


def _difference_cell(
    bot: RatedBot, column_bot: RatedBot, comparison: Comparison, sign: int, differences: Differences
) -> GridCell:
    gap = None if comparison.difference is None else sign * comparison.difference
    shade = "div-none"
    if gap is not None and comparison.ordered:
        # Significant differences skip the neutral colour, so that they always differ visibly from no difference.
        shade = diverging_class((1 if gap > 0 else -1) * max(0.25, abs(gap) / differences.largest))
    says = f"{bot.title} − {column_bot.title}\n{figure(gap, differences.digits)} "
    says += (
        f"{span(*difference_ends(comparison, sign), differences.digits)}\n"
        f"{differences.holm} {probability(comparison.p_holm)}"
        if comparison.p is not None
        else differences.render_reason(comparison.reason)
    )
    href = differences.link(bot.bot_id, column_bot.bot_id)
    return GridCell(figure(gap, differences.digits), shade, says, href=href)
