"""Small helpers of the workbench's templates: addresses of other lines, numbers in lists."""

from __future__ import annotations

from django import template

from evaluation.plots.lettering import plain
from evaluation.printing import figure
from webapp.dashboard.board import Choice
from webapp.dashboard.plots.tracks import printed
from webapp.dashboard.workbench import Workbench
from webapp.reading.fields import Number
from webapp.reading.models import SavedSearch

register = template.Library()


@register.simple_tag
def bench_line(bench: Workbench, line: str) -> str:
    """Return the address of the page with another line."""
    return bench.address(q=line)


@register.simple_tag
def saved_address(bench: Workbench, search: SavedSearch) -> str:
    """Return the address of the page with a saved search and its columns."""
    return bench.address(q=search.line, columns=search.columns)


@register.simple_tag
def number_of(one: tuple[Number, float | None]) -> str:
    """Write a number of a conversation; a dash where it has none."""
    number, value = one
    if value is None:
        return "–"
    if number.kind == "metric":
        return printed(value, number.unit)
    return plain(value) if float(value).is_integer() else figure(value)


@register.simple_tag
def board_address(choice: Choice, **other: str) -> str:
    """Return the address of the comparison of bots with another choice."""
    return choice.address(**other)
