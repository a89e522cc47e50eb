"""Correlations of one list of things with another: rows of numbers on the diverging colours."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from markupsafe import Markup

from evaluation.plots.lettering import shorten, text_width
from evaluation.plots.marks import mark_link
from evaluation.plots.svg import drawing, rect, text
from evaluation.printing import probability, share, span
from evaluation.stats.correlation import Correlation
from webapp.core.speaking import plural
from webapp.dashboard.plots.figure import Cell, Figure, Header, More, Table, Variant
from webapp.dashboard.plots.heatmap import correlation_class
from webapp.dashboard.wording.reasons import said

WIDE, NARROW = 958.0, 298.0
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
) -> Figure:
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
    return Figure(id, title, method, wide, narrow, table, note, note_lead, more=more)


def _drawings(
    rows: Sequence[str],
    columns: Sequence[str],
    found: Found,
    symbol: str,
    sure: Collection[tuple[int, int]],
) -> tuple[Markup, list[Variant]]:
    """Return the drawings for wide and for narrow columns."""
    return (
        _draw(rows, columns, found, symbol, sure, WIDE, css="plot-wide"),
        [Variant("", _draw(rows, columns, found, symbol, sure, NARROW, css=""))],
    )


def _draw(
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
        parts.append(
            text(names - 8, y + ROW / 2 + 4.5, shorten(title, names - 8), class_="name end")
        )
        for j, column in enumerate(columns):
            value = found[i, j]
            css_class = correlation_class(value.r)
            bold = " sure" if (i, j) in sure else ""
            says = f"{title} · {column}\n{symbol} {share(value.r)} " + (
                f"{span(value.low, value.high, shares=True)}\n{probability(value.p)}, n = {value.n}"
                if value.r is not None
                else said(value.reason)
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
            parts.append(
                text(2, y + 12 + 17 * j, shorten(f"{j + 1}  {title}", width), class_="tick")
            )
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
) -> Table:
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
            Cell(share(value.r), why=said(value.reason) if value.r is None else "", raw=(value.r,)),
            Cell(span(value.low, value.high, shares=True), raw=(value.low, value.high)),
            Cell(probability(value.p).removeprefix("p ").removeprefix("= "), raw=(value.p,)),
            Cell(str(value.n), raw=(value.n,)),
            Cell("yes" if (i, j) in sure else "no" if value.p is not None else "–"),
        ]
        if beside is not None:
            other = beside[1][i, j]
            why = said(other.reason) if other.r is None else ""
            cells.append(Cell(share(other.r), why=why, raw=(other.r,)))
        lines.append(cells)
    return Table(headers, lines)
