"""Matrices on diverging colours: correlations, and differences of bots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evaluation.data.result_tables import (
    Cell,
    PageTable,
    count_cell,
    linked,
    number_cell,
    p_cell,
    page_table,
    share_cell,
    span_cell,
)
from evaluation.number_format import percent, probability, share, span
from evaluation.plots.charts import (
    WIDE,
    Differences,
    GridCell,
    Pair,
    RatedBot,
    difference_ends,
    differences_drawing,
    diverging_class,
    grid_drawing,
    names_width,
)
from evaluation.plots.rows import RowName
from evaluation.plots.text_layout import text_width
from evaluation.stats.comparisons import Comparison
from evaluation.stats.correlation import Correlation
from webapp.core.language import plural
from webapp.insights.charts.figure import NARROW, CompleteDrawing, PageFigure, Variant, for_widths
from webapp.insights.narrative import phrases
from webapp.insights.narrative.phrases import reason_text
from webapp.ratings.selectors import BotInfo


def heatmap_figure(
    titles: Sequence[str],
    correlations: dict[tuple[int, int], Correlation],
    *,
    id: str = "heatmap",
    links: Mapping[tuple[int, int], str] | None = None,
    **texts: Any,
) -> PageFigure:
    """Draw correlations as a square whose two halves show the same numbers.

    Args:
        correlations: correlations by (row, column) with row < column.
        links: addresses of the conversations behind a cell, by the same keys.
        texts: `title`, `method` and `note` of the figure.
    """
    table = page_table(
        correlations.items(),
        (("Dimension", "With"), lambda row: [Cell(titles[place]) for place in row[0]]),
        (
            "ρ",
            lambda row: linked(
                [share_cell(row[1].r, reason=reason_text(row[1].reason))], (links or {}).get(row[0], "")
            )[0],
        ),
        ("95 %", lambda row: span_cell(row[1].low, row[1].high, shares=True, reason=reason_text(row[1].reason))),
        ("n", lambda row: count_cell(row[1].n)),
    )
    both_halves = {**correlations, **{(j, i): value for (i, j), value in correlations.items()}}
    is_small = len(titles) <= 6
    name = f"Rank correlations of {len(titles)} dimensions."

    def draw(width: float, css: str) -> Markup:
        css += " plot-small" if css and is_small else ""
        both_links = {**(links or {}), **{(j, i): href for (i, j), href in (links or {}).items()}}
        return _draw(titles, titles, both_halves, "ρ", (), width, name=name, css=css, links=both_links)

    wide, narrow = for_widths(draw, 400.0 if is_small else 640.0)
    return PageFigure(id, wide=wide, narrow=narrow, table=table, **texts)


CorrelationGrid = dict[tuple[int, int], Correlation]


def matrix_figure(
    rows: Sequence[str],
    columns: Sequence[str],
    correlations: CorrelationGrid,
    *,
    symbol: str,
    sure: Collection[tuple[int, int]] = (),
    q: Mapping[tuple[int, int], float | None] | None = None,
    other_coefficient: tuple[str, CorrelationGrid] | None = None,
    first: tuple[Sequence[int], str] = ((), ""),
    links: Mapping[tuple[int, int], str] | None = None,
    **texts: Any,
) -> PageFigure:
    """Draw the correlation of every row with every column.

    Args:
        rows, columns: titles.
        correlations: by (row, column).
        symbol: of the coefficient, "r" or "ρ".
        sure: cells that are significant after correction: printed bold, marked in the table.
        q: false discovery rates, for the table.
        other_coefficient: another coefficient of the same pairs for the table, with its title.
        first: places of the rows that matter first, and a sentence about them: these are drawn, and all on demand. None
            to draw all.
        links: addresses of the conversations behind a cell.
        texts: of `PageFigure`.
    """
    links = links or {}
    drawings = _drawings(rows, columns, correlations, symbol, sure, links)
    complete = None
    leading, note_of_first = first
    if 0 < len(leading) < len(rows):
        title_all = plural(len(rows), "All %(n)s row", "All %(n)s rows") % {"n": len(rows)}
        complete = CompleteDrawing(title_all, note_of_first, *drawings)
        drawings = _drawings(
            [rows[i] for i in leading],
            columns,
            {(k, j): correlations[i, j] for k, i in enumerate(leading) for j in range(len(columns))},
            symbol,
            {(k, j) for k, i in enumerate(leading) for j in range(len(columns)) if (i, j) in sure},
            {(k, j): links.get((i, j), "") for k, i in enumerate(leading) for j in range(len(columns))},
        )
    wide, narrow = drawings
    table = _table(rows, columns, correlations, symbol, sure, q or {}, other_coefficient, links)
    return PageFigure(wide=wide, narrow=narrow, table=table, complete=complete, **texts)


def _drawings(
    rows: Sequence[str],
    columns: Sequence[str],
    correlations: CorrelationGrid,
    symbol: str,
    sure: Collection[tuple[int, int]],
    links: Mapping[tuple[int, int], str],
) -> tuple[Markup, list[Variant]]:
    """Return the drawings for wide and for narrow columns."""
    name = f"{symbol} for {len(rows)} rows and {len(columns)} columns."
    return for_widths(
        lambda width, css: _draw(rows, columns, correlations, symbol, sure, width, links=links, name=name, css=css),
        WIDE,
    )


def _draw(
    rows: Sequence[str],
    columns: Sequence[str],
    correlations: CorrelationGrid,
    symbol: str,
    sure: Collection[tuple[int, int]],
    width: float,
    *,
    name: str,
    css: str,
    links: Mapping[tuple[int, int], str],
) -> Markup:
    cells = {}
    for (i, j), value in correlations.items():
        says = f"{rows[i]} · {columns[j]}\n{symbol} {share(value.r)} "
        if value.r is None:
            says += reason_text(value.reason)
        else:
            says += span(value.low, value.high, shares=True)
            says += f"\n{probability(value.p)}, n = {value.n}" if value.p is not None else ""
        cells[i, j] = GridCell(
            share(value.r), diverging_class(value.r), says, (i, j) in sure, href=links.get((i, j), "")
        )
    return grid_drawing(
        [RowName(title) for title in rows],
        [RowName(title) for title in columns],
        cells,
        width,
        name=name,
        most_cell=104,
        css=css,
    )


def _table(
    rows: Sequence[str],
    columns: Sequence[str],
    correlations: CorrelationGrid,
    symbol: str,
    sure: Collection[tuple[int, int]],
    q: Mapping[tuple[int, int], float | None],
    other_coefficient: tuple[str, CorrelationGrid] | None,
    links: Mapping[tuple[int, int], str],
) -> PageTable:
    def make_other_cell(place: tuple[int, int]) -> Cell:
        value = other_coefficient[1][place]  # type: ignore[index]
        return share_cell(value.r, reason=reason_text(value.reason))

    return page_table(
        correlations.items(),
        ("Measure", lambda row: Cell(rows[row[0][0]])),
        ("With", lambda row: Cell(columns[row[0][1]])),
        (
            symbol,
            lambda row: linked([share_cell(row[1].r, reason=reason_text(row[1].reason))], links.get(row[0], ""))[0],
        ),
        ("95 %", lambda row: span_cell(row[1].low, row[1].high, shares=True, reason=reason_text(row[1].reason))),
        ("p", lambda row: p_cell(row[1].p, reason_text(row[1].reason))),
        ("n", lambda row: count_cell(row[1].n)),
        (
            ("Significant after Holm"),
            lambda row: Cell("yes" if row[0] in sure else "no" if row[1].p is not None else "–"),
        ),
        *([("q", lambda row: p_cell(q.get(row[0])))] if q else []),
        *([(other_coefficient[0], lambda row: make_other_cell(row[0]))] if other_coefficient is not None else []),
    )


def differences_figure(
    bots: Sequence[BotInfo],
    pairs: Mapping[Pair, Comparison],
    verdicts: Mapping[Pair, str],
    *,
    digits: int,
    level: float,
    link: Callable[[str, str], str] = lambda a, b: "",
    **texts: Any,
) -> PageFigure:
    """Draw the differences between bots, row minus column.

    Args:
        bots: best first; those without a comparison show why.
        pairs: by the bots' ids, in the order of `Comparison`.
        verdicts: a sentence for each pair.
        digits: after the point.
        level: of the intervals.
        link: address of the conversations of two bots.
        texts: `title`, `method` and notes of the figure.
    """
    differences = Differences(pairs, digits, "Holm", reason_text, link)
    rated = [RatedBot(bot.bot_id, bot.title, bot.slot, bot.is_control) for bot in bots]
    titles = {bot.bot_id: bot.title for bot in bots}
    bot_pairs = [(bot.bot_id, other.bot_id) for i, bot in enumerate(bots) for other in bots[i + 1 :]]

    def difference(row: tuple[Comparison, int]) -> list[Cell]:
        comparison, sign = row
        gap = None if comparison.difference is None else sign * comparison.difference
        reason = reason_text(comparison.reason)
        return [
            number_cell(gap, digits, reason),
            span_cell(*difference_ends(comparison, sign), digits, reason=reason),
            p_cell(comparison.p, reason),
            p_cell(comparison.p_holm, reason),
            Cell(verdicts.get((comparison.a, comparison.b), "")),
        ]

    table = page_table(
        [
            (pair, signed_comparison)
            for pair in bot_pairs
            if (signed_comparison := differences.get_pair(*pair)) is not None
        ],
        ("Pair", lambda row: Cell(f"{titles[row[0][0]]} − {titles[row[0][1]]}", link(*row[0]))),
        (("Difference", percent(level), "p", "p, Holm", "Conclusion"), lambda row: difference(row[1])),
    )
    wide = _draw_differences(rated, rated, differences, WIDE, css="plot-wide")
    return PageFigure("differences", wide=wide, narrow=_narrow(rated, differences), table=table, **texts)


def _narrow(bots: Sequence[RatedBot], differences: Differences) -> list[Variant]:
    """Make the drawings for narrow pages.

    These are the square if its numbers fit, otherwise one column for each bot.
    """
    names = names_width(max((text_width(bot.title) for bot in bots), default=60.0), NARROW) + 24
    if (NARROW - names) / max(len(bots), 1) >= differences.least_cell:
        return [Variant("", _draw_differences(bots, bots, differences, NARROW))]
    return [
        Variant(
            f"minus {bot.title}",
            _draw_differences([other for other in bots if other != bot], [bot], differences, NARROW),
        )
        for bot in bots
    ]


def _draw_differences(
    rows: Sequence[RatedBot], columns: Sequence[RatedBot], differences: Differences, width: float, css: str = ""
) -> Markup:
    n_bots = len({bot.bot_id for bot in [*rows, *columns]})
    name = f"Differences between the means of {phrases.bots_text(n_bots)}, row minus column."
    return differences_drawing(rows, columns, differences, width, name=name, css=css)
