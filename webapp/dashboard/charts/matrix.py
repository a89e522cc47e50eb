"""Matrices on diverging colours: correlations, and differences of bots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from markupsafe import Markup

from evaluation.number_format import figure, probability, share, span
from evaluation.plots.charts import (
    WIDE,
    Differences,
    Pair,
    RatedBot,
    difference_ends,
    differences_drawing,
    names_width,
)
from evaluation.plots.marks import mark_link
from evaluation.plots.svg import drawing, rect, text
from evaluation.plots.text_layout import shorten, text_width
from evaluation.stats.comparisons import Comparison
from evaluation.stats.correlation import Correlation
from webapp.core.language import plural
from webapp.dashboard.charts.figure import Cell, Header, More, PageFigure, PageTable, Variant
from webapp.dashboard.narrative import phrases
from webapp.dashboard.narrative.phrases import reason_text
from webapp.ratings.selectors import BotInfo


def correlation_class(r: float | None) -> str:
    """Return one of nine colours from −1 to +1."""
    return "div-none" if r is None else f"div-{1 + round((r + 1) * 4)}"


def heatmap_figure(
    titles: Sequence[str],
    found: dict[tuple[int, int], Correlation],
    *,
    id: str = "heatmap",
    title: str,
    method: str,
    note: str = "",
) -> PageFigure:
    """Draw correlations as a square whose two halves show the same numbers.

    Args:
        found: correlations by (row, column) with row < column.
    """
    rows = []
    for (i, j), value in found.items():
        rows.append(
            [
                Cell(titles[i]),
                Cell(titles[j]),
                Cell(share(value.r), why=reason_text(value.reason), raw=(value.r,)),
                Cell(span(value.low, value.high, shares=True), raw=(value.low, value.high)),
                Cell(str(value.n), raw=(value.n,)),
            ]
        )
    headers = [Header("Dimension"), Header("With"), Header("ρ", numeric=True)]
    headers += [Header("95 %", numeric=True), Header("n", numeric=True)]
    return PageFigure(
        id=id,
        title=title,
        method=method,
        wide=_draw_heatmap(titles, found, 342, css="plot-wide plot-small")
        if len(titles) <= 6
        else _draw_heatmap(titles, found, 600, css="plot-wide"),
        narrow=[Variant("", _draw_heatmap(titles, found, 298, css=""))],
        table=PageTable(headers, rows),
        note=note,
    )


def _draw_heatmap(
    titles: Sequence[str], found: dict[tuple[int, int], Correlation], width: float, *, css: str
) -> Markup:
    n = len(titles)
    longest = max((text_width(title) for title in titles), default=40)
    names = min(longest + (38 if n > 6 else 14), width * 0.36)  # room for the row's number
    cell = min((width - names) / max(n, 1), 50)
    top = 22.0
    parts: list[object] = []
    many = n > 6  # then columns are numbered: there is no room for words above them
    for i, title in enumerate(titles):
        short = str(i + 1) if many else title[:4] + ("." if len(title) > 4 else "")
        row = f"{title} {i + 1}" if many else title
        y = top + (i + 0.5) * cell + 4.5
        parts.append(text(names + (i + 0.5) * cell, 12, short, class_="tick middle"))
        parts.append(text(names - 10, y, shorten(row, names - 10), class_="name end"))
        for j in range(n):
            x, y = names + j * cell, top + i * cell
            if i == j:
                parts.append(rect(x + 1, y + 1, cell - 2, cell - 2, rx=6, class_="cell-self"))
                continue
            value = found[(min(i, j), max(i, j))]
            css_class = correlation_class(value.r)
            says = f"{titles[i]} · {titles[j]}\nρ {share(value.r)} "
            says += span(value.low, value.high, shares=True) if value.r is not None else reason_text(value.reason)
            parts.append(
                mark_link(
                    None,
                    says,
                    rect(x + 1, y + 1, cell - 2, cell - 2, rx=6, class_=f"step {css_class}"),
                    text(
                        x + cell / 2,
                        y + cell / 2 + 4.5,
                        share(value.r),
                        class_=f"step-text {css_class}",
                    )
                    if cell >= 28
                    else None,
                )
            )
    y = top + n * cell + 16
    box = n * cell / 9
    for i in range(9):
        parts.append(rect(names + i * box, y, box - 0.8, 12, class_=f"step div-{i + 1}"))
    for x, label, css_class in (
        (names, "−1", "tick"),
        (names + n * cell / 2, "0", "tick middle"),
        (names + n * cell, "+1", "tick end"),
    ):
        parts.append(text(x, y + 27, label, class_=css_class))
    name = f"Rank correlations of {n} dimensions."
    return drawing(width, y + 32, *parts, name=name, interactive=True, class_=css or None)


MATRIX_WIDE, MATRIX_NARROW = 958.0, 298.0
ROW = 27.0

Found = dict[tuple[int, int], Correlation]


def matrix_figure(
    rows: Sequence[str],
    columns: Sequence[str],
    found: Found,
    *,
    id: str,
    title: str,
    method: str,
    symbol: str,
    sure: Collection[tuple[int, int]] = (),
    beside: tuple[str, Found] | None = None,
    note: str = "",
    note_lead: str = "",
    first: tuple[Sequence[int], str] = ((), ""),
) -> PageFigure:
    """Draw the correlation of every row with every column.

    Args:
        rows, columns: titles.
        found: by (row, column).
        symbol: of the coefficient, "r" or "ρ".
        sure: cells whose p-value survives correction: printed bold, marked in the table.
        beside: another coefficient of the same pairs for the table, with its title.
        first: places of the rows that matter first, and a sentence about them: these are drawn, and all on demand. None
            to draw all.
    """
    drawn = _drawings(rows, columns, found, symbol, sure)
    more = None
    leading, note_of_first = first
    if 0 < len(leading) < len(rows):
        title_all = plural(len(rows), "All %(n)s row", "All %(n)s rows") % {"n": len(rows)}
        more = More(title_all, note_of_first, *drawn)
        drawn = _drawings(
            [rows[i] for i in leading],
            columns,
            {(k, j): found[i, j] for k, i in enumerate(leading) for j in range(len(columns))},
            symbol,
            {(k, j) for k, i in enumerate(leading) for j in range(len(columns)) if (i, j) in sure},
        )
    wide, narrow = drawn
    table = _table(rows, columns, found, symbol, sure, beside)
    return PageFigure(id, title, method, wide, narrow, table, note, note_lead, more=more)


def _drawings(
    rows: Sequence[str],
    columns: Sequence[str],
    found: Found,
    symbol: str,
    sure: Collection[tuple[int, int]],
) -> tuple[Markup, list[Variant]]:
    """Return the drawings for wide and for narrow columns."""
    return (
        _draw_matrix(rows, columns, found, symbol, sure, MATRIX_WIDE, css="plot-wide"),
        [Variant("", _draw_matrix(rows, columns, found, symbol, sure, MATRIX_NARROW, css=""))],
    )


def _draw_matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    found: Found,
    symbol: str,
    sure: Collection[tuple[int, int]],
    width: float,
    *,
    css: str,
) -> Markup:
    names = min(max((text_width(t) for t in rows), default=60) + 12, width * 0.42)
    cell = min((width - names) / max(len(columns), 1), 104)
    wrapped = [_wrapped(title, cell - 4) for title in columns]
    spelled = all(text_width(line, 11) <= cell for lines in wrapped for line in lines)
    printed = cell >= 30
    parts: list[object] = []
    n_lines = max((len(lines) for lines in wrapped), default=1) if spelled else 1
    top = 8.0 + 14 * n_lines
    for j, lines in enumerate(wrapped):
        for k, shown in enumerate(lines if spelled else [str(j + 1)]):
            at = 13 + 14 * (k + n_lines - (len(lines) if spelled else 1))
            parts.append(text(names + (j + 0.5) * cell, at, shown, class_="tick middle small"))
    for i, title in enumerate(rows):
        y = top + i * ROW
        parts.append(text(names - 8, y + ROW / 2 + 4.5, shorten(title, names - 8), class_="name end"))
        for j, column in enumerate(columns):
            value = found[i, j]
            css_class = correlation_class(value.r)
            bold = " sure" if (i, j) in sure else ""
            says = f"{title} · {column}\n{symbol} {share(value.r)} " + (
                f"{span(value.low, value.high, shares=True)}\n{probability(value.p)}, n = {value.n}"
                if value.r is not None
                else reason_text(value.reason)
            )
            x = names + j * cell
            parts.append(
                mark_link(
                    None,
                    says,
                    rect(x + 1, y + 1, cell - 2, ROW - 2, rx=5, class_=f"step {css_class}"),
                    text(
                        x + cell / 2,
                        y + ROW / 2 + 4.5,
                        share(value.r),
                        class_=f"step-text {css_class}{bold}",
                    )
                    if printed
                    else None,
                )
            )
    y = top + len(rows) * ROW + 10
    if not spelled:
        for j, title in enumerate(columns):
            parts.append(text(2, y + 12 + 17 * j, shorten(f"{j + 1}  {title}", width), class_="tick"))
        y += 17 * len(columns) + 6
    name = f"{symbol} of {len(rows)} rows with {len(columns)} columns."
    return drawing(width, y + 4, *parts, name=name, interactive=True, class_=css or None)


def _wrapped(title: str, width: float) -> list[str]:
    """Break a title into as few lines as fit."""
    lines: list[str] = []
    for word in title.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, 11) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _table(
    rows: Sequence[str],
    columns: Sequence[str],
    found: Found,
    symbol: str,
    sure: Collection[tuple[int, int]],
    beside: tuple[str, Found] | None,
) -> PageTable:
    headers = [
        Header("Measure"),
        Header("With"),
        Header(symbol, numeric=True),
        Header("95 %", numeric=True),
        Header("p", numeric=True),
        Header("n", numeric=True),
        Header("Survives Holm"),
    ]
    if beside is not None:
        headers.append(Header(beside[0], numeric=True))
    lines = []
    for (i, j), value in found.items():
        cells = [
            Cell(rows[i]),
            Cell(columns[j]),
            Cell(
                share(value.r),
                why=reason_text(value.reason) if value.r is None else "",
                raw=(value.r,),
            ),
            Cell(span(value.low, value.high, shares=True), raw=(value.low, value.high)),
            Cell(probability(value.p).removeprefix("p ").removeprefix("= "), raw=(value.p,)),
            Cell(str(value.n), raw=(value.n,)),
            Cell("yes" if (i, j) in sure else "no" if value.p is not None else "–"),
        ]
        if beside is not None:
            other = beside[1][i, j]
            why = reason_text(other.reason) if other.r is None else ""
            cells.append(Cell(share(other.r), why=why, raw=(other.r,)))
        lines.append(cells)
    return PageTable(headers, lines)


DIFFERENCES_NARROW = 298.0


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
) -> PageFigure:
    """Draw the differences between bots, row minus column.

    Args:
        bots: best first; those without a comparison show why.
        pairs: by the bots' ids, in the order of `Comparison`.
        verdicts: a sentence for each pair.
        digits: after the point.
        level: of the intervals.
    """
    drawn = Differences(pairs, digits, "Holm", reason_text)
    rated = [RatedBot(bot.bot_id, bot.title, bot.slot, bot.is_control) for bot in bots]
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
            low, high = difference_ends(comparison, sign)
            gap = None if comparison.difference is None else sign * comparison.difference
            why = reason_text(comparison.reason)
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
    return PageFigure(
        "differences",
        title,
        method,
        _draw_differences(rated, rated, drawn, WIDE, css="plot-wide"),
        _narrow(rated, drawn),
        PageTable(headers, rows),
        note,
        note_lead,
    )


def _narrow(bots: Sequence[RatedBot], drawn: Differences) -> list[Variant]:
    """Make the drawings for narrow pages: the square where its numbers fit, else one column for each bot."""
    names = names_width(bots, DIFFERENCES_NARROW)
    if (DIFFERENCES_NARROW - names) / max(len(bots), 1) >= drawn.least_cell:
        return [Variant("", _draw_differences(bots, bots, drawn, DIFFERENCES_NARROW))]
    return [
        Variant(
            f"less {bot.title}",
            _draw_differences([other for other in bots if other != bot], [bot], drawn, DIFFERENCES_NARROW),
        )
        for bot in bots
    ]


def _draw_differences(
    rows: Sequence[RatedBot],
    columns: Sequence[RatedBot],
    drawn: Differences,
    width: float,
    css: str = "",
) -> Markup:
    n_bots = len({bot.bot_id for bot in [*rows, *columns]})
    name = f"Differences between the means of {phrases.bots_text(n_bots)}, row minus column."
    return differences_drawing(rows, columns, drawn, width, name=name, css=css)


def _p(value: float | None) -> str:
    return probability(value).removeprefix("p ").removeprefix("= ")
