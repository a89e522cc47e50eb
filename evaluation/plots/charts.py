"""Charts of results: scatter plot, coefficients, and differences between bots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from evaluation.findings import Reason
from evaluation.number_format import figure, probability, share, span
from evaluation.plots.marks import bot_shape, cross_mark, mark_link
from evaluation.plots.svg import Scale, drawing, el, group, line, padded_range, rect, text, ticks
from evaluation.plots.text_layout import NAME_PX, Box, place_labels, shorten, text_width, tick_label
from evaluation.stats.comparisons import Comparison


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """Point of one bot: human mean and prediction, with their intervals.

    `human` is None for a bot without ratings: it is in the table only. `says` is the text that its mark shows
    on hover.
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


def scatter_drawing(
    points: Sequence[ScatterPoint],
    width: float,
    height: float,
    x_title: str,
    y_title: str,
    *,
    name: str,
    equal: str = "equal",
    size: float = 13,
    css: str = "",
) -> Markup:
    """Draw each bot with both intervals, and the line on which prediction and rating are equal.

    Args:
        points: bots with both values.
        width, height, size: of the drawing and of its letters, in pixels.
        name: what it shows, for who cannot see it.
        equal: the word next to the line.
        css: class of the drawing.
    """
    left, right, top, bottom = 46.0, 12.0, 12.0, 50.0
    values = [v for p in points for v in (p.human, p.predicted) if v is not None]
    for point in points:
        values += [*(point.human_span or ()), *(point.predicted_span or ())]
    low, high = padded_range(values or [0.0, 1.0])
    x = Scale(low, high, left, width - right)
    y = Scale(low, high, height - bottom, top)
    parts: list[object] = []
    for tick in ticks(low, high, 6 if width > 400 else 5):
        parts += [
            line(x(tick), top, x(tick), height - bottom, class_="grid"),
            line(left, y(tick), width - right, y(tick), class_="grid"),
            text(x(tick), height - bottom + 19, tick_label(tick), class_="tick middle"),
            text(left - 9, y(tick) + 4, tick_label(tick), class_="tick end"),
        ]
    middle = (top + height - bottom) / 2
    parts += [
        text((left + width - right) / 2, height - 8, x_title, class_="axis-title middle"),
        text(
            12,
            middle,
            y_title,
            class_="axis-title middle",
            transform=f"rotate(-90 12 {middle:.0f})",
        ),
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
    titles = [shorten(point.title, width * 0.4, size, bold=True) for point in points]
    bounds = Box(left, top, width, height - bottom)
    labels = place_labels(titles, centres, obstacles, bounds, size)
    leaders = [
        line(
            cx,
            cy,
            min(max(cx, label.box.x0), label.box.x1),
            min(max(cy, label.box.y0), label.box.y1),
            class_="leader",
        )
        for label, (cx, cy) in zip(labels, centres, strict=True)
        if label.leader
    ]
    parts += leaders
    parts += marks
    parts += [
        text(label.x, label.y, title, class_="label" if size > 12 else "label small")
        for label, title in zip(labels, titles, strict=True)
    ]
    parts.append(text(equal_at[0], equal_at[1], equal, class_="tick"))
    return drawing(width, height, *parts, name=name, interactive=True, class_=css or None)


@dataclass(frozen=True, slots=True)
class Weight:
    """One feature's mean coefficient; without an interval nothing is said about 0."""

    title: str
    mean: float
    low: float | None
    high: float | None
    about: str = ""

    @property
    def includes_zero(self) -> bool:
        """True if the interval contains 0, or if there is no interval."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


def weights_drawing(weights: Sequence[Weight], width: float, *, name: str, css: str = "") -> Markup:
    """Draw a row for each weight, in the order given.

    Args:
        width: in pixels.
        name: what it shows, for who cannot see it.
        css: class of the drawing.
    """
    row = 24.5
    names = min(max((text_width(w.title) for w in weights), default=60) + 12, width * 0.56)
    ends = [v for w in weights for v in (w.mean, w.low, w.high) if v is not None] + [0.0]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = -1.0, 1.0
    x = Scale(low, high, names + 8, width - 52)
    bottom = row * len(weights) + 4
    parts: list[object] = []
    for tick in ticks(low, high, 5 if width > 320 else 4):
        parts.append(line(x(tick), 0, x(tick), bottom, class_="axis" if tick == 0 else "grid"))
        label = tick_label(tick)
        label = label.replace("0.", ".", 1) if label.lstrip("−").startswith("0.") else label
        parts.append(text(x(tick), bottom + 17, label, class_="tick middle"))
    for i, weight in enumerate(weights):
        y = row * i + row / 2
        hollow = " hollow" if weight.includes_zero else ""
        marks = [rect(names + 4, y - 11, width - names - 56, 22, class_="hit")]
        if weight.low is not None and weight.high is not None:
            marks.append(line(x(weight.low), y, x(weight.high), y, class_=f"weight-span{hollow}"))
        marks.append(el("circle", cx=x(weight.mean), cy=y, r=5, class_=f"weight{hollow}"))
        says = f"{weight.title}\n{share(weight.mean)} {span(weight.low, weight.high, shares=True)}"
        if weight.about:
            says += f"\n{weight.about}"
        parts += [
            text(0, y + 4.5, shorten(weight.title, names - 4), class_="name"),
            mark_link(None, says, *marks),
            text(width - 2, y + 4.5, share(weight.mean), class_="value-light end"),
        ]
    return drawing(width, bottom + 24, *parts, name=name, interactive=True, class_=css or None)


Pair = tuple[str, str]
WIDE = 720.0
NUMBER_PX = 13.0
"""Font size of the numbers in the cells, as the style sheet has it."""


@dataclass(frozen=True, slots=True)
class RatedBot:
    """A bot in the square, with the slot that fixes its mark."""

    bot_id: str
    title: str
    slot: int
    is_control: bool = False


@dataclass(frozen=True)
class Differences:
    """Content of the plot.

    Attributes:
        pairs: by the bots' ids, in the order of `Comparison`.
        digits: after the point.
        holm: name of the corrected p.
        why: function that puts the reason of an undefined number into words.
    """

    pairs: Mapping[Pair, Comparison]
    digits: int
    holm: str = "Holm"
    why: Callable[[Reason | str | None], str] = str

    @cached_property
    def most(self) -> float:
        """The largest difference, which has the darkest colour."""
        known = (abs(c.difference) for c in self.pairs.values() if c.difference is not None)
        return max(known, default=1.0)

    def of(self, a: str, b: str) -> tuple[Comparison, int] | None:
        """Return the comparison of two bots, and the sign that makes it a − b."""
        if (a, b) in self.pairs:
            return self.pairs[a, b], 1
        return (self.pairs[b, a], -1) if (b, a) in self.pairs else None

    @property
    def least_cell(self) -> float:
        """The width in pixels that a cell needs for its number."""
        return text_width(figure(-self.most, self.digits), NUMBER_PX) + 6


def difference_ends(found: Comparison, sign: int) -> tuple[float | None, float | None]:
    """Return the ends of the interval of sign times the difference."""
    if found.low is None or found.high is None:
        return None, None
    return (found.low, found.high) if sign > 0 else (-found.high, -found.low)


def names_width(bots: Sequence[RatedBot], width: float) -> float:
    """Return the pixels for the names before the rows; wide drawings cut no name below 24 letters."""
    longest = max((text_width(bot.title) for bot in bots), default=60)
    return min(longest + 36, max(width * 0.3, NAME_PX + 36) if width >= WIDE else width * 0.5)


def differences_drawing(
    rows: Sequence[RatedBot],
    columns: Sequence[RatedBot],
    differences: Differences,
    least_width: float = WIDE,
    *,
    name: str,
    css: str = "",
) -> Markup:
    """Draw the differences of the rows' bots less the columns' bots, each with its number.

    The drawing grows beyond `least_width`, in pixels, where many bots need it; the page scales it down or scrolls.

    Args:
        name: what it shows, for who cannot see it.
        css: class of the drawing.
    """
    names = names_width([*rows, *columns], least_width)
    cell = max(min((least_width - names) / max(len(columns), 1), 62), differences.least_cell)
    high = min(max(cell, 24.0), 34.0)
    top = 28.0
    parts: list[object] = [
        bot_shape(names + (j + 0.5) * cell, 13, other.slot, hollow=other.is_control) for j, other in enumerate(columns)
    ]
    if len(columns) == 1:
        beside = names + cell
        name_there = shorten(columns[0].title, least_width - beside - 4)
        parts.append(text(beside, 17.5, name_there, class_="name"))
    for i, bot in enumerate(rows):
        y = top + i * high
        parts += [
            bot_shape(10, y + high / 2, bot.slot, hollow=bot.is_control),
            text(24, y + high / 2 + 4.5, shorten(bot.title, names - 30), class_="name"),
        ]
        for j, other in enumerate(columns):
            x = names + j * cell
            if bot == other:
                parts.append(rect(x + 1, y + 1, cell - 2, high - 2, rx=5, class_="cell-self"))
                continue
            found = differences.of(bot.bot_id, other.bot_id)
            if found is not None:
                box = (x, y, cell, high)
                parts.append(_cell(bot, other, *found, box=box, differences=differences))
    width = max(least_width, names + len(columns) * cell)
    if width > WIDE:
        css += " plot-grown"
    return drawing(
        width,
        top + len(rows) * high + 6,
        *parts,
        name=name,
        interactive=True,
        class_=css or None,
    )


def _cell(
    bot: RatedBot,
    other: RatedBot,
    comparison: Comparison,
    sign: int,
    *,
    box: tuple[float, float, float, float],
    differences: Differences,
) -> Markup:
    """Draw one difference; `box` is left, top, width and height in pixels."""
    x, y, wide, high = box
    gap = None if comparison.difference is None else sign * comparison.difference
    shade = "div-none"
    if gap is not None and comparison.ordered:
        # Colours begin next to the middle one, so that an order that holds never looks like no order.
        shade = f"div-{5 + (1 if gap > 0 else -1) * max(1, round(4 * abs(gap) / differences.most))}"
    says = f"{bot.title} − {other.title}\n{figure(gap, differences.digits)} "
    says += (
        f"{span(*difference_ends(comparison, sign), differences.digits)}\n"
        f"{differences.holm} {probability(comparison.p_holm)}"
        if comparison.p is not None
        else differences.why(comparison.reason)
    )
    middle = (x + wide / 2, y + high / 2 + 4.5)
    return mark_link(
        None,
        says,
        rect(x + 1, y + 1, wide - 2, high - 2, rx=5, class_=f"step {shade}"),
        text(*middle, figure(gap, differences.digits), class_=f"step-text {shade}"),
    )
