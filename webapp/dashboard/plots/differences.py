"""Every bot against every other: differences of means as a square, coloured where they can be put in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from evaluation.plots.differences import (
    WIDE,
    Differences,
    Pair,
    Rated,
    differences_drawing,
    ends,
    names_width,
)
from evaluation.printing import figure, probability, span
from evaluation.stats.compare import Comparison
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.dashboard.wording.reasons import said
from webapp.ratings.bots import BotInfo

NARROW = 298.0


def differences_figure(
    bots: Sequence[BotInfo],
    pairs: Mapping[Pair, Comparison],
    verdicts: Mapping[Pair, str],
    *,
    digits: int,
    title: str,
    method: str,
    level: float,
    note: str = "",
    note_lead: str = "",
) -> Figure:
    """Draw the differences between bots, row minus column.

    Args:
        bots: best first; those without a comparison show why.
        pairs: by the bots' ids, in the order of `Comparison`.
        verdicts: a sentence for each pair.
        digits: after the point.
        level: of the intervals.
    """
    drawn = Differences(pairs, digits, "Holm", said)
    rated = [Rated(bot.bot_id, bot.title, bot.slot, bot.is_control) for bot in bots]
    headers = [
        Header("Pair"),
        Header("Difference", numeric=True),
        Header(f"{round(level * 100)} %", numeric=True),
        Header("p", numeric=True),
        Header("p, Holm", numeric=True),
        Header("In words"),
    ]
    titles = {bot.bot_id: bot.title for bot in bots}
    rows = []
    for i, bot in enumerate(bots):
        for other in bots[i + 1 :]:
            found = drawn.of(bot.bot_id, other.bot_id)
            if found is None:
                continue
            comparison, sign = found
            low, high = ends(comparison, sign)
            gap = None if comparison.difference is None else sign * comparison.difference
            why = said(comparison.reason)
            rows.append(
                [
                    Cell(f"{titles[bot.bot_id]} − {titles[other.bot_id]}"),
                    Cell(figure(gap, digits), why=why if gap is None else "", raw=(gap,)),
                    Cell(span(low, high, digits), why=why if low is None else "", raw=(low, high)),
                    Cell(_p(comparison.p), why=why, raw=(comparison.p,)),
                    Cell(_p(comparison.p_holm), why=why, raw=(comparison.p_holm,)),
                    Cell(verdicts.get((comparison.a, comparison.b), "")),
                ]
            )
    return Figure(
        "differences",
        title,
        method,
        _draw(rated, rated, drawn, WIDE, css="plot-wide"),
        _narrow(rated, drawn),
        Table(headers, rows),
        note,
        note_lead,
    )


def _narrow(bots: Sequence[Rated], drawn: Differences) -> list[Variant]:
    """Make the drawings for narrow pages: the square where its numbers fit, else one column for each bot."""
    names = names_width(bots, NARROW)
    if (NARROW - names) / max(len(bots), 1) >= drawn.least_cell:
        return [Variant("", _draw(bots, bots, drawn, NARROW))]
    return [
        Variant(
            f"less {bot.title}",
            _draw([other for other in bots if other != bot], [bot], drawn, NARROW),
        )
        for bot in bots
    ]


def _draw(
    rows: Sequence[Rated],
    columns: Sequence[Rated],
    drawn: Differences,
    width: float,
    css: str = "",
) -> Markup:
    name = (
        f"Differences between the means of {counts.bots(len({bot.bot_id for bot in [*rows, *columns]}))}, row minus "
        "column."
    )
    return differences_drawing(rows, columns, drawn, width, name=name, css=css)


def _p(value: float | None) -> str:
    return probability(value).removeprefix("p ").removeprefix("= ")
