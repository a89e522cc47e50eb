"""The votes on single replies as a tab of the comparison: a row for each bot, without ranks, for nothing is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.printing import NONE, percent
from webapp.core.speaking import plural
from webapp.dashboard.board import Choice
from webapp.dashboard.plots.board import Window, around, axis_row, interval_row, whole
from webapp.dashboard.plots.figure import Cell, Header, Table
from webapp.ratings.bots import BotInfo
from webapp.reading.votes import LEVEL, BotVotes, votes_ranked
from webapp.results.study_data import StudyFrame

NAME = "votes"
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
    window: Window
    lead: str
    note: str
    table: Table


def votes_board(frame: StudyFrame, votes: Mapping[str, BotVotes], choice: Choice) -> VotesBoard:
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
        method=f"Share of votes up with {percent(LEVEL)} interval; the votes of one conversation count as belonging "
        "together.",
        scale="Votes up, in %",
        rows=[_row(frame, bot, one, window) for bot, one in found],
        axis=axis_row(window),
        window=window,
        lead=plural(n_votes, "%(n)s vote on single replies.", "%(n)s votes on single replies.")
        % {"n": f"{n_votes:,}"},
        note="People vote when they like, often on what annoys them, so there are no ranks here. The tests are of "
        "ratings.",
        table=_table(frame, found),
    )


def _row(frame: StudyFrame, bot: BotInfo, one: BotVotes, window: Window) -> VotesRow:
    share, low, high = (
        None if value is None else 100 * value for value in (one.share, one.low, one.high)
    )
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
        return "no interval: votes in one conversation only" if one.n_chats else "nobody voted"
    return f"[{100 * one.low:.0f}, {100 * one.high:.0f}]"


def _table(frame: StudyFrame, found: list[tuple[BotInfo, BotVotes]]) -> Table:
    headers = [
        Header("Bot"),
        Header("Up", numeric=True),
        Header("Down", numeric=True),
        Header("Conversations", numeric=True),
        Header("Share up", numeric=True),
        Header(percent(LEVEL), numeric=True),
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
    return Table(headers, rows)
