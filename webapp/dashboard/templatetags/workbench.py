"""Small helpers of the workbench's templates: addresses of other lines, numbers in lists."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils.formats import date_format
from markupsafe import Markup

from evaluation.plots.lettering import plain
from evaluation.plots.svg import el
from evaluation.printing import figure
from webapp.dashboard.board import Choice
from webapp.dashboard.plots.tracks import printed
from webapp.dashboard.workbench import Workbench
from webapp.reading.fields import Number
from webapp.reading.models import SavedSearch
from webapp.reading.spread import Spread

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
def number_of(one: tuple[Number, float | datetime | None]) -> str:
    """Write a number of a conversation, or the day of a time; a dash where it has none."""
    number, value = one
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return date_format(value, "j M Y")
    if number.kind == "metric":
        return printed(value, number.unit)
    return plain(value) if float(value).is_integer() else figure(value)


@register.filter
def number_plain(value: float) -> str:
    """Write a number with as few decimals as it takes."""
    return plain(value)


@register.filter
def unlocalised(value: float) -> str:
    """Write a number as attributes of HTML have it, in every language."""
    return f"{value:.10g}"


@register.simple_tag
def spread_bars(spread: Spread) -> Markup:
    """Draw the bars of a spread on a ground of 200 by 40, each with the range that it stands for."""
    highest = max(bar.n for bar in spread.bars)
    width = 200 / len(spread.bars)
    drawn = [
        el(
            "rect",
            x=i * width + 0.5,
            y=40 - height,
            width=width - 1,
            height=height,
            data_low=unlocalised(bar.low),
            data_high=unlocalised(bar.high),
        )
        for i, bar in enumerate(spread.bars)
        # A bar of one conversation among thousands is still seen.
        if (height := max(40 * bar.n / highest, 1.5) if bar.n else 0)
    ]
    return Markup("").join(drawn)


@register.simple_tag
def board_address(choice: Choice, **other: str) -> str:
    """Return the address of the comparison of bots with another choice."""
    return choice.address(**other)
