"""Comparison of a study's bots: chart, table, and limits of conclusions.

A row for each bot, a panel for each dimension, votes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.analysis.comparisons import LEVEL
from evaluation.analysis.leaderboard import LeaderboardEntry, leaderboard, ranks_shown
from evaluation.number_format import NONE, figure, percent, span
from evaluation.plots.marks import bot_shape, interval_mark, mark_link
from evaluation.plots.svg import Scale, drawing, group, line, rating_ticks, rect, text
from evaluation.plots.text_layout import NAME_PX, shorten, text_width, tick_label
from evaluation.ratings import RatingDimension
from webapp.dashboard.charts.figure import Cell, Header, PageFigure, PageTable, Variant
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import listed, reason_text
from webapp.dashboard.narrative.verdicts import test_said
from webapp.results.bot_means import BotSummary, StudySummary

WIDE = 958.0
NARROW = 298.0
ROW = 34.0
HEAD = 30.0
AXIS = 30.0
PER_BLOCK = 6
"""Dimensions side by side; more begin a new block below."""

Link = Callable[[BotSummary], str]


@dataclass(frozen=True, slots=True)
class _Panel:
    """Panel of one dimension in the drawing."""

    dimension: RatingDimension
    scale: Scale
    n_ticks: int
    value_x: float | None


def wide_drawing(summary: StudySummary, link: Link) -> Markup:
    """Draw all dimensions side by side, `PER_BLOCK` in a block, votes at the end of the first block."""
    blocks = [summary.dimensions[i : i + PER_BLOCK] for i in range(0, len(summary.dimensions), PER_BLOCK)] or [[]]
    height_of_block = HEAD + ROW * len(summary.bots) + AXIS
    children = []
    for i, dimensions in enumerate(blocks):
        children.append(
            _block(
                summary,
                dimensions,
                link,
                top=i * (height_of_block + 8),
                leading=i == 0,
                votes=i == 0 and any(b.votes_up or b.votes_down for b in summary.bots),
            )
        )
    return drawing(
        WIDE,
        len(blocks) * (height_of_block + 8) - 8,
        *children,
        name=_sentence(summary),
        interactive=True,
        class_="plot-wide",
    )


def narrow_drawings(summary: StudySummary, link: Link) -> list[Variant]:
    """Draw each dimension for itself, as phones show them, and then the votes."""
    names = _name_width(summary, 80, 122)
    height = 10 + ROW * len(summary.bots) + AXIS
    variants = []
    for dimension in summary.dimensions:
        scale = Scale(dimension.low, dimension.high, names + 6, NARROW - 58)
        panel = _Panel(dimension, scale, 7, NARROW - 27)
        rows = _rows(summary, [panel], None, 0, link, top=0, width=NARROW, names=names, heads=False)
        variants.append(
            Variant(
                dimension.title,
                drawing(
                    NARROW,
                    height,
                    rows,
                    name=f"{dimension.title}. {_sentence(summary)}",
                    interactive=True,
                ),
            )
        )
    if any(bot.votes_up or bot.votes_down for bot in summary.bots):
        middle = (names + NARROW) / 2
        rows = _rows(
            summary,
            [],
            middle,
            (NARROW - names) / 2 - 16,
            link,
            top=0,
            width=NARROW,
            names=names,
            heads=False,
        )
        variants.append(
            Variant(
                "Votes",
                drawing(NARROW, height, rows, name="Votes on replies.", interactive=True),
            )
        )
    return variants


def _block(
    summary: StudySummary,
    dimensions: Sequence[RatingDimension],
    link: Link,
    *,
    top: float,
    leading: bool,
    votes: bool,
) -> Markup:
    names = _name_width(summary, 110, NAME_PX + 45)
    gap = 28.0
    votes_width = 100.0 if votes else 0.0
    room = WIDE - names - 20 - votes_width - (74 if leading else 0)
    weights = [2.4 if leading and i == 0 else 1.0 for i in range(len(dimensions))]
    room -= gap * max(len(dimensions) - 1, 0) + (gap if votes else 0)
    unit = min(room / sum(weights), 190 if len(dimensions) > 1 else 400) if weights else 0
    panels, x = [], names
    for weight, dimension in zip(weights, dimensions, strict=True):
        width = weight * unit
        first = weight > 1
        scale = Scale(dimension.low, dimension.high, x, x + width)
        panels.append(
            _Panel(
                dimension,
                scale,
                7 if width > 150 else 3,
                x + width + 45 if first or (leading and len(dimensions) == 1) else None,
            )
        )
        x += width + (74 if first else 0) + gap
    vote_x = WIDE - votes_width / 2 - 4 if votes else None
    return _rows(summary, panels, vote_x, 38.0, link, top=top, width=WIDE, names=names, heads=True)


def _rows(
    summary: StudySummary,
    panels: Sequence[_Panel],
    vote_x: float | None,
    vote_reach: float,
    link: Link,
    *,
    top: float,
    width: float,
    names: float,
    heads: bool,
) -> Markup:
    head = HEAD if heads else 6.0
    first, last = top + head, top + head + ROW * len(summary.bots)
    parts: list[object] = []
    for i, _bot in enumerate(summary.bots):
        if i % 2 == 0:
            parts.append(rect(0, first + i * ROW, width, ROW, rx=8, class_="zebra"))
    for panel in panels:
        if heads:
            parts.append(
                text(
                    panel.scale.start,
                    top + 16,
                    shorten(panel.dimension.title, panel.scale.end - panel.scale.start + 24, bold=True),
                    class_="head",
                )
            )
        for tick in rating_ticks(panel.dimension.low, panel.dimension.high, panel.n_ticks):
            x = panel.scale(tick)
            parts.append(line(x, first, x, last, class_="grid"))
            parts.append(text(x, last + 18, tick_label(tick), class_="tick middle"))
    most = max((max(_vote_share(bot)) for bot in summary.bots), default=0)
    if vote_x is not None:
        if heads:
            parts.append(text(vote_x, top + 16, "Votes", class_="head middle"))
        parts.append(text(vote_x - 6, last + 18, "down", class_="tick end"))
        parts.append(text(vote_x + 6, last + 18, "up", class_="tick"))
    for i, bot in enumerate(summary.bots):
        y = first + i * ROW + ROW / 2
        parts.append(_row(bot, panels, vote_x, vote_reach, most, link, y, names))
    if vote_x is not None:
        parts.append(line(vote_x, first, vote_x, last, class_="axis"))
    return group(*parts)


def _row(
    bot: BotSummary,
    panels: Sequence[_Panel],
    vote_x: float | None,
    vote_reach: float,
    most: float,
    link: Link,
    y: float,
    names: float,
) -> Markup:
    hollow = bot.bot.is_control
    parts: list[object] = [
        bot_shape(15, y, bot.bot.slot, hollow=hollow),
        text(29, y + 4.5, shorten(bot.bot.title, names - 33), class_="name"),
    ]
    for panel in panels:
        found = bot.intervals[panel.dimension.key]
        if found.mean is None:
            parts.append(
                text(
                    panel.scale.start + 4,
                    y + 4.5,
                    "no ratings yet" if panel.n_ticks > 3 else "–",
                    class_="tick",
                )
            )
            continue
        parts.append(
            mark_link(
                link(bot),
                _says(bot, panel.dimension),
                rect(panel.scale.start, y - 15, panel.scale.end - panel.scale.start, 30, class_="hit"),
                interval_mark(
                    y,
                    panel.scale.held(found.mean),
                    None if found.low is None else panel.scale.held(found.low),
                    None if found.high is None else panel.scale.held(found.high),
                    hollow=hollow,
                ),
            )
        )
        if panel.value_x is not None:
            parts.append(text(panel.value_x, y + 4.5, figure(found.mean), class_="value middle"))
    if vote_x is not None:
        down, up = _vote_share(bot)
        reach = vote_reach / most if most else 0
        parts.append(
            mark_link(
                link(bot),
                _votes_say(bot),
                rect(vote_x - vote_reach, y - 15, 2 * vote_reach, 30, class_="hit"),
                rect(vote_x - down * reach, y - 5, down * reach, 10, rx=2.5, class_="vote-down"),
                rect(vote_x, y - 5, up * reach, 10, rx=2.5, class_="vote-up"),
            )
        )
    return group(*parts)


def _name_width(summary: StudySummary, low: float, high: float) -> float:
    longest = max((text_width(bot.bot.title) for bot in summary.bots), default=0)
    return min(max(longest + 45, low), high)


def _vote_share(bot: BotSummary) -> tuple[float, float]:
    if not bot.n_replies:
        return 0.0, 0.0
    return bot.votes_down / bot.n_replies, bot.votes_up / bot.n_replies


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


def _says(bot: BotSummary, dimension: RatingDimension) -> str:
    found = bot.intervals[dimension.key]
    if found.mean is None:
        return f"{bot.bot.title}: {dimension.title.lower()} –, {reason_text(found.reason)}"
    interval = span(found.low, found.high) if found.low is not None else reason_text(found.reason)
    return f"{bot.bot.title}\n{dimension.title} {figure(found.mean)} {interval}\n{phrases.ratings_text(found.n)}"


def _votes_say(bot: BotSummary) -> str:
    return f"{bot.bot.title}\n" + f"{bot.votes_up} up, {bot.votes_down} down on {phrases.replies_text(bot.n_replies)}"


def bots_figure(summary: StudySummary, link: Link) -> PageFigure:
    """Draw the comparison of a study's bots.

    Args:
        link: the address of the conversations behind a bot's marks.
    """
    leading = summary.dimensions[0] if summary.dimensions else None
    given = [bot.n_ratings for bot in summary.bots if bot.n_ratings]
    method = f"Mean rating with {percent(LEVEL)} interval"
    if leading is not None:
        method = (
            f"Mean rating from {tick_label(leading.low)} to {tick_label(leading.high)} "
            f"with {round(LEVEL * 100)} % interval, sorted by {leading.title.lower()}."
        )
    if given:
        method += " " + (
            f"{phrases.ratings_text(given[0])} per bot."
            if min(given) == max(given)
            else f"{min(given)} to {phrases.ratings_text(max(given))} per bot."
        )
    lead, note = _notes(summary)
    return PageFigure(
        id="bots",
        title="What people thought of each bot",
        method=method,
        wide=wide_drawing(summary, link),
        narrow=narrow_drawings(summary, link),
        table=_table(summary, link),
        note=note,
        note_lead=lead,
    )


def _notes(summary: StudySummary) -> tuple[str, str]:
    """Compose the cautions of the figure: first the bots that cannot be ordered, then notes."""
    titles = {bot.bot.bot_id: bot.bot.title for bot in summary.bots}
    lead, notes = "", []
    compared = summary.compared
    if compared is not None and compared.n_pairs:
        close = [(titles.get(a, a), titles.get(b, b)) for a, b in compared.too_close]
        together = _one_group(close)
        if not close:
            lead = "Every pair of bots can be ordered"
        elif together:
            lead = f"{listed(together)} are too close to order"
        elif len(close) == compared.n_pairs:
            lead = "No two of these bots can be ordered"
        elif len(close) <= 4:
            lead = "Too close to order: {pairs}".format(pairs="; ".join(f"{a} and {b}" for a, b in close))
        else:
            lead = f"{len(close)} of {phrases.pairs_text(compared.n_pairs)} of bots are too close to order"
        told = test_said(compared)
        notes.append(
            f"({told} tells {compared.n_told_apart} of {phrases.pairs_text(compared.n_pairs)} apart)."
            if close
            else f"({told})."
        )
    if any(bot.bot.is_control for bot in summary.bots):
        notes.append("Hollow bar: control bot.")
    if summary.n_ratings:
        notes.append("Intervals are over raters, or over chats where raters are unnamed.")
    return lead, " ".join(notes)


def _one_group(close: Sequence[tuple[str, str]]) -> list[str]:
    """Return the bots of `close` if every two of them are in it, so that one sentence holds."""
    names = list(dict.fromkeys(name for pair in close for name in pair))
    if len(close) == len(names) * (len(names) - 1) / 2 and len(names) > 1:
        return names
    return []


def _rank(place: LeaderboardEntry | None) -> Cell:
    """Return the places that the tests leave open to a bot."""
    if place is None:
        return Cell(NONE, why="it has no ratings")
    if place.ranks is None:
        return Cell(NONE, why="a control bot has no rank")
    return Cell(ranks_shown(place.ranks), raw=place.ranks)


def _table(summary: StudySummary, link: Link) -> PageTable:
    level = round(LEVEL * 100)
    headers = [
        Header("Bot"),
        Header("Rank", numeric=True),
        Header("Ratings", numeric=True),
    ]
    places = {}
    if summary.means is not None and summary.compared is not None:
        places = {place.bot: place for place in leaderboard(summary.means, summary.compared).places}
    for dimension in summary.dimensions:
        headers += [Header(dimension.title, numeric=True), Header(f"{level} %", numeric=True)]
    headers += [Header("Up", numeric=True), Header("Down", numeric=True)]
    rows = []
    for bot in summary.bots:
        cells = [
            Cell(bot.bot.title, link(bot), slot=bot.bot.slot, hollow=bot.bot.is_control),
            _rank(places.get(bot.bot.bot_id)),
            Cell(str(bot.n_ratings)),
        ]
        for dimension in summary.dimensions:
            found = bot.intervals[dimension.key]
            why = reason_text(found.reason)
            cells += [
                Cell(figure(found.mean), why=why if found.mean is None else ""),
                Cell(span(found.low, found.high), why=why if found.low is None else ""),
            ]
        cells += [Cell(str(bot.votes_up)), Cell(str(bot.votes_down))]
        rows.append(cells)
    return PageTable(headers, rows)
