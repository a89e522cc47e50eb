"""Human against predicted, a point for each bot with both intervals and the line of equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.plots.labels import Box, place_labels
from evaluation.plots.lettering import plain, shorten, text_width
from evaluation.plots.marks import bot_shape, cross_mark, mark_link
from evaluation.plots.scale import Scale, padded, ticks
from evaluation.plots.svg import drawing, group, line, rect, text


@dataclass(frozen=True, slots=True)
class Point:
    """Point of one bot: human mean and prediction, with their intervals.

    `human` is None for a bot without ratings: it is in the table only. `says` is the text that its mark shows
    on hover.
    """

    title: str
    slot: int
    is_control: bool
    human: float | None
    human_span: tuple[float, float] | None
    predicted: float | None
    predicted_span: tuple[float, float] | None
    n: int
    href: str = ""
    says: str = ""


def scatter_drawing(
    points: Sequence[Point],
    width: float,
    height: float,
    x_title: str,
    y_title: str,
    *,
    name: str,
    equal: str = "equal",
    size: float = 13,
    css: str = "",
) -> Markup:
    """Draw each bot with both intervals, and the line on which prediction and rating are equal.

    Args:
        points: bots with both values.
        width, height, size: of the drawing and of its letters, in pixels.
        name: what it shows, for who cannot see it.
        equal: the word next to the line.
        css: class of the drawing.
    """
    left, right, top, bottom = 46.0, 12.0, 12.0, 50.0
    values = [v for p in points for v in (p.human, p.predicted) if v is not None]
    for point in points:
        values += [*(point.human_span or ()), *(point.predicted_span or ())]
    low, high = padded(values or [0.0, 1.0])
    x = Scale(low, high, left, width - right)
    y = Scale(low, high, height - bottom, top)
    parts: list[object] = []
    for tick in ticks(low, high, 6 if width > 400 else 5):
        parts += [
            line(x(tick), top, x(tick), height - bottom, class_="grid"),
            line(left, y(tick), width - right, y(tick), class_="grid"),
            text(x(tick), height - bottom + 19, plain(tick), class_="tick middle"),
            text(left - 9, y(tick) + 4, plain(tick), class_="tick end"),
        ]
    middle = (top + height - bottom) / 2
    parts += [
        text((left + width - right) / 2, height - 8, x_title, class_="axis-title middle"),
        text(
            12,
            middle,
            y_title,
            class_="axis-title middle",
            transform=f"rotate(-90 12 {middle:.0f})",
        ),
        line(x(low), y(low), x(high), y(high), class_="equal"),
    ]
    centres = [(x(p.human or 0), y(p.predicted or 0)) for p in points]
    obstacles, marks = [], []
    for point, (cx, cy) in zip(points, centres, strict=True):
        across = point.human_span and (x(point.human_span[0]), x(point.human_span[1]))
        along = point.predicted_span and (y(point.predicted_span[1]), y(point.predicted_span[0]))
        obstacles.append(Box(cx - 8, cy - 8, cx + 8, cy + 8))
        if across:
            obstacles.append(Box(across[0], cy - 1.5, across[1], cy + 1.5))
        if along:
            obstacles.append(Box(cx - 1.5, along[0], cx + 1.5, along[1]))
        marks.append(
            mark_link(
                point.href or None,
                point.says,
                cross_mark(cx, cy, across or None, along or None, point.slot),
                rect(cx - 14, cy - 14, 28, 28, class_="hit"),
                group(bot_shape(cx, cy, point.slot, r=7, hollow=point.is_control), class_="haloed"),
            )
        )
    equal_at = (x(high) - text_width(equal) - 14, y(high) + 8)
    obstacles.append(
        Box(equal_at[0], equal_at[1] - 10, equal_at[0] + text_width(equal), equal_at[1] + 4)
    )
    titles = [shorten(point.title, width * 0.4, size, bold=True) for point in points]
    bounds = Box(left, top, width, height - bottom)
    labels = place_labels(titles, centres, obstacles, bounds, size)
    leaders = [
        line(
            cx,
            cy,
            min(max(cx, label.box.x0), label.box.x1),
            min(max(cy, label.box.y0), label.box.y1),
            class_="leader",
        )
        for label, (cx, cy) in zip(labels, centres, strict=True)
        if label.leader
    ]
    parts += leaders
    parts += marks
    parts += [
        text(label.x, label.y, title, class_="label" if size > 12 else "label small")
        for label, title in zip(labels, titles, strict=True)
    ]
    parts.append(text(equal_at[0], equal_at[1], equal, class_="tick"))
    return drawing(width, height, *parts, name=name, interactive=True, class_=css or None)
