"""Human against predicted, a point for each bot, with the table beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from django.utils.translation import gettext as _

from evaluation.plots.scatter import Point, scatter_drawing
from evaluation.printing import figure, span
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant

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
) -> Figure:
    """Draw the points; those without both values are in the table only."""
    drawn = [
        replace(point, says=_says(point, x_title, y_title))
        for point in points
        if point.human is not None and point.predicted is not None
    ]
    drawn_as = partial(
        scatter_drawing,
        drawn,
        x_title=x_title,
        y_title=y_title,
        equal=_("equal"),
        name=_("{bots}: {y} against {x}, with the line where both are equal.").format(
            bots=counts.bots(len(drawn)), y=y_title.lower(), x=x_title.lower()
        ),
    )
    return Figure(
        id=id,
        title=title,
        method=method,
        wide=drawn_as(860, 500, css="plot-wide plot-grown")
        if len(drawn) > CROWDED
        else drawn_as(515, 390, css="plot-wide"),
        narrow=[Variant("", drawn_as(298, 480 if len(drawn) > CROWDED else 330, size=11))],
        table=_table(points, x_title, y_title),
        note=note,
    )


def _says(point: Point, x_title: str, y_title: str) -> str:
    human, predicted = point.human_span, point.predicted_span
    return (
        f"{point.title}\n"
        f"{x_title} {figure(point.human)} {span(*human) if human else ''}\n"
        f"{y_title} {figure(point.predicted)} {span(*predicted) if predicted else ''}\n"
        + counts.conversations(point.n)
    )


def _table(points: Sequence[Point], x_title: str, y_title: str) -> Table:
    headers = [
        Header(_("Bot")),
        Header("n", numeric=True),
        Header(x_title, numeric=True),
        Header(_("90 %"), numeric=True),
        Header(y_title, numeric=True),
        Header(_("90 %"), numeric=True),
    ]
    rows = [
        [
            Cell(point.title, point.href, slot=point.slot, hollow=point.is_control),
            Cell(str(point.n)),
            Cell(figure(point.human), why=_("nobody rated it") if point.human is None else ""),
            Cell(span(*(point.human_span or (None, None)))),
            Cell(figure(point.predicted)),
            Cell(span(*(point.predicted_span or (None, None)))),
        ]
        for point in points
    ]
    return Table(headers, rows)
