"""Sections of the analysis, and the formatting of their numbers as cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.printing import figure, probability, share, span
from webapp.dashboard.plots.figure import Cell, Figure, Table


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table without a plot.

    Attributes:
        id: unique on its page, and the name of its CSV.
        title, method, note: as a figure's.
    """

    id: str
    title: str
    table: Table
    method: str = ""
    note: str = ""


@dataclass(slots=True)
class Section:
    """One part of the analysis.

    Attributes:
        id: its anchor.
        title: its heading.
        lead: what was found, in sentences; the first is the most important.
        points: single findings, as a list.
        points_title: what the list is of, where a page folds it because it is long.
        how: by which test or rule it was found, in sentences.
        figures, tables: in order, figures first.
        missing: what could not be computed, each with its reason.
        caution: what to know before quoting any of it.
    """

    id: str
    title: str
    lead: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    points_title: str = ""
    how: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[NamedTable] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    caution: str = ""


def number_cell(value: float | None, digits: int = 2, why: str | None = "") -> Cell:
    """Make a cell of a number; without one, of a dash and the reason."""
    undefined = value is None or not math.isfinite(value)
    return Cell(figure(value, digits), why=(why or "") if undefined else "", raw=(value,))


def share_cell(value: float | None, digits: int = 2, why: str | None = "") -> Cell:
    """Make a cell of a number between −1 and 1."""
    undefined = value is None or not math.isfinite(value)
    return Cell(share(value, digits), why=(why or "") if undefined else "", raw=(value,))


def span_cell(
    low: float | None, high: float | None, digits: int = 2, *, shares: bool = False, why: str = ""
) -> Cell:
    """Make a cell of an interval."""
    return Cell(
        span(low, high, digits, shares=shares), why=why if low is None else "", raw=(low, high)
    )


def count_cell(n: int | None, why: str = "") -> Cell:
    """Make a cell of a whole number."""
    return Cell("–" if n is None else f"{n:,}", why=why if n is None else "", raw=(n,))


def p_cell(p: float | None, why: str | None = "") -> Cell:
    """Make a cell of a p-value."""
    shown = probability(p).removeprefix("p ").removeprefix("= ")
    return Cell(shown, why=(why or "") if p is None else "", raw=(p,))


def listed(names: Sequence[str]) -> str:
    """Join names to a list in words, `A, B and C`."""
    if len(names) < 2:
        return "".join(names)
    return "{names} and {last}".format(names=", ".join(names[:-1]), last=names[-1])


def controls_said(has_controls: bool, *, left_out: bool) -> str:
    """Name what was done with rated controls; empty without any."""
    if not has_controls:
        return ""
    return "Controls are left out." if left_out else "Controls are in."


def two_digits(n: int) -> str:
    """Write a planned number rounded up to two figures, because more digits would promise too much."""
    if n < 100:
        return str(n)
    power = 10 ** (len(str(n)) - 2)
    return f"{-(-n // power) * power:,}"
