"""Names beside points, placed so that they cover neither each other nor the marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.plots.lettering import text_width


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlap(self, other: Box) -> float:
        """Return the shared area, in square pixels."""
        wide = min(self.x1, other.x1) - max(self.x0, other.x0)
        high = min(self.y1, other.y1) - max(self.y0, other.y0)
        return wide * high if wide > 0 and high > 0 else 0.0

    def outside(self, other: Box) -> float:
        """Return the area of this box that lies outside the other, in square pixels."""
        return (self.x1 - self.x0) * (self.y1 - self.y0) - self.overlap(other)


@dataclass(frozen=True, slots=True)
class Label:
    """Where a name goes: its left end and baseline, and whether a thin line leads to its point."""

    x: float
    y: float
    box: Box
    leader: bool


def place_labels(
    names: Sequence[str],
    points: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    bounds: Box,
    size: float = 13,
) -> list[Label]:
    """Place one label for each point.

    Every label tries places around its point, nearest first, and takes the cheapest. Then each is tried
    again, twice, now that the others have their places. Covering another name costs most, then leaving the
    plot, then covering a mark, then distance.

    Args:
        names: what to print.
        points: the marks' centres, in pixels.
        obstacles: boxes of marks and intervals.
        bounds: where labels may go.
        size: font size in pixels.
    """
    chosen: list[Label | None] = [None] * len(names)
    candidates = [
        list(_around(name, point, size)) for name, point in zip(names, points, strict=True)
    ]
    for _round in range(3):
        for i, options in enumerate(candidates):
            others = [label.box for j, label in enumerate(chosen) if label is not None and j != i]

            def cost(option: tuple[float, Label], others: list[Box] = others) -> float:
                distance, label = option
                return (
                    distance
                    + 60 * sum(label.box.overlap(other) for other in others)
                    + 30 * label.box.outside(bounds)
                    + 2 * sum(label.box.overlap(mark) for mark in obstacles)
                )

            chosen[i] = min(options, key=cost)[1]
    return [label for label in chosen if label is not None]


def _around(name: str, point: tuple[float, float], size: float):
    width = text_width(name, size, bold=True)
    height = size * 1.3
    x, y = point
    for ring, gap in enumerate((11, 24, 40, 58, 80)):
        places = [
            (x + gap, y),
            (x - gap - width, y),
            (x - width / 2, y - gap - height / 2),
            (x - width / 2, y + gap + height / 2),
            (x + gap * 0.7, y - gap * 0.7 - height / 2),
            (x + gap * 0.7, y + gap * 0.7 + height / 2),
            (x - gap * 0.7 - width, y - gap * 0.7 - height / 2),
            (x - gap * 0.7 - width, y + gap * 0.7 + height / 2),
        ]
        for order, (left, middle) in enumerate(places):
            box = Box(left - 2, middle - height / 2, left + width + 2, middle + height / 2)
            label = Label(left, middle + size * 0.35, box, leader=ring > 0)
            yield ring * 45 + order, label
