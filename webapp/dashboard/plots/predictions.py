"""Predicted ratings of bots that nobody rated: a row for each, best first, beside what rated bots span."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from evaluation.plots.lettering import plain, shorten, text_width
from evaluation.plots.marks import bot_shape, mark_link, slot_class
from evaluation.plots.scale import Scale, padded, ticks
from evaluation.plots.scatter import Point
from evaluation.plots.svg import drawing, group, line, rect, text
from evaluation.printing import figure, span
from webapp.dashboard import counts
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant
from webapp.dashboard.plots.scatter import Ends, beyond_words

ROW = 30.0


def predictions_figure(
    points: Sequence[Point],
    rated: tuple[float, float] | None,
    *,
    id: str,
    title: str,
    method: str,
    scale: Ends = None,
) -> Figure:
    """Draw bots with a prediction and no human mean.

    Args:
        rated: lowest and highest human mean of the bots that were rated; None if none was.
        scale: as of `scatter_figure`.
    """
    ordered = sorted(points, key=lambda point: -(point.predicted or 0))
    beyond = [p for p in ordered if rated and not rated[0] <= (p.predicted or 0) <= rated[1]]
    note = ""
    if rated:
        note = "Shaded: from the lowest to the highest mean of the rated bots."
        if beyond:
            note += " " + "Outside it no rating by people supports a prediction."
    return Figure(
        id=id,
        title=title,
        method=method,
        wide=_draw(ordered, rated, 515, css="plot-wide"),
        narrow=[Variant("", _draw(ordered, rated, 298, css=""))],
        table=Table(
            [
                Header("Bot"),
                Header("n", numeric=True),
                Header("Predicted", numeric=True),
                Header("90 %", numeric=True),
            ],
            [
                [
                    Cell(p.title, p.href, slot=p.slot, hollow=p.is_control),
                    Cell(str(p.n)),
                    Cell(figure(p.predicted), why=beyond_words(p.predicted, scale)),
                    Cell(span(*(p.predicted_span or (None, None)))),
                ]
                for p in ordered
            ],
        ),
        note=note,
    )


def _draw(
    points: Sequence[Point], rated: tuple[float, float] | None, width: float, *, css: str
) -> Markup:
    names = min(max((text_width(p.title) for p in points), default=60) + 32, width * 0.46)
    values = [v for p in points for v in (p.predicted, *(p.predicted_span or ())) if v is not None]
    low, high = padded([*values, *(rated or ())] or [0.0, 1.0])
    x = Scale(low, high, names + 8, width - 50)
    bottom = ROW * len(points) + 4
    parts: list[object] = []
    if rated:
        parts.append(rect(x(rated[0]), 0, x(rated[1]) - x(rated[0]), bottom, class_="rated-span"))
    for tick in ticks(low, high, 5 if width > 400 else 3):
        parts.append(line(x(tick), 0, x(tick), bottom, class_="grid"))
        parts.append(text(x(tick), bottom + 17, plain(tick), class_="tick middle"))
    for i, point in enumerate(points):
        y, at = ROW * i + ROW / 2, x(point.predicted or 0)
        ends = point.predicted_span
        says = (
            f"{point.title}\n{figure(point.predicted)} {span(*ends) if ends else ''}\n"
            + f"{counts.conversations(point.n)} with itself"
        )
        parts += [
            text(22, y + 4.5, shorten(point.title, names - 26), class_="name"),
            bot_shape(10, y, point.slot, hollow=point.is_control),
            mark_link(
                point.href or None,
                says,
                rect(names + 4, y - 12, width - names - 54, 24, class_="hit"),
                line(x(ends[0]), y, x(ends[1]), y, class_=f"whisker {slot_class(point.slot)}")
                if ends
                else None,
                group(bot_shape(at, y, point.slot, r=6, hollow=point.is_control), class_="haloed"),
            ),
            text(width - 2, y + 4.5, figure(point.predicted), class_="value-light end"),
        ]
    name = f"Predicted ratings of {counts.bots(len(points))} with their intervals, best first."
    return drawing(width, bottom + 24, *parts, name=name, interactive=True, class_=css or None)
