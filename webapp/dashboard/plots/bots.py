"""The comparison of a study's bots: its drawing, its table, and what may not be concluded from it."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.analysis.comparisons import LEVEL
from evaluation.analysis.leaderboard import Place, leaderboard, ranks_shown
from evaluation.plots.lettering import plain
from evaluation.printing import NONE, figure, percent, span
from webapp.dashboard import counts
from webapp.dashboard.plots.bots_drawing import Link, narrow_drawings, wide_drawing
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table
from webapp.dashboard.wording.reasons import said
from webapp.dashboard.wording.sections import listed
from webapp.dashboard.wording.verdicts import test_said
from webapp.results.summary import StudySummary


def bots_figure(summary: StudySummary, link: Link) -> Figure:
    """Draw the comparison of a study's bots.

    Args:
        link: the address of the conversations behind a bot's marks.
    """
    leading = summary.dimensions[0] if summary.dimensions else None
    given = [bot.n_ratings for bot in summary.bots if bot.n_ratings]
    method = f"Mean rating with {percent(LEVEL)} interval"
    if leading is not None:
        method = (
            f"Mean rating from {plain(leading.low)} to {plain(leading.high)} with {round(LEVEL * 100)} % interval, "
            f"sorted by {leading.title.lower()}."
        )
    if given:
        method += " " + (
            f"{counts.ratings(given[0])} per bot."
            if min(given) == max(given)
            else f"{min(given)} to {counts.ratings(max(given))} per bot."
        )
    lead, note = _notes(summary)
    return Figure(
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
            lead = "Too close to order: {pairs}".format(
                pairs="; ".join(f"{a} and {b}" for a, b in close)
            )
        else:
            lead = (
                f"{len(close)} of {counts.pairs(compared.n_pairs)} of bots are too close to order"
            )
        told = test_said(compared)
        notes.append(
            f"({told} tells {compared.n_told_apart} of {counts.pairs(compared.n_pairs)} apart)."
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


def _rank(place: Place | None) -> Cell:
    """Return the places that the tests leave open to a bot."""
    if place is None:
        return Cell(NONE, why="nobody rated it")
    if place.ranks is None:
        return Cell(NONE, why="a control bot has no rank")
    return Cell(ranks_shown(place.ranks), raw=place.ranks)


def _table(summary: StudySummary, link: Link) -> Table:
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
            why = said(found.reason)
            cells += [
                Cell(figure(found.mean), why=why if found.mean is None else ""),
                Cell(span(found.low, found.high), why=why if found.low is None else ""),
            ]
        cells += [Cell(str(bot.votes_up)), Cell(str(bot.votes_down))]
        rows.append(cells)
    return Table(headers, rows)
