"""Graph of the keywords of a context and a reply, as in Figure 5 of Huang et al. (2020)."""

from __future__ import annotations

from markupsafe import Markup

from evaluation.data.result_tables import Cell, number_cell, page_table
from evaluation.metrics.explanations import KeywordGraph, shorten
from evaluation.plots.svg import drawing, line, text
from webapp.insights.charts.figure import TEXT_WIDE, PageFigure, for_widths

_ROW, _TOP = 26.0, 34.0


def keyword_figure(graph: KeywordGraph, *, id: str, title: str) -> PageFigure:
    """Draw the context's keywords on the left, the reply's on the right, and the paths between them."""
    n_missing = sum(hops >= graph.far for row in graph.hops for hops in row)
    n_pairs = len(graph.context) * len(graph.reply)
    wide, narrow = for_widths(lambda width, css: _draw(graph, width, title, css=css), TEXT_WIDE)
    table = page_table(
        list(zip(graph.context, graph.hops, strict=True)),
        ("Keyword of the context", lambda row: Cell(row[0])),
        (list(graph.reply), lambda row: [number_cell(None if x >= graph.far else x, 0, "no path") for x in row[1]]),
    )
    return PageFigure(
        id=id,
        title=title,
        method="Hops between the keywords of context (left) and reply (right). Thicker lines are shorter paths.",
        wide=wide,
        narrow=narrow,
        table=table,
        note=f"{n_missing} of {n_pairs} pairs have no path and count as {graph.far} hops." if n_missing else "",
    )


def _draw(graph: KeywordGraph, width: float, title: str, *, css: str) -> Markup:
    height = _TOP + _ROW * max(len(graph.context), len(graph.reply))
    left, right = width * 0.34, width * 0.66
    parts: list[Markup] = [text(left, 14, "Context", class_="tick end"), text(right, 14, "Reply", class_="tick")]
    rows = [_heights(len(words), height) for words in (graph.context, graph.reply)]
    for i, hops_of_word in enumerate(graph.hops):
        for j, hops in enumerate(hops_of_word):
            if hops < graph.far:
                parts.append(
                    line(
                        left + 8,
                        rows[0][i] - 4,
                        right - 8,
                        rows[1][j] - 4,
                        class_="axis",
                        stroke_width=round(6 / hops, 2),
                    )
                )
    limit = 20 if css else 13
    parts += [text(left, y, shorten(w, limit), class_="label end") for w, y in zip(graph.context, rows[0], strict=True)]
    parts += [text(right, y, shorten(w, limit), class_="label") for w, y in zip(graph.reply, rows[1], strict=True)]
    name = f"{title}: {len(graph.context)} keywords of the context, {len(graph.reply)} of the reply."
    return drawing(width, height, *parts, name=name, interactive=False, class_=css or None)


def _heights(n: int, height: float) -> list[float]:
    """Return the baselines of `n` words, evenly distributed."""
    step = (height - _TOP) / max(n, 1)
    return [_TOP + step * (k + 0.5) for k in range(n)]
