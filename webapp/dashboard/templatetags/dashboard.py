"""Helpers of the dashboard's templates: marks, progress, durations, links."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from markupsafe import Markup, escape

from evaluation.data.result_tables import Cell, PageTable
from evaluation.number_format import figure, probability, share, span
from evaluation.plots.marks import bot_icon
from evaluation.plots.svg import el
from webapp.core.language import plural
from webapp.core.templatetags.icons import icon
from webapp.insights.charts.figure import FIGURE_PARAM
from webapp.insights.narrative.phrases import duration_text
from webapp.insights.narrative.phrases import glossary_terms as shared_terms
from webapp.jobs.models import Job, JobBase, State

register = template.Library()
register.filter("in_words", duration_text)


@register.simple_block_tag
def table(content: str, caption: str, *columns: str, css: str = "", sortable: bool = False) -> str:
    """Draw a table around its rows.

    It is in a region that scrolls by keyboard.

    Args:
        columns: titles, each with its classes after a colon; `hidden` ones are only for screen readers, empty ones are
            left out.
        sortable: whether a click on a title sorts the rows, by `data-sort` of their cells where it is given.
    """
    heads = [_column_head(*column.partition(":")[::2]) for column in columns if column]
    return format_html(
        '<div class="table-scroll" tabindex="0" role="region" aria-label="{}"><table class="table{}"{}>'
        '<caption class="visually-hidden">{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>',
        caption,
        f" {css}" if css else "",
        Markup(" data-sortable") if sortable else "",
        caption,
        format_html_join("", "{}", [(head,) for head in heads]),
        content,
    )


_ICONS = {"bad": "warning", "warn": "warning", "good": "check", "info": "info"}
_ROLES = {"bad": "alert", "good": "status"}


@register.simple_block_tag
def banner(content: str, kind: str, old: bool = False) -> str:
    """Draw a banner around its text.

    A `bad` one is an alert; an `old` one is not announced as news.
    """
    css = f"banner-{kind}{' banner-old' if old else ''}"
    return format_html(
        '<div class="banner {}" role="{}">{}{}</div>', css, _ROLES.get(kind, "note"), icon(_ICONS[kind]), content
    )


def _column_head(title: str, css: str) -> str:
    if css == "hidden":
        return format_html('<th scope="col"><span class="visually-hidden">{}</span></th>', title)
    return format_html('<th scope="col" class="{}">{}</th>' if css else '<th scope="col">{}{}</th>', css, title)


@register.simple_tag
def bot_mark(slot: int, hollow: bool = False) -> Markup:
    """Draw the shape and colour of a bot's slot."""
    return bot_icon(slot, hollow=hollow)


@register.simple_tag
def table_rows(table: PageTable) -> Markup:
    """Render the body of a table.

    A template would take ten times as long for thousands of cells.
    """
    rows = []
    for first, *value_cells in table.lined:
        cells = [_heading(first[1]), *(_cell(cell, header.numeric) for header, cell in value_cells)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return Markup("".join(rows))  # noqa: S704 - every part is escaped in the two below


def _heading(cell: Cell) -> str:
    reason_html = f'<span class="why">{escape(cell.reason)}</span>' if cell.reason else ""
    return f'<th scope="row">{escape(cell.shape)}{_linked(cell)}{reason_html}</th>'


def _cell(cell: Cell, numeric: bool) -> str:
    number = ' class="number"' if numeric else ' class="table-name"' if cell.slot else ""
    if not cell.reason:
        return f"<td{number}>{_linked(cell)}</td>"
    reason = escape(cell.reason)
    hidden = f'<span class="visually-hidden">, {reason}</span>'
    return f'<td{number} title="{reason}">{_linked(cell)}{hidden}</td>'


def _linked(cell: Cell) -> str:
    text = escape(cell.text)
    return f'<a href="{escape(cell.href)}">{text}</a>' if cell.href else text


@register.simple_tag
def bar(done: int, total: int, label: str = "") -> Markup:
    """Draw how much is done, as a bar.

    A total of 0 is drawn empty.
    """
    return el(
        "progress",
        value=min(done, total) if total else 0,
        max=total or 1,
        class_="bar",
        aria_label=label or f"{done} of {total}",
    )


@register.simple_tag
def activity(counts: Sequence[int]) -> Markup:
    """Draw numbers of days as small columns; nothing if all are 0."""
    most = max(counts, default=0)
    if not most:
        return Markup("")
    columns = [
        el("rect", x=3 * day, y=round(14 - 13 * n / most, 1), width=2, height=round(13 * n / most, 1))
        for day, n in enumerate(counts)
        if n
    ]
    label = f"{sum(counts):,} in the last {len(counts)} days"
    return el("svg", *columns, class_="activity", viewBox=f"0 0 {3 * len(counts)} 14", role="img", aria_label=label)


JOB_PILLS = {
    State.QUEUED: "",
    State.RUNNING: "info",
    State.DONE: "good",
    State.CANCELLED: "warn",
    State.FAILED: "bad",
    State.INTERRUPTED: "bad",
}


@register.simple_tag
def job_pill(job: JobBase) -> Markup:
    """Return the state of a job as a labelled, coloured pill."""
    state = State(job.state)
    word, colour = str(state.label), JOB_PILLS[state]
    if job.is_stopping:
        word, colour = "Stopping", "warn"
    n = job.n_skipped if isinstance(job, Job) and state == State.DONE else 0
    if n:
        word = plural(n, "Done, {n} skipped", "Done, {n} skipped").format(n=f"{n:,}")
        colour = "warn"
    return el("span", word, class_=f"pill pill-{colour}" if colour else "pill")


@register.filter
def minutes(value: float | timedelta | None) -> str:
    """Write seconds or a duration, such as `7:40`."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    seconds_total = round(seconds)
    return f"{seconds_total // 60}:{seconds_total % 60:02d}"


@register.filter
def money(value: float | None) -> str:
    """Format an amount.

    It has two decimals; small amounts have two significant digits, unknown ones are a dash.
    """
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 0.1:
        return f"{value:,.2f}"
    return f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"


@register.filter
def words(text: str) -> list[str]:
    """Split a text at spaces, for loops over a few constants."""
    return text.split()


@register.filter
def breakable(name: str) -> Markup:
    """Let a long name break after "_"."""
    return Markup("_<wbr>").join(name.split("_"))


@register.simple_tag(takes_context=True)
def figure_address(context: dict[str, Any], figure: str, kind: str) -> str:
    """Return the address of a figure of this page as a file."""
    query = context["request"].GET.copy()
    query[FIGURE_PARAM] = f"{figure}.{kind}"
    return f"?{query.urlencode()}"


@register.filter
def setting(value: Any) -> str:
    """Format a bot's parameter.

    Truth values become yes or no, and lists lose their brackets.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        if not value:
            return "empty"
        # Trailing spaces, as in separators, would be invisible.
        return value if value.strip() == value else json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {setting(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(setting(item) for item in value) or "none"
    return str(value)


@register.filter
def remove_sentence(sentences: Sequence[str], sentence: str) -> list[str]:
    """Return the text without a sentence that was already shown."""
    return [other_sentence for other_sentence in sentences if other_sentence != sentence]


@register.filter
def two(value: float | None) -> str:
    """Write a number with two decimals, a dash for none."""
    return figure(value)


@register.filter
def point(value: float | None) -> str:
    """Write a correlation, such as `.84`."""
    return share(value)


@register.filter
def interval(value: Any) -> str:
    """Write an interval, such as `[.34, .97]`."""
    return span(*value, shares=True) if value else "–"


@register.filter
def p_value(value: float | None) -> str:
    """Write a p-value, such as `p = .031`."""
    return probability(value)


@register.filter
def get(mapping: dict, key: Any) -> Any:
    """Return an entry of a dictionary, or None."""
    return mapping.get(key)


@register.inclusion_tag("dashboard/_terms.html")
def terms() -> dict[str, Any]:
    """Explain the terms that all pages and the report share."""
    return {"terms": shared_terms()}
