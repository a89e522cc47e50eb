"""Figure of a page: title, method, drawings, and table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any

from markupsafe import Markup
from pydantic import Field

from evaluation.plots.marks import N_SHAPES, TILE, bot_shape
from evaluation.plots.svg import el

FIGURE_PARAM = "figure_file"
"""Parameter that requests a figure of a page as a file, such as `bots.pdf`."""
_SCREEN = 24
WIDE = 958.0
"""Width of a drawing on a wide screen, in pixels."""
TEXT_WIDE = 760.0
"""Width of a drawing that is as wide as the text, in pixels."""

StoredReason = Annotated[str, Field(alias="why")]
"""Reason for a missing number; stored reports have it as `why`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell.

    Attributes:
        href: address that the cell links to.
        reason: reason for a missing number.
        raw: values for CSV files, with all digits: one number, or the ends of an interval.
    """

    text: str
    href: str = ""
    reason: StoredReason = ""
    slot: int = 0
    hollow: bool = False
    raw: tuple[int | float | None, ...] = ()

    @property
    def shape(self) -> Markup | str:
        """The bot's mark before its name."""
        return bot_icon(self.slot, hollow=self.hollow) if self.slot else ""


@dataclass(frozen=True, slots=True)
class Header:
    """A column's title."""

    text: str
    numeric: bool = False


def headers_of(*titles: str) -> list[Header]:
    """Return columns by their titles; those of numbers end in `#`."""
    return [Header(title.removesuffix("#"), title.endswith("#")) for title in titles]


@dataclass(frozen=True, slots=True)
class PageTable:
    """The figure's numbers, for reading, copying and screen readers."""

    headers: list[Header]
    rows: list[list[Cell]]

    @property
    def is_tall(self) -> bool:
        """True if the table does not fit on a screen."""
        return len(self.rows) > _SCREEN

    @property
    def lined(self) -> list[list[tuple[Header, Cell]]]:
        """Rows with each cell's column."""
        return [list(zip(self.headers, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Variant:
    """Narrow drawing, one of several shown in turn."""

    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class CompleteDrawing:
    """Complete drawing of a figure that first shows a part.

    Pages unfold it; the report prints it.

    Attributes:
        note: sentence on the part shown at first.
    """

    title: str
    note: str
    wide: Markup
    narrow: list[Variant]


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A plot and its table.

    Attributes:
        id: unique on its page; part of radio names and file names.
        title: title of the figure.
        method: statistic, interval level, n, in one line.
        wide, narrow: the drawing for wide and for narrow columns (the latter one or several).
        table: the same numbers.
        marks: meaning of the drawing's marks; not printed with the table.
        note, note_lead: limits of interpretation; `note_lead` is printed bold before it.
        complete: the complete drawing if `wide` and `narrow` show only a part.
    """

    id: str
    title: str
    method: str
    wide: Markup
    narrow: list[Variant]
    table: PageTable
    note: str = ""
    note_lead: str = ""
    marks: str = ""
    complete: CompleteDrawing | None = None


NARROW = 298.0
"""Width in pixels of drawings for phones."""


def for_widths(draw: Callable[[float, str], Markup], wide: float) -> tuple[Markup, list[Variant]]:
    """Draw for wide and for narrow columns.

    Args:
        draw: takes the width in pixels, and the class of the drawing.
    """
    return draw(wide, "plot-wide"), [Variant("", draw(NARROW, ""))]


def figures_in(value: Any) -> Iterator[PageFigure]:
    """Yield the figures within a page's context: in lists, dictionaries and dataclasses."""
    if isinstance(value, PageFigure):
        yield value
    elif isinstance(value, dict):
        yield from figures_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for child in value:
            yield from figures_in(child)
    elif is_dataclass(value) and not isinstance(value, type | PageTable):
        yield from figures_in([getattr(value, field.name) for field in fields(value)])


def bot_icon(slot: int, *, hollow: bool = False) -> Markup:
    """Draw a bot's mark as a small picture for tables and lists."""
    is_tile = slot > N_SHAPES
    side = TILE if is_tile else 16.0
    return el(
        "svg",
        bot_shape(side / 2, side / 2, slot, r=5.5, hollow=hollow),
        viewBox=f"0 0 {side:g} {side:g}",
        width=side,
        height=side,
        class_="bot-icon bot-icon-tile" if is_tile else "bot-icon",
        aria_hidden="true",
    )
