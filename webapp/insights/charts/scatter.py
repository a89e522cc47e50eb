"""Charts of predicted against observed values: scatter plots, predictions, and coefficients."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from markupsafe import Markup

from evaluation.data.result_tables import Cell, count_cell, number_cell, page_table, share_cell, span_cell
from evaluation.number_format import figure, span
from evaluation.plots.charts import ScatterPoint, Weight, scatter_drawing, weights_drawing
from evaluation.plots.rows import RowName, ValueRow, values_drawing
from evaluation.plots.svg import Scale, drawing, el, line, text, ticks
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.means import mean_interval
from webapp.core.language import plural
from webapp.insights.charts.figure import CompleteDrawing, PageFigure, Variant, for_widths
from webapp.insights.narrative import phrases

Ends = tuple[float, float] | None
"""Lowest and highest value of a rating scale; None if unknown, or if no value exceeds it."""
_NO_ENDS = (None, None)
CROWDED = 8
"""Number of points above which the names need the full page width."""


def scatter_figure(
    points: Sequence[ScatterPoint],
    *,
    x_title: str,
    y_title: str,
    scale: Ends = None,
    other_values: Sequence[float] = (),
    **texts: Any,
) -> PageFigure:
    """Draw the points that have both values.

    The others are only in the table.

    Args:
        other_values: values of the page's other figures, so that all have the same range.
        scale: scale of the ratings; predictions outside it are drawn and labelled.
    """
    drawn_points = [
        replace(point, says=_says(point, x_title, y_title, scale))
        for point in points
        if point.human is not None and point.predicted is not None
    ]
    draw = partial(
        scatter_drawing,
        drawn_points,
        x_title=x_title,
        y_title=y_title,
        equal="equal",
        other_values=other_values,
        name=(
            f"{phrases.bots_text(len(drawn_points))}: {y_title.lower()} against {x_title.lower()}, with the line of "
            "equality."
        ),
    )
    return PageFigure(
        wide=draw(860, 500, css="plot-wide plot-grown")
        if len(drawn_points) > CROWDED
        else draw(515, 390, css="plot-wide"),
        narrow=[Variant("", draw(298, 480 if len(drawn_points) > CROWDED else 330, size=11))],
        table=page_table(
            points,
            (("Bot", "n"), _bot),
            (x_title, lambda point: number_cell(point.human, reason="no ratings")),
            ("90 %", lambda point: span_cell(*(point.human_span or _NO_ENDS))),
            ((y_title, "90 %"), lambda point: _predicted(point, scale)),
        ),
        **texts,
    )


def beyond_words(value: float | None, scale: Ends) -> str:
    """Describe a prediction outside the rating scale; empty for others."""
    if value is None or scale is None or scale[0] <= value <= scale[1]:
        return ""
    if value > scale[1]:
        return f"above the scale maximum of {scale[1]:g}"
    return f"below the scale minimum of {scale[0]:g}"


def _says(point: ScatterPoint, x_title: str, y_title: str, scale: Ends) -> str:
    human, predicted = point.human_span, point.predicted_span
    beyond = beyond_words(point.predicted, scale)
    return (
        f"{point.title}\n"
        f"{x_title} {figure(point.human)} {span(*human) if human else ''}\n"
        f"{y_title} {figure(point.predicted)} {span(*predicted) if predicted else ''}\n"
        + (f"{beyond}\n" if beyond else "")
        + phrases.conversations_text(point.n)
    )


def _bot(point: ScatterPoint) -> list[Cell]:
    return [Cell(point.title, point.href, slot=point.slot, hollow=point.is_control), count_cell(point.n)]


def _predicted(point: ScatterPoint, scale: Ends) -> list[Cell]:
    cell = Cell(figure(point.predicted), reason=beyond_words(point.predicted, scale), raw=(point.predicted,))
    return [cell, span_cell(*(point.predicted_span or _NO_ENDS))]


def predictions_figure(
    points: Sequence[ScatterPoint],
    rated: tuple[float, float] | None,
    *,
    scale: Ends = None,
    other_values: Sequence[float] = (),
    **texts: Any,
) -> PageFigure:
    """Draw bots with a prediction and no human mean.

    Args:
        rated: lowest and highest human mean of the bots that were rated; None if none was.
        scale, other_values: see `scatter_figure`.
    """
    ordered = sorted(points, key=lambda point: -(point.predicted or 0))
    beyond = [p for p in ordered if rated and not rated[0] <= (p.predicted or 0) <= rated[1]]
    note = ""
    if rated:
        note = "Shaded: range of the means of the rated bots."
        if beyond:
            note += " " + "Predictions outside this range are not supported by human ratings."
    rows = [
        ValueRow(
            RowName(point.title, point.slot, point.is_control),
            point.predicted,
            ends[0],
            ends[1],
            f"{point.title}\n{figure(point.predicted)} {span(*ends)}\n"
            f"{phrases.conversations_text(point.n)} with itself",
            figure(point.predicted),
            point.href,
            point.is_control,
        )
        for point in ordered
        for ends in [point.predicted_span or _NO_ENDS]
    ]
    name = f"Predicted ratings of {phrases.bots_text(len(points))} with their intervals, best first."
    wide, narrow = for_widths(
        lambda width, css: values_drawing(
            rows, width, name=name, other_values=[*(rated or ()), *other_values], shade=rated, css=css
        ),
        515,
    )
    table = page_table(ordered, (("Bot", "n"), _bot), (("Predicted", "90 %"), lambda point: _predicted(point, scale)))
    return PageFigure(wide=wide, narrow=narrow, table=table, note=note, **texts)


_LEFT, _BOTTOM, _TOP, _RIGHT = 46.0, 44.0, 12.0, 12.0


def items_figure(points: Sequence[tuple[float, float]], *, x: str, y: str, **texts: Any) -> PageFigure:
    """Draw the replies.

    The table has the mean human rating for each quintile of the metric's scores.

    Args:
        points: the metric's score and people's mean of each.
    """
    titles = ("Quintile of the scores", "from", "to", "n", f"Mean {y}", "95 %", "lowest", "highest")
    wide, narrow = for_widths(lambda width, css: _draw_items(points, width, x, y, css=css), 620)
    table = page_table(_fifths(points), (titles, lambda fifth: _fifth(*fifth)))
    return PageFigure(wide=wide, narrow=narrow, table=table, **texts)


def _fifths(points: Sequence[tuple[float, float]]) -> Iterator[tuple[str, Sequence[tuple[float, float]]]]:
    """Return the points of each quintile by score.

    Equal scores stay together, so sizes may differ.
    """
    names = ["lowest", "second", "middle", "fourth", "highest"]
    ordered = sorted(points)
    scores = [score for score, _mean in ordered]
    ends = [bisect_left(scores, scores[len(scores) * k // 5]) for k in range(1, 5)] if scores else []
    for name, begin, end in zip(names, [0, *ends], [*ends, len(scores)], strict=False):
        if begin < end:
            yield name, ordered[begin:end]


def _fifth(name: str, part: Sequence[tuple[float, float]]) -> list[Cell]:
    means = [mean for _score, mean in part]
    ends = mean_interval(means, level=SCORE_LEVEL)
    low, high, centre, lowest, highest = map(
        number_cell, (part[0][0], part[-1][0], fmean(means), min(means), max(means))
    )
    return [Cell(name), low, high, count_cell(len(part)), centre, span_cell(ends.low, ends.high), lowest, highest]


def _draw_items(points: Sequence[tuple[float, float]], width: float, x: str, y: str, *, css: str) -> Markup:
    height = 380.0 if css else 300.0
    xs, ys = _ends([score for score, _mean in points]), _ends([mean for _score, mean in points])
    across, up = Scale(*xs, _LEFT, width - _RIGHT), Scale(*ys, height - _BOTTOM, _TOP)
    parts: list[object] = []
    for value in ticks(*ys):
        parts.append(line(_LEFT, up(value), width - _RIGHT, up(value), class_="grid"))
        parts.append(text(_LEFT - 7, up(value) + 4, figure(value, 1), class_="tick end"))
    for value in ticks(*xs):
        label = figure(value, 0 if xs[1] - xs[0] > 8 else 2)
        parts.append(text(across(value), height - _BOTTOM + 17, label, class_="tick middle"))
    parts += [el("circle", cx=round(across(a), 1), cy=round(up(b), 1), r=2.6, class_="item-point") for a, b in points]
    parts.append(text(width - _RIGHT, height - 6, x, class_="tick end"))
    parts.append(text(2, 9, y, class_="tick"))
    name = f"{y} of {len(points)} replies against {x}."
    return drawing(width, height, *parts, name=name, interactive=False, class_=css or None)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = (high - low) * 0.04 or 0.5
    return low - room, high + room


WEIGHTS_SHOWN = 15
"""Number of weights drawn at first."""


def weights_figure(weights: Sequence[Weight], *, unit: str, **texts: Any) -> PageFigure:
    """Draw the weights, largest mean first.

    Of many weights only the strongest are drawn, and all on demand.

    Args:
        unit: of the axis.
        texts: of `PageFigure`.
    """
    ordered = sorted(weights, key=lambda weight: -weight.mean)
    wide, narrow = _draw_weights(ordered, unit)
    complete = None
    if len(ordered) > WEIGHTS_SHOWN + 3:
        note = (
            f"The plot shows the {WEIGHTS_SHOWN} weights with the largest effect. Because they were selected for "
            "that, they look stronger than they are."
        )
        all_of_them = plural(len(ordered), "All %(n)s weight", "All %(n)s weights")
        complete = CompleteDrawing(all_of_them % {"n": len(ordered)}, note, wide, narrow)
        strongest = set(sorted(range(len(ordered)), key=lambda i: -abs(ordered[i].mean))[:WEIGHTS_SHOWN])
        wide, narrow = _draw_weights([weight for i, weight in enumerate(ordered) if i in strongest], unit)
    table = page_table(
        ordered,
        ("Feature", lambda weight: Cell(weight.title, weight.href, reason=weight.about)),
        ("Weight", lambda weight: share_cell(weight.mean)),
        ("90 %", lambda weight: span_cell(weight.low, weight.high, shares=True)),
    )
    return PageFigure(wide=wide, narrow=narrow, table=table, complete=complete, **texts)


def _draw_weights(weights: Sequence[Weight], unit: str) -> tuple[Markup, list[Variant]]:
    """Return the drawings for wide and for narrow columns."""
    singular = "The weight of %(n)d feature with its interval."
    several = "Weights of %(n)d features with their intervals."
    name = plural(len(weights), singular, several) % {"n": len(weights)}
    return for_widths(lambda width, css: weights_drawing(weights, width, name=name, unit=unit, css=css), 380)
