"""Means of a study's bots in every question: chart and table.

Each bot has a row, and votes come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from evaluation.analysis.leaderboard import LeaderboardEntry, format_ranks, leaderboard
from evaluation.data.ratings import RatingDimension
from evaluation.data.result_tables import Cell, PageTable, count_cell, linked, page_table
from evaluation.number_format import NONE, figure, percent, span
from evaluation.plots.rows import (
    Column,
    RowName,
    ScaleWindow,
    cell,
    drawn_column,
    interval_cell,
    marked_cell,
    rating_window,
    rows_drawing,
)
from evaluation.plots.svg import el
from evaluation.plots.text_layout import tick_label
from evaluation.stats.constants import RATING_LEVEL
from webapp.insights.charts.figure import NARROW, WIDE, PageFigure, Variant
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import mean_cells, reason_text
from webapp.insights.narrative.verdicts import intervals_sentence
from webapp.results.bot_means import BotSummary, StudySummary

PER_BLOCK = 5
"""Maximum number of columns side by side; more start a new block below."""

Link = Callable[[BotSummary, RatingDimension | None], str]
"""Address of the conversations behind a bot's mean of a question, or behind its votes (None)."""


def bots_figure(summary: StudySummary, link: Link, *, is_whole: bool = False) -> PageFigure:
    """Draw the means of a study's bots in every question.

    Args:
        link: address of the conversations behind a bot's marks.
        is_whole: True to show whole scales, not the range of the data.
    """
    leading = summary.dimensions[0] if summary.dimensions else None
    rating_counts = [bot.n_ratings for bot in summary.bots if bot.n_ratings]
    level = RATING_LEVEL if summary.means is None else summary.means.level
    test = "fixed" if summary.compared is None else summary.compared.test
    method = intervals_sentence("Mean rating", test, level)
    if leading is not None:
        ends = f"from {tick_label(leading.low)} to {tick_label(leading.high)}"
        method = f"{intervals_sentence(f'Mean rating {ends}', test, level)} Sorted by {leading.title.lower()}."
    if rating_counts:
        least = "" if min(rating_counts) == max(rating_counts) else f"{min(rating_counts)} to "
        method += f" {least}{phrases.ratings_text(max(rating_counts))} per bot."
    marks = "Hollow bar: control bot." if any(bot.bot.is_control for bot in summary.bots) else ""
    notes = []
    if summary.n_ratings:
        notes.append("Intervals are clustered by rater, or by chat if there are no rater IDs.")
        notes += phrases.direction_sentences(summary.dimensions)
    names = Column("Bot", [RowName(bot.bot.title, bot.bot.slot, bot.bot.is_control) for bot in summary.bots])
    name = _sentence(summary)
    facets = [_facet(summary, dimension, link, 4, is_whole) for dimension in summary.dimensions]
    narrow = [
        Variant(
            dimension.head,
            _narrow(
                [names, _facet(summary, dimension, link, 7, is_whole), _means(summary, dimension)],
                f"{dimension.title}. {name}",
            ),
        )
        for dimension in summary.dimensions
    ]
    if any(bot.votes_up or bot.votes_down for bot in summary.bots):
        facets.append(_votes(summary, link))
        narrow.append(Variant("Votes", _narrow([names, facets[-1]], "Votes on replies.")))
    rows = max(1, -(-len(facets) // PER_BLOCK))
    each = -(-len(facets) // rows)
    blocks = [[names, *facets[i : i + each]] for i in range(0, len(facets), each)] if facets else [[names]]
    return PageFigure(
        id="bots",
        title="Ratings of each bot",
        method=method,
        wide=rows_drawing(blocks, WIDE, name=name, css="plot-wide"),
        narrow=narrow,
        table=_table(summary, link),
        marks=marks,
        note=" ".join(notes),
    )


def _narrow(columns: Sequence[Column], name: str) -> Markup:
    return rows_drawing([columns], NARROW, name=name, heads=False)


def _facet(summary: StudySummary, dimension: RatingDimension, link: Link, n_ticks: int, is_whole: bool) -> Column:
    window = _window(summary, dimension, n_ticks, is_whole)
    cells: list[RowName | Markup | str] = []
    for bot in summary.bots:
        estimate = bot.intervals[dimension.key]
        if estimate.mean is None:
            cells.append("no ratings yet")
            continue
        interval = span(estimate.low, estimate.high) if estimate.low is not None else reason_text(estimate.reason)
        says = (
            f"{bot.bot.title}\n{dimension.title} {figure(estimate.mean)} {interval}\n{phrases.ratings_text(estimate.n)}"
        )
        mark = interval_cell(window, estimate.mean, estimate.low, estimate.high, hollow=bot.bot.is_control)
        cells.append(marked_cell(link(bot, dimension), says, mark))
    return drawn_column(dimension.head, cells, window)


def _window(summary: StudySummary, dimension: RatingDimension, n_ticks: int, is_whole: bool) -> ScaleWindow:
    """Return the shared range of all questions with the same scale.

    It makes their columns comparable.
    """
    scale = dimension.low, dimension.high
    same_scale = [question.key for question in summary.dimensions if (question.low, question.high) == scale]
    intervals = [bot.intervals[key] for bot in summary.bots for key in same_scale]
    spans = [(interval.mean, interval.low, interval.high) for interval in intervals]
    return rating_window(spans, *scale, n_ticks, is_whole=is_whole, is_open=dimension.inferred)


def _means(summary: StudySummary, dimension: RatingDimension) -> Column:
    return Column("Mean", [figure(bot.intervals[dimension.key].mean) for bot in summary.bots], align="end")


def _votes(summary: StudySummary, link: Link) -> Column:
    """Draw the shares of downvotes and upvotes.

    They extend to the left and to the right of the middle.
    """
    shares = [
        (bot.votes_down / bot.n_replies, bot.votes_up / bot.n_replies) if bot.n_replies else (0.0, 0.0)
        for bot in summary.bots
    ]
    largest_share = max((max(share) for share in shares), default=0.0) or 1.0
    cells = []
    for bot, (down, up) in zip(summary.bots, shares, strict=True):
        says = f"{bot.bot.title}\n{bot.votes_up} up, {bot.votes_down} down on {phrases.replies_text(bot.n_replies)}"
        # Centre bars on the row by shifting them by half their height.
        bar = {"y": "50%", "height": 10, "rx": 2.5, "transform": "translate(0,-5)"}
        down_width, up_width = 50 * down / largest_share, 50 * up / largest_share
        bars = [
            el("rect", x=f"{50 - down_width:.2f}%", width=f"{down_width:.2f}%", **bar, class_="vote-down"),
            el("rect", x="50%", width=f"{up_width:.2f}%", **bar, class_="vote-up"),
        ]
        middle = el("line", x1="50%", x2="50%", y1="0%", y2="100%", class_="axis")
        cells.append(marked_cell(link(bot, None), says, cell(*bars, middle)))
    axis = cell(el("text", "down", x="48%", y=16, class_="tick end"), el("text", "up", x="52%", y=16, class_="tick"))
    return Column("Votes", cells, axis)


def _sentence(summary: StudySummary) -> str:
    if not summary.dimensions or not summary.n_ratings:
        return "No ratings yet."
    key, title = summary.dimensions[0].key, summary.dimensions[0].title
    rated = [bot for bot in summary.bots if bot.intervals[key].mean is not None]
    if not rated:
        return f"No ratings of {title.lower()} yet."
    return (
        f"Mean {title.lower()} of {phrases.bots_text(len(rated))}, from {figure(rated[0].intervals[key].mean)} for "
        f"{rated[0].bot.title} to {figure(rated[-1].intervals[key].mean)} for {rated[-1].bot.title}."
    )


def _rank(place: LeaderboardEntry | None) -> Cell:
    """Return a bot's range of ranks."""
    if place is None or place.ranks is None:
        return Cell(NONE, reason="no ratings" if place is None else "a control bot has no rank")
    return Cell(format_ranks(place.ranks), raw=place.ranks)


def _table(summary: StudySummary, link: Link) -> PageTable:
    places, leading = {}, summary.dimensions[0] if summary.dimensions else None
    level = percent(RATING_LEVEL if summary.means is None else summary.means.level)
    if summary.means is not None and summary.compared is not None:
        places = {place.bot: place for place in leaderboard(summary.means, summary.compared).places}
    return page_table(
        summary.bots,
        ("Bot", lambda bot: Cell(bot.bot.title, link(bot, leading), slot=bot.bot.slot, hollow=bot.bot.is_control)),
        ("Rank", lambda bot: _rank(places.get(bot.bot.bot_id))),
        ("Ratings", lambda bot: count_cell(bot.n_ratings)),
        (
            [title for dimension in summary.dimensions for title in (dimension.head, level)],
            lambda bot: [
                cell
                for dimension in summary.dimensions
                for cell in linked(
                    mean_cells(bot.intervals[dimension.key]),
                    link(bot, dimension) if bot.intervals[dimension.key].n else "",
                )
            ],
        ),
        (
            ("Up", "Down"),
            lambda bot: linked(
                [count_cell(bot.votes_up), count_cell(bot.votes_down)],
                link(bot, None) if bot.votes_up or bot.votes_down else "",
            ),
        ),
    )
