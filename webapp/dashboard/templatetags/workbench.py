"""Helpers of the conversation browser's templates: addresses and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils.formats import date_format
from markupsafe import Markup

from evaluation.number_format import figure
from evaluation.plots.svg import el
from evaluation.plots.text_layout import tick_label
from webapp.dashboard.conversation_list import Workbench
from webapp.dashboard.filters import Range
from webapp.insights.charts.lines import printed
from webapp.insights.leaderboard import BoardParams
from webapp.search.chat_selection import ChatSelection
from webapp.search.fields import Number
from webapp.search.index_statistics import Histogram
from webapp.search.models import SavedSearch
from webapp.studies.models import Study

register = template.Library()

_SELECTED, _CHECKED = Markup(" selected"), Markup(" checked")


@register.simple_tag
def bench_line(bench: Workbench, line: str) -> str:
    """Return the address of the page with another query."""
    return bench.address(q=line)


@register.simple_tag
def chats_link(study: Study, **selection: str) -> str:
    """Return the address of a study's conversations with these filters, order and highlight."""
    return ChatSelection.of(**selection).url(reverse("dashboard:study_conversations", args=[study.key]))


@register.simple_tag
def saved_address(bench: Workbench, search: SavedSearch) -> str:
    """Return the page's address with a saved search and its columns."""
    return bench.address(q=search.line, columns=search.columns)


@register.simple_tag
def number_of(number_and_value: tuple[Number, float | datetime | None]) -> str:
    """Write a conversation's number, or the day of a time.

    A dash if it is missing.
    """
    number, value = number_and_value
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return date_format(value, "j M Y")
    if number.kind == "metric":
        return printed(value, number.unit)
    return tick_label(value) if float(value).is_integer() else figure(value)


@register.filter
def number_plain(value: float) -> str:
    """Write a number with as few decimals as possible."""
    return tick_label(value)


@register.filter
def unlocalised(value: float) -> str:
    """Write a number for HTML attributes, in any language."""
    return f"{value:.10g}"


@register.simple_tag
def spread_bars(spread: Histogram) -> Markup:
    """Draw the bars of a distribution, each with its range.

    They fill a box of 200 by 40.
    """
    highest = max(bar.n for bar in spread.bars)
    width = 200 / len(spread.bars)
    bars = [
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
        # Keep a bar of one conversation among thousands visible.
        if (height := max(40 * bar.n / highest, 1.5) if bar.n else 0)
    ]
    return Markup("").join(bars)


# A study has hundreds of numbers, each in several lists; a template would take ten times as long.


@register.simple_tag
def select_options(options: Iterable[tuple[str, Any]], chosen: str) -> Markup:
    """Write values and their titles as the options of a select."""
    return Markup("").join(
        Markup('<option value="{}"{}>{}</option>').format(value, _SELECTED if value == chosen else "", title)
        for value, title in options
    )


@register.simple_tag
def range_options(ranges: Iterable[Range], selected: Range) -> Markup:
    """Write numbers as the options of a select, with their ranges.

    The ranges are those in the query.
    """
    written = Markup('<option value="{}" data-low="{}" data-high="{}"{}>{}</option>')
    return Markup("").join(
        written.format(
            bounds.number.name,
            bounds.low,
            bounds.high,
            _SELECTED if bounds.number == selected.number else "",
            bounds.number.title,
        )
        for bounds in ranges
    )


@register.simple_tag
def column_ticks(columns: Sequence[tuple[Number, bool]]) -> Markup:
    """Write numbers as checkboxes."""
    written = Markup('<label><input type="checkbox" name="columns" value="{}"{}> {}</label>')
    return Markup("").join(
        written.format(number.name, _CHECKED if is_shown else "", number.title) for number, is_shown in columns
    )


@register.simple_tag
def board_address(choice: BoardParams, **changes: str) -> str:
    """Return the address of the bot comparison with another choice."""
    return choice.address(**changes)
