"""A metric's scores against people's mean scores, a point for each reply."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from statistics import fmean

from markupsafe import Markup

from evaluation.plots.scale import ticks
from evaluation.plots.svg import drawing, el, line, text
from evaluation.printing import figure, span
from evaluation.stats.intervals import mean_interval
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant

_LEFT, _BOTTOM, _TOP, _RIGHT = 46.0, 44.0, 12.0, 12.0


def items_figure(
    points: Sequence[tuple[float, float]], *, id: str, title: str, method: str, x: str, y: str,
    note: str = "",
) -> Figure:  # fmt: skip
    """Draw the replies; the table tells, for each fifth of the metric's scores, what people said of those replies.

    Args:
        points: the metric's score and people's mean of each.
    """
    headers = [Header("Fifth of the scores"), Header("from", numeric=True)]
    headers += [Header("to", numeric=True), Header("n", numeric=True)]
    headers += [Header(f"Mean {y}", numeric=True), Header("95 %", numeric=True)]
    headers += [Header("lowest", numeric=True), Header("highest", numeric=True)]
    rows = [_fifth(name, part) for name, part in _fifths(points)]
    return Figure(
        id=id,
        title=title,
        method=method,
        wide=_draw(points, 620, 380, x, y, css="plot-wide"),
        narrow=[Variant("", _draw(points, 298, 300, x, y, css=""))],
        table=Table(headers, rows),
        note=note,
    )


def _fifths(
    points: Sequence[tuple[float, float]],
) -> Iterator[tuple[str, Sequence[tuple[float, float]]]]:
    """Return the points of each fifth, by score; equal scores stay together, so that fifths may differ in size."""
    names = ["lowest", "second", "middle", "fourth", "highest"]
    ordered = sorted(points)
    scores = [score for score, _mean in ordered]
    ends = (
        [bisect_left(scores, scores[len(scores) * k // 5]) for k in range(1, 5)] if scores else []
    )
    for name, begin, end in zip(names, [0, *ends], [*ends, len(scores)], strict=False):
        if begin < end:
            yield name, ordered[begin:end]


def _fifth(name: str, part: Sequence[tuple[float, float]]) -> list[Cell]:
    means = [mean for _score, mean in part]
    centre = fmean(means)
    ends = mean_interval(means, level=0.95)
    return [
        Cell(name), _number(part[0][0]), _number(part[-1][0]), Cell(str(len(part)), raw=(len(part),)),
        _number(centre), Cell(span(ends.low, ends.high), raw=(ends.low, ends.high)),
        _number(min(means)), _number(max(means)),
    ]  # fmt: skip


def _number(value: float) -> Cell:
    return Cell(figure(value), raw=(value,))


def _draw(
    points: Sequence[tuple[float, float]], width: float, height: float, x: str, y: str, *, css: str
) -> Markup:
    xs, ys = _ends([one for one, _y in points]), _ends([one for _x, one in points])

    def across(value: float) -> float:
        return _LEFT + (value - xs[0]) / (xs[1] - xs[0]) * (width - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return height - _BOTTOM - (value - ys[0]) / (ys[1] - ys[0]) * (height - _BOTTOM - _TOP)

    parts: list[object] = []
    for value in ticks(*ys):
        parts.append(line(_LEFT, up(value), width - _RIGHT, up(value), class_="grid"))
        parts.append(text(_LEFT - 7, up(value) + 4, figure(value, 1), class_="tick end"))
    for value in ticks(*xs):
        label = figure(value, 0 if xs[1] - xs[0] > 8 else 2)
        parts.append(text(across(value), height - _BOTTOM + 17, label, class_="tick middle"))
    parts += [
        el("circle", cx=round(across(a), 1), cy=round(up(b), 1), r=2.6, class_="item-point")
        for a, b in points
    ]
    parts.append(text(width - _RIGHT, height - 6, x, class_="tick end"))
    parts.append(text(2, 9, y, class_="tick"))
    name = f"{y} of {len(points)} replies against {x}."
    return drawing(width, height, *parts, name=name, interactive=False, class_=css or None)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = (high - low) * 0.04 or 0.5
    return low - room, high + room
