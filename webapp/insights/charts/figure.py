"""Figure of a page: title, method, drawings, and table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from markupsafe import Markup

from evaluation.data.result_tables import PageTable

FIGURE_PARAM = "figure_file"
"""Parameter that requests a figure of a page as a file, such as `bots.pdf`."""
WIDE = 958.0
"""Width of a drawing on a wide screen, in pixels."""
TEXT_WIDE = 760.0
"""Width of a drawing that is as wide as the text, in pixels."""


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
