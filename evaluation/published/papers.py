"""Numbered tables and figures of the five papers, and their other published values.

`papers.yaml` lists all items with the command or page that reproduces each; `other_tables.csv` has published values
that are not correlations. `GapReason` has the five reasons for a cell without a number.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from chatbots.validation import InputModel, Many, values_read
from evaluation.data.result_tables import Cell, number_cell, share_cell, span_cell

_FOLDER = Path(__file__).parent
Kind = Literal["layout", "command", "page", "drawing"]


class GapReason(StrEnum):
    """Reason for a cell without a number."""

    NO_DATA = "no such data here"
    NOT_COMPUTED = "not computed here"
    UNAVAILABLE = "no such metric on this server: add its weights or import its scores"
    NOT_PUBLISHED = "not in the paper"
    UNDEFINED = "undefined: too few or constant values"


class PaperItem(InputModel):
    """A numbered table or figure.

    Attributes:
        kind: `layout`: printed by `report --like`; `command`, `page`: reproduced by `where`; `drawing`: has no numbers.
        where: command or page, in Markdown; empty for the other kinds.
        by_hand: what a reader still has to do; empty if nothing.
    """

    item: str
    kind: Kind
    title: str
    where: str = ""
    by_hand: str = ""

    @property
    def id(self) -> str:
        """Name of the item in an address, such as `table-2`."""
        return self.item.lower().replace(" ", "-")


class Paper(InputModel):
    """One of the papers.

    Attributes:
        title: authors, year and name of the metric.
        work: title of the publication.
        source: where it was published.
    """

    title: str
    work: str
    source: str
    items: Many[PaperItem]

    def get_item(self, name: str) -> PaperItem:
        """Return the item of this number.

        Raises:
            KeyError: if the paper has none.
        """
        for item in self.items:
            if item.item == name:
                return item
        raise KeyError(name)


class _Papers(InputModel):
    papers: dict[str, Paper]


@cache
def papers() -> Mapping[str, Paper]:
    """Return the papers by their names, such as `grade2020`."""
    content = yaml.safe_load((_FOLDER / "papers.yaml").read_text(encoding="utf-8"))
    return values_read(_Papers, {"papers": content}, subject="papers.yaml").papers


OtherValue = tuple[float, float | None]
"""A published value and the half-width of its interval, if any."""


@cache
def other_values(paper: str, item: str) -> Mapping[tuple[str, str], OtherValue]:
    """Return published values that are no correlations, by row and column of the table."""
    with (_FOLDER / "other_tables.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["row"], row["column"]): (float(row["value"]), float(row["half_width"]) if row["half_width"] else None)
            for row in csv.DictReader(file)
            if row["paper"] == paper and row["item"] == item
        }


def published_cell(
    values: Mapping[tuple[str, str], OtherValue], row: str, column: str, digits: int = 0, *, is_share: bool = False
) -> Cell:
    """Make the cell of a published value."""
    value = values[row, column][0] if (row, column) in values else None
    return (share_cell if is_share else number_cell)(value, digits, GapReason.NOT_PUBLISHED)


def published_span(values: Mapping[tuple[str, str], OtherValue], row: str, column: str) -> Cell:
    """Make the cell of a published interval of a share."""
    value, half = values.get((row, column), (0.0, None))
    if half is None:
        return span_cell(None, None, shares=True, reason=GapReason.NOT_PUBLISHED)
    return span_cell(value - half, value + half, 3, shares=True)
