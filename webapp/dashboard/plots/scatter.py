"""Human against predicted, a point for each bot, with the table beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from evaluation.plots.scatter import Point, scatter_drawing
from evaluation.printing import figure, span
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant

Ends = tuple[float, float] | None
"""The lowest and the highest value of a rating scale; None where it is not known, or nothing lies beyond it."""
CROWDED = 8
"""More points than these need the whole width of a page for their names."""


def scatter_figure(
    points: Sequence[Point],
    *,
    id: str,
    title: str,
    method: str,
    x_title: str,
    y_title: str,
    note: str,
    scale: Ends = None,
) -> Figure:
    """Draw the points; those without both values are in the table only.

    Args:
        scale: of the ratings; a prediction beyond its ends is drawn where it lies, and said to lie there.
    """
    drawn = [
        replace(point, says=_says(point, x_title, y_title, scale))
        for point in points
        if point.human is not None and point.predicted is not None
    ]
    drawn_as = partial(
        scatter_drawing,
        drawn,
        x_title=x_title,
        y_title=y_title,
        equal="equal",
        name=f"{counts.bots(len(drawn))}: {y_title.lower()} against {x_title.lower()}, with the line where both are "
        "equal.",
    )
    return Figure(
        id=id,
        title=title,
        method=method,
        wide=drawn_as(860, 500, css="plot-wide plot-grown")
        if len(drawn) > CROWDED
        else drawn_as(515, 390, css="plot-wide"),
        narrow=[Variant("", drawn_as(298, 480 if len(drawn) > CROWDED else 330, size=11))],
        table=_table(points, x_title, y_title, scale),
        note=note,
    )


def beyond_words(value: float | None, scale: Ends) -> str:
    """Say that a prediction lies beyond the rating scale; empty where it does not."""
    if value is None or scale is None or scale[0] <= value <= scale[1]:
        return ""
    words = "below the scale, whose lowest is {end}"
    if value > scale[1]:
        words = "above the scale, whose highest is {end}"
    return words.format(end=f"{scale[value > scale[1]]:g}")


def _says(point: Point, x_title: str, y_title: str, scale: Ends) -> str:
    human, predicted = point.human_span, point.predicted_span
    beyond = beyond_words(point.predicted, scale)
    return (
        f"{point.title}\n"
        f"{x_title} {figure(point.human)} {span(*human) if human else ''}\n"
        f"{y_title} {figure(point.predicted)} {span(*predicted) if predicted else ''}\n"
        + (f"{beyond}\n" if beyond else "")
        + counts.conversations(point.n)
    )


def _table(points: Sequence[Point], x_title: str, y_title: str, scale: Ends) -> Table:
    headers = [
        Header("Bot"),
        Header("n", numeric=True),
        Header(x_title, numeric=True),
        Header("90 %", numeric=True),
        Header(y_title, numeric=True),
        Header("90 %", numeric=True),
    ]
    rows = [
        [
            Cell(point.title, point.href, slot=point.slot, hollow=point.is_control),
            Cell(str(point.n)),
            Cell(figure(point.human), why="nobody rated it" if point.human is None else ""),
            Cell(span(*(point.human_span or (None, None)))),
            Cell(figure(point.predicted), why=beyond_words(point.predicted, scale)),
            Cell(span(*(point.predicted_span or (None, None)))),
        ]
        for point in points
    ]
    return Table(headers, rows)
