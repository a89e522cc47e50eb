"""The comparison of a study's bots: its drawing, its table, and what may not be concluded from it."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

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
    method = _("Mean rating with {level} interval").format(level=percent(LEVEL))
    if leading is not None:
        method = _(
            "Mean rating from {low} to {high} with {level} % interval, sorted by {name}."
        ).format(
            low=plain(leading.low),
            high=plain(leading.high),
            level=round(LEVEL * 100),
            name=leading.title.lower(),
        )
    if given:
        method += " " + (
            _("{ratings} per bot.").format(ratings=counts.ratings(given[0]))
            if min(given) == max(given)
            else _("{low} to {ratings} per bot.").format(
                low=min(given), ratings=counts.ratings(max(given))
            )
        )
    lead, note = _notes(summary)
    return Figure(
        id="bots",
        title=_("What people thought of each bot"),
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
            lead = _("Every pair of bots can be ordered")
        elif together:
            lead = _("{names} are too close to order").format(names=listed(together))
        elif len(close) == compared.n_pairs:
            lead = _("No two of these bots can be ordered")
        elif len(close) <= 4:
            lead = _("Too close to order: {pairs}").format(
                pairs="; ".join(_("{a} and {b}").format(a=a, b=b) for a, b in close)
            )
        else:
            lead = _("{n} of {pairs} of bots are too close to order").format(
                n=len(close), pairs=counts.pairs(compared.n_pairs)
            )
        told = test_said(compared)
        notes.append(
            _("({told} tells {n} of {pairs} apart).").format(
                told=told, n=compared.n_told_apart, pairs=counts.pairs(compared.n_pairs)
            )
            if close
            else f"({told})."
        )
    if any(bot.bot.is_control for bot in summary.bots):
        notes.append(_("Hollow bar: control bot."))
    if summary.n_ratings:
        notes.append(_("Intervals are over raters, or over chats where raters are unnamed."))
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
        return Cell(NONE, why=_("nobody rated it"))
    if place.ranks is None:
        return Cell(NONE, why=_("a control bot has no rank"))
    return Cell(ranks_shown(place.ranks), raw=place.ranks)


def _table(summary: StudySummary, link: Link) -> Table:
    level = round(LEVEL * 100)
    headers = [
        Header(_("Bot")),
        Header(_("Rank"), numeric=True),
        Header(_("Ratings"), numeric=True),
    ]
    places = {}
    if summary.means is not None and summary.compared is not None:
        places = {place.bot: place for place in leaderboard(summary.means, summary.compared).places}
    for dimension in summary.dimensions:
        headers += [Header(dimension.title, numeric=True), Header(f"{level} %", numeric=True)]
    headers += [Header(_("Up"), numeric=True), Header(_("Down"), numeric=True)]
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
