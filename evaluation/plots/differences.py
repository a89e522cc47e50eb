"""Every bot against every other: differences of means as a square, coloured where they can be put in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from evaluation.plots.lettering import NAME_PX, shorten, text_width
from evaluation.plots.marks import bot_shape, mark_link
from evaluation.plots.svg import drawing, rect, text
from evaluation.printing import figure, probability, span
from evaluation.reasons import Reason
from evaluation.stats.compare import Comparison

Pair = tuple[str, str]
WIDE = 720.0
NUMBER_PX = 13.0
"""Font size of the numbers in the cells, as the style sheet has it."""


@dataclass(frozen=True, slots=True)
class Rated:
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


def ends(found: Comparison, sign: int) -> tuple[float | None, float | None]:
    """Return the ends of the interval of sign times the difference."""
    if found.low is None or found.high is None:
        return None, None
    return (found.low, found.high) if sign > 0 else (-found.high, -found.low)


def names_width(bots: Sequence[Rated], width: float) -> float:
    """Return the pixels for the names before the rows; wide drawings cut no name below 24 letters."""
    longest = max((text_width(bot.title) for bot in bots), default=60)
    return min(longest + 36, max(width * 0.3, NAME_PX + 36) if width >= WIDE else width * 0.5)


def differences_drawing(
    rows: Sequence[Rated],
    columns: Sequence[Rated],
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
        bot_shape(names + (j + 0.5) * cell, 13, other.slot, hollow=other.is_control)
        for j, other in enumerate(columns)
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
    bot: Rated,
    other: Rated,
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
        f"{span(*ends(comparison, sign), differences.digits)}\n{differences.holm} {probability(comparison.p_holm)}"
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
