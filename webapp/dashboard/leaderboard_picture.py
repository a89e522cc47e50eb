"""Leaderboard by votes, and all leaderboards as picture files.

The rows by votes have no ranks, because nothing is tested. Pictures show what the page shows, in fixed places: a
page's rows are as wide as its reader lets them be, and a picture for a paper has no page around it. Its title and
description contain what the page says around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.number_format import NONE, percent
from evaluation.plots.marks import bot_shape, interval_mark
from evaluation.plots.svg import Plot, Scale, drawing, el, line, rect, text
from evaluation.plots.text_layout import NAME_PX, shorten, text_width, tick_label
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, Header, PageTable
from webapp.dashboard.charts.leaderboard import (
    LANE,
    Lane,
    Mark,
    ScaleWindow,
    around,
    axis_row,
    interval_row,
    whole,
)
from webapp.dashboard.leaderboard import (
    Board,
    BoardParams,
    BoardRow,
    HeadToHead,
    QuestionComparison,
)
from webapp.ratings.selectors import BotInfo
from webapp.results.study_data import StudyFrame
from webapp.search.index_statistics import VOTES_LEVEL, BotVotes, votes_ranked

VOTES = "votes"
"""Of the tab, in addresses."""


@dataclass(frozen=True, slots=True)
class VotesRow:
    """A bot: its votes as they are written, and drawn."""

    bot: BotInfo
    href: str
    n: str
    share: str
    ends: str
    drawn: Markup
    votes: BotVotes


@dataclass(frozen=True, slots=True)
class VotesBoard:
    """The votes as the page shows them."""

    method: str
    scale: str
    rows: list[VotesRow]
    axis: Markup
    window: ScaleWindow
    lead: str
    note: str
    table: PageTable


def votes_board(frame: StudyFrame, votes: Mapping[str, BotVotes], choice: BoardParams) -> VotesBoard:
    """Return the chosen bots by the share of votes up, the highest first; bots without a vote come last."""
    chosen = [bot for bot in frame.rated_bots if not choice.bots or bot in choice.bots]
    ranked = votes_ranked([bot for bot in chosen if bot in frame.bots], votes)
    found = [(frame.bots[one.bot_id], one) for one in ranked]
    window = whole(0, 100)
    if choice.zooms:
        ends = [100 * end for _bot, one in found for end in (one.low, one.high) if end is not None]
        window = around(ends, 0, 100)
    n_votes = sum(one.n for _bot, one in found)
    return VotesBoard(
        method=f"Share of votes up with {percent(VOTES_LEVEL)} interval; "
        "the votes of one conversation count as belonging together.",
        scale="Votes up, in %",
        rows=[_row(frame, bot, one, window) for bot, one in found],
        axis=axis_row(window),
        window=window,
        lead=plural(n_votes, "%(n)s vote on single replies.", "%(n)s votes on single replies.") % {"n": f"{n_votes:,}"},
        note="People vote when they like, often on what annoys them, so there are no ranks here. The tests are of "
        "ratings.",
        table=_table(frame, found),
    )


def _row(frame: StudyFrame, bot: BotInfo, one: BotVotes, window: ScaleWindow) -> VotesRow:
    share, low, high = (None if value is None else 100 * value for value in (one.share, one.low, one.high))
    return VotesRow(
        bot=bot,
        href=frame.link(bot.bot_id),
        n="{up} up, {down} down".format(up=f"{one.up:,}", down=f"{one.down:,}"),
        share=percent(one.share),
        ends=_ends(one),
        drawn=interval_row(window, share, low, high, hollow=bot.is_control),
        votes=one,
    )


def _ends(one: BotVotes) -> str:
    if one.low is None or one.high is None:
        return "no interval: votes in one conversation only" if one.n_chats else "no votes"
    return f"[{100 * one.low:.0f}, {100 * one.high:.0f}]"


def _table(frame: StudyFrame, found: list[tuple[BotInfo, BotVotes]]) -> PageTable:
    headers = [
        Header("Bot"),
        Header("Up", numeric=True),
        Header("Down", numeric=True),
        Header("Conversations", numeric=True),
        Header("Share up", numeric=True),
        Header(percent(VOTES_LEVEL), numeric=True),
    ]
    rows = [
        [
            Cell(bot.title, frame.link(bot.bot_id), slot=bot.slot, hollow=bot.is_control),
            Cell(f"{one.up:,}", raw=(one.up,)),
            Cell(f"{one.down:,}", raw=(one.down,)),
            Cell(f"{one.n_chats:,}", raw=(one.n_chats,)),
            Cell(percent(one.share), raw=(one.share,)),
            Cell(
                _ends(one) if one.low is not None else NONE,
                why=_ends(one) if one.low is None else "",
                raw=(one.low, one.high),
            ),
        ]
        for bot, one in found
    ]
    return PageTable(headers, rows)


WIDE = 760.0
ROW = 30.0
HEAD = 34.0
EDGE = 10.0
"""Pixels left free at the sides."""
GAP = 14.0
"""Pixels between columns."""


def board_picture(board: Board, study: str) -> Plot:
    """Return the leaderboard as an SVG document.

    Args:
        study: its name, for the title.
    """
    ends = [f"{row.mean} {row.ends}" for row in board.rows]
    ranks_end = EDGE + _widest(["Rank", *(row.ranks for row in board.rows)])
    names = ranks_end + GAP
    names_end = names + _names([row.bot for row in board.rows])
    n_end = names_end + GAP + _widest(["Ratings", *(row.n for row in board.rows)])
    bars = WIDE - EDGE - max(len(board.lanes) * LANE, _widest(["Too close"]))
    means_end = bars - GAP
    plot_end = means_end - GAP - _widest(["Mean", *ends], bold=True)
    scale = Scale(board.window.low, board.window.high, n_end + GAP + 6, plot_end - 6)
    bottom = HEAD + ROW * len(board.rows)
    parts: list[object] = [
        *_stripes(len(board.rows)),
        *_grid(board.window, scale, bottom),
        text(EDGE, 22, "Rank", class_="head"),
        text(names, 22, "Bot", class_="head"),
        text(n_end, 22, "Ratings", class_="head end"),
        text(scale.start, 22, shorten(board.scale, plot_end - scale.start, 12), class_="head"),
        text(means_end, 22, "Mean", class_="head end"),
    ]
    if any(board.lanes):
        parts.append(text(bars, 22, "Too close", class_="head"))
    for i, row in enumerate(board.rows):
        parts += _board_row(row, _middle(i), scale, names, names_end, n_end)
        parts.append(text(means_end, _middle(i) + 4.5, ends[i], class_="end strong"))
    parts += _bars(board.lanes, bars)
    parts += _axis(board.window, scale, bottom)
    return _alone(
        parts,
        bottom + (26 if board.window.is_whole else 60),
        title=f"{study}: {board.scale}",
        told=f"{board.method} {board.lead} {board.note}",
    )


def votes_picture(votes: VotesBoard, study: str) -> Plot:
    """Return the votes on single replies as an SVG document.

    Args:
        study: its name, for the title.
    """
    shares = [f"{row.share} {row.ends}" for row in votes.rows]
    names_end = EDGE + _names([row.bot for row in votes.rows])
    n_end = names_end + GAP + _widest(["Votes", *(row.n for row in votes.rows)])
    shares_end = WIDE - EDGE
    plot_end = shares_end - GAP - _widest(["Share up", *shares], bold=True)
    scale = Scale(votes.window.low, votes.window.high, n_end + GAP + 6, plot_end - 6)
    bottom = HEAD + ROW * len(votes.rows)
    parts: list[object] = [
        *_stripes(len(votes.rows)),
        *_grid(votes.window, scale, bottom),
        text(EDGE, 22, "Bot", class_="head"),
        text(n_end, 22, "Votes", class_="head end"),
        text(scale.start, 22, shorten(votes.scale, plot_end - scale.start, 12), class_="head"),
        text(shares_end, 22, "Share up", class_="head end"),
    ]
    for i, row in enumerate(votes.rows):
        y, found = _middle(i), row.votes
        parts += [
            *_name(row.bot, EDGE, y, names_end - EDGE),
            text(n_end, y + 4.5, row.n, class_="end"),
            text(shares_end, y + 4.5, shares[i], class_="end strong"),
        ]
        if found.share is not None:
            ends = [None if end is None else scale.held(100 * end) for end in (found.low, found.high)]
            x = scale.held(100 * found.share)
            parts.append(interval_mark(y, x, *ends, hollow=row.bot.is_control))
    parts += _axis(votes.window, scale, bottom)
    return _alone(
        parts,
        bottom + (26 if votes.window.is_whole else 60),
        title=f"{study}: {votes.scale}",
        told=f"{votes.method} {votes.lead} {votes.note}",
    )


def head_to_head_picture(against: HeadToHead, study: str) -> Plot:
    """Return two bots on all questions as an SVG document.

    Args:
        study: its name, for the title.
    """
    asked = against.questions
    gaps = [" ".join(filter(None, [one.gap, one.ends or one.why])) for one in asked]
    titles_end = EDGE + min(_widest([one.title for one in asked], bold=True), NAME_PX + 40)
    gaps_end = WIDE - EDGE
    room = min(_widest(["Difference", *gaps], bold=True), WIDE * 0.4)
    start, end = titles_end + GAP + 6, gaps_end - room - GAP - 6
    bottom = HEAD + ROW * len(asked)
    parts: list[object] = [*_stripes(len(asked)), *_two(against, start, end)]
    parts.append(text(gaps_end, 22, "Difference", class_="head end"))
    for i, one in enumerate(asked):
        scale = Scale(one.window.low, one.window.high, start, end)
        top, y = HEAD + i * ROW, _middle(i)
        heavy = "strong" if one.is_apart else None
        parts += [
            text(EDGE, y + 4.5, shorten(one.title, titles_end - EDGE, bold=True), class_=heavy),
            *(line(x, top, x, top + ROW, class_="grid") for x in map(scale, one.window.ticks)),
            *_two_marks(one, y, scale),
            text(gaps_end, y + 4.5, shorten(gaps[i], room, bold=True), class_=f"end {heavy or ''}"),
        ]
    if against.window is not None:
        parts += _axis(against.window, Scale(against.window.low, against.window.high, start, end), bottom)
    names = f"{against.first.title} against {against.second.title}"
    said = (
        f"Means of both, and their difference with {against.level} interval. Bold: the two differ significantly in "
        "this question, corrected for all pairs of bots."
    )
    return _alone(
        parts,
        bottom + (26 if against.window else 8),
        title=f"{study}: {names}",
        told=f"{said} {against.lead} {against.need}",
    )


def _alone(parts: Sequence[object], height: float, *, title: str, told: str) -> Plot:
    """Return the document: its title and description first, then white paper, which no style sheet can take away."""
    return Plot.of(
        drawing(
            WIDE,
            height,
            el("title", title),
            el("desc", " ".join(told.split())),
            rect(0, 0, WIDE, height, class_="paper", fill="#fff"),
            *parts,
            name=title,
            interactive=False,
        )
    )


def _board_row(row: BoardRow, y: float, scale: Scale, names: float, names_end: float, n_end: float) -> list[object]:
    found = row.place.mean
    hollow = row.bot.is_control
    parts: list[object] = [
        text(EDGE, y + 4.5, row.ranks),
        *_name(row.bot, names, y, names_end - names),
        text(n_end, y + 4.5, row.n, class_="end"),
    ]
    if found.mean is not None:
        ends: tuple[float | None, float | None] = (None, None)
        if found.low is not None and found.high is not None:
            ends = (scale.held(found.low), scale.held(found.high))
        parts.append(interval_mark(y, scale.held(found.mean), *ends, hollow=hollow))
    return parts


def _name(bot: BotInfo, x: float, y: float, room: float) -> list[object]:
    return [
        bot_shape(x + 8, y, bot.slot, hollow=bot.is_control),
        text(x + 24, y + 4.5, shorten(bot.title, room - 24)),
    ]


def _names(bots: Sequence[BotInfo]) -> float:
    """Return the pixels for the column of names; none of 24 letters is cut."""
    return min(24 + _widest([bot.title for bot in bots]), NAME_PX + 24)


def _two(against: HeadToHead, start: float, end: float) -> list[object]:
    """Name the two above the plot."""
    room = (end - start) / 2
    parts: list[object] = []
    for n, bot in enumerate((against.first, against.second)):
        parts += _name(bot, start + n * room, 17.5, room - 8)
    return parts


def _two_marks(one: QuestionComparison, y: float, scale: Scale) -> list[object]:
    known: list[Mark] = [mark for mark in one.marks if mark[0] is not None]
    xs = [scale.held(mean) for mean, _slot, _hollow in known if mean is not None]
    parts: list[object] = []
    if len(xs) == 2:
        parts.append(line(xs[0], y, xs[1], y, class_="between"))
    # The first of the two lies on top, as on the page.
    for x, (_mean, slot, hollow) in reversed(list(zip(xs, known, strict=True))):
        parts.append(bot_shape(x, y, slot, hollow=hollow))
    return parts


def _bars(lanes: Sequence[Lane], left: float) -> list[Markup]:
    """Draw the bars that join bots, thin where they pass one that does not belong to them."""
    parts = []
    for n, lane in enumerate(lanes):
        x = left + (n + 0.5) * LANE
        for first, last, rows in lane:
            for row in range(first, last + 1):
                top = HEAD + row * ROW + (ROW * 0.22 if row == first else 0)
                end = HEAD + (row + 1) * ROW - (ROW * 0.22 if row == last else 0)
                kind = "joins" if row in rows else "joins joins-past"
                parts.append(line(x, top, x, end, class_=kind))
    return parts


def _grid(window: ScaleWindow, scale: Scale, bottom: float) -> list[Markup]:
    return [line(x, HEAD, x, bottom, class_="grid") for x in map(scale, window.ticks)]


def _axis(window: ScaleWindow, scale: Scale, bottom: float) -> list[Markup]:
    """Write the ticks and, where not the whole scale is shown, draw a strip of all of it."""
    parts = [text(scale(tick), bottom + 17, tick_label(tick), class_="tick middle") for tick in window.ticks]
    if window.is_whole:
        return parts
    whole = Scale(*window.scale, scale.start, scale.end)
    start, end = whole(window.low), whole(window.high)
    return [
        *parts,
        rect(whole.start, bottom + 28, whole.end - whole.start, 6, rx=3, class_="strip"),
        rect(start, bottom + 28, end - start, 6, rx=3, class_="strip-shown"),
        text(whole.start, bottom + 49, tick_label(window.scale[0]), class_="tick"),
        text(whole.end, bottom + 49, tick_label(window.scale[1]), class_="tick end"),
    ]


def _stripes(n_rows: int) -> list[Markup]:
    return [rect(0, HEAD + i * ROW, WIDE, ROW, class_="zebra") for i in range(n_rows) if i % 2 == 0]


def _middle(row: int) -> float:
    return HEAD + row * ROW + ROW / 2


def _widest(texts: Sequence[str], *, bold: bool = False) -> float:
    return max((text_width(one, bold=bold) for one in texts), default=0.0)
