"""Tables of results, declared once: a title, columns with the cells of a row, method and note.

A result declares its tables with `declared_table`. A terminal prints their texts (`NamedTable.printed`); pages, CSV,
Markdown and LaTeX render the same cells (`webapp/dashboard/render.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from markupsafe import Markup
from pydantic import Field

from evaluation.data.tables import text_table
from evaluation.findings import Reason
from evaluation.number_format import figure, p_value, share, span
from evaluation.plots.marks import bot_icon

Row = TypeVar("Row")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCREEN = 24
"""Number of rows that fit on a screen."""
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


@dataclass(frozen=True, slots=True)
class Wording:
    """Names and phrases of a rendering: pages have titles and marks for bots, a terminal has their keys.

    Attributes:
        level: makes the cell of a level, such as a bot, from the names of its column and of the level.
        reason: returns the phrase of a reason; "" for None.
        digits: decimals of numbers on the scale.
    """

    level: Callable[[str, str], Cell] = lambda _column, level: Cell(level)
    reason: Callable[[Reason | None], str] = lambda reason: str(reason or "")
    digits: int = 2

    def estimate(
        self, estimate: Any, digits: int = 2, *, shares: bool = False, attribute: str = "mean"
    ) -> Sequence[Cell]:
        """Make the cells of an estimate and of its interval, with its reason (`estimate_cells`)."""
        reason = self.reason(estimate.reason)
        return estimate_cells(estimate, digits, shares=shares, attribute=attribute, reason=reason)


IN_TERMINAL = Wording()


def headers_of(*titles: str) -> list[Header]:
    """Return columns by their titles; those of numbers end in `#`."""
    return [Header(title.removesuffix("#"), title.endswith("#")) for title in titles]


def _superscript(number: int) -> str:
    return str(number).translate(_SUPERSCRIPTS)


@dataclass(frozen=True, slots=True)
class PageTable:
    """The figure's numbers, for reading, copying and screen readers.

    Attributes:
        has_footnotes: whether reasons are numbered, and printed once below the table instead of with each cell.
    """

    headers: list[Header]
    rows: list[list[Cell]]
    has_footnotes: bool = False

    @property
    def is_tall(self) -> bool:
        """True if the table does not fit on a screen."""
        return len(self.rows) > _SCREEN

    @property
    def lined(self) -> list[list[tuple[Header, Cell]]]:
        """Printed rows with each cell's column."""
        return [list(zip(self.headers, row, strict=True)) for row in self.printed_rows]

    @property
    def printed_rows(self) -> list[list[Cell]]:
        """Rows as printed: with footnotes, cells have the number of their reason."""
        if not self.has_footnotes:
            return self.rows
        reasons = self._reasons
        return [
            [
                replace(cell, text=cell.text + _superscript(reasons.index(cell.reason) + 1), reason="")
                if cell.reason
                else cell
                for cell in row
            ]
            for row in self.rows
        ]

    @property
    def footnotes(self) -> list[str]:
        """The numbered reasons; empty without footnotes."""
        if not self.has_footnotes:
            return []
        return [f"{_superscript(number)} {reason}" for number, reason in enumerate(self._reasons, 1)]

    @property
    def _reasons(self) -> list[str]:
        return list(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table without a plot.

    Attributes:
        id: unique on its page, and the name of its CSV.
        title, method, note: as a figure's.
        remarks: further sentences, as a list.
    """

    id: str
    title: str
    table: PageTable
    method: str = ""
    note: str = ""
    remarks: Sequence[str] = ()

    def printed(self, foot: str = "") -> str:
        """Return the table for a terminal, with `foot` below it."""
        headers = [header.text for header in self.table.headers]
        rows = [[cell.text for cell in row] for row in self.table.printed_rows]
        return text_table(self.title, headers, rows, "\n".join(filter(None, ["; ".join(self.table.footnotes), foot])))


Columns = tuple[str | Sequence[str], Callable[[Row], Cell | Sequence[Cell]]]
"""A title and the cell of a row, or the titles of several columns and their cells."""


def with_footnotes(table: NamedTable) -> NamedTable:
    """Return the table with reasons as footnotes, for tables that repeat a few of them."""
    return replace(table, table=replace(table.table, has_footnotes=True))


def linked(cells: Sequence[Cell], href: str) -> list[Cell]:
    """Return cells of which the first one links to the conversations behind it."""
    return [replace(cells[0], href=href), *cells[1:]]


def page_table(rows: Iterable[Row], *columns: Columns[Row]) -> PageTable:
    """Return a table of declared columns.

    A column with any number is numeric.
    """
    titles = [title for names, _make in columns for title in ([names] if isinstance(names, str) else names)]
    cells = [
        [
            cell
            for _names, make in columns
            for made in [make(row)]
            for cell in ([made] if isinstance(made, Cell) else made)
        ]
        for row in rows
    ]
    heads = [Header(title, any(row[i].raw for row in cells)) for i, title in enumerate(titles)]
    return PageTable(heads, cells)


def declared_table(
    id: str, title: str, rows: Iterable[Row], *columns: Columns[Row], method: str = "", note: str = ""
) -> NamedTable:
    """Return a table of declared columns with its title."""
    return NamedTable(id, title, page_table(rows, *columns), method, note)


def number_cell(value: float | None, digits: int = 2, reason: str | None = "") -> Cell:
    """Make a cell of a number.

    Without a number, it has a dash and the reason.
    """
    undefined = value is None or not math.isfinite(value)
    return Cell(figure(value, digits), reason=(reason or "") if undefined else "", raw=(value,))


def share_cell(value: float | None, digits: int = 2, reason: str | None = "") -> Cell:
    """Make a cell of a number between −1 and 1."""
    undefined = value is None or not math.isfinite(value)
    return Cell(share(value, digits), reason=(reason or "") if undefined else "", raw=(value,))


def span_cell(
    low: float | None, high: float | None, digits: int = 2, *, shares: bool = False, reason: str = ""
) -> Cell:
    """Make a cell of an interval."""
    return Cell(span(low, high, digits, shares=shares), reason=reason if low is None else "", raw=(low, high))


def estimate_cells(
    estimate: Any, digits: int = 2, *, shares: bool = False, attribute: str = "mean", reason: str = ""
) -> list[Cell]:
    """Make the cells of an estimate and of its interval.

    Args:
        estimate: has `low`, `high`, `reason` and the attribute named by `attribute`.
        attribute: attribute with the value.
        reason: reason for a missing number.
    """
    cell = share_cell if shares else number_cell
    return [
        cell(getattr(estimate, attribute), digits, reason),
        span_cell(estimate.low, estimate.high, digits, shares=shares, reason=reason),
    ]


def count_cell(n: int | None, reason: str = "") -> Cell:
    """Make a cell of a whole number."""
    return Cell("–" if n is None else f"{n:,}", reason=reason if n is None else "", raw=(n,))


def p_cell(p: float | None, reason: str | None = "") -> Cell:
    """Make a cell of a p-value."""
    return Cell(p_value(p), reason=(reason or "") if p is None else "", raw=(p,))
