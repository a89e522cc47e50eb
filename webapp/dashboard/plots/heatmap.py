"""Correlations of every two dimensions as a square of numbers on the diverging colours."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from evaluation.plots.lettering import shorten, text_width
from evaluation.plots.marks import mark_link
from evaluation.plots.svg import drawing, rect, text
from evaluation.printing import share, span
from evaluation.stats.correlation import Correlation
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.dashboard.wording.reasons import said


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
) -> Figure:
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
                Cell(share(value.r), why=said(value.reason), raw=(value.r,)),
                Cell(span(value.low, value.high, shares=True), raw=(value.low, value.high)),
                Cell(str(value.n), raw=(value.n,)),
            ]
        )
    headers = [Header("Dimension"), Header("With"), Header("ρ", numeric=True)]
    headers += [Header("95 %", numeric=True), Header("n", numeric=True)]
    return Figure(
        id=id,
        title=title,
        method=method,
        wide=_draw(titles, found, 342, css="plot-wide plot-small")
        if len(titles) <= 6
        else _draw(titles, found, 600, css="plot-wide"),
        narrow=[Variant("", _draw(titles, found, 298, css=""))],
        table=Table(headers, rows),
        note=note,
    )


def _draw(
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
            says += (
                span(value.low, value.high, shares=True)
                if value.r is not None
                else said(value.reason)
            )
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
