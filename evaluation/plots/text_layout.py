"""Text layout in plots: width, truncation, tick labels, and point labels.

Names are placed so that they cover neither each other nor the marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.number_format import MINUS

# Advance widths of Helvetica, in thousandths of the font size; system fonts are similar.
_NARROW = {**dict.fromkeys("iIjl'|.,:;! ", 278), **dict.fromkeys("ft()[]r/\\-`", 333)}
_WIDE = {**dict.fromkeys("mMW%@", 890), **dict.fromkeys("w&GOQ", 760), **dict.fromkeys("–—−", 584)}
_SAFETY = 1.14  # Inter and Segoe UI are slightly wider, DejaVu and Verdana more so


def text_width(text: str, size: float = 13, *, bold: bool = False) -> float:
    """Estimate the width of a line in pixels, erring on the wide side."""
    thousandths = 0
    for letter in text:
        if letter in _NARROW:
            thousandths += _NARROW[letter]
        elif letter in _WIDE:
            thousandths += _WIDE[letter]
        elif unicodedata.combining(letter):
            continue
        elif unicodedata.east_asian_width(letter) in "WF":
            thousandths += 1000
        elif letter.isupper():
            thousandths += 690
        else:
            thousandths += 556
    return thousandths / 1000 * size * _SAFETY * (1.13 if bold else 1)


NAME_PX = text_width("n" * 24)
"""Width of a bot name of 24 letters, which wide drawings never truncate."""


def shorten(text: str, width: float, size: float = 13, *, bold: bool = False) -> str:
    """Truncate a text to `width` pixels with an ellipsis."""
    text = " ".join(text.split())
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrap(text: str, width: float, size: float = 13) -> list[str]:
    """Wrap a text between words and after "_"."""
    lines = [""]
    for word in re.split(r"(?<=[ _])", text.strip()):
        if lines[-1] and text_width((lines[-1] + word).rstrip(), size) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def tick_label(value: float) -> str:
    """Format a tick's label with as few decimals as necessary."""
    return f"{value:.10g}".replace("-", MINUS)


@dataclass(frozen=True, slots=True)
class Box:
    """Rectangle in pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def ends(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom edge."""
        return self.x0, self.y0, self.x1, self.y1


@dataclass(frozen=True, slots=True)
class Label:
    """Position of a name: left end, baseline, and optional leader line."""

    x: float
    y: float
    box: Box
    leader: bool


def place_labels(
    names: Sequence[str], points: Sequence[tuple[float, float]], obstacles: Sequence[Box], bounds: Box, size: float = 13
) -> list[Label]:
    """Place one label for each point.

    Each label takes the cheapest of several positions around its point. Two more passes repeat this with the other
    labels in place. Covering another name costs most, then leaving the plot, then covering a mark, then distance.

    Args:
        names: texts of the labels.
        points: centres of the marks, in pixels.
        obstacles: boxes of marks and intervals.
        bounds: allowed area for labels.
        size: font size in pixels.
    """
    options = [list(_around(name, point, size)) for name, point in zip(names, points, strict=True)]
    boxes = [np.array([label.box.ends for _distance, label in tried]) for tried in options]
    marks = np.array([box.ends for box in obstacles]).reshape(-1, 4)
    alone = [
        np.array([distance for distance, _label in tried])
        + 30 * (_areas(places) - _overlaps(places, np.array([bounds.ends]))[:, 0])
        + 2 * _overlaps(places, marks).sum(axis=1)
        for tried, places in zip(options, boxes, strict=True)
    ]
    chosen = [-1] * len(names)
    placed = np.full((len(names), 4), np.nan)
    for _round in range(3):
        for i, places in enumerate(boxes):
            other_boxes = np.delete(placed, i, axis=0)
            other_boxes = other_boxes[np.isfinite(other_boxes[:, 0])]
            chosen[i] = int(np.argmin(alone[i] + 60 * _overlaps(places, other_boxes).sum(axis=1)))
            placed[i] = places[chosen[i]]
    return [tried[index][1] for tried, index in zip(options, chosen, strict=True)]


def covers_any(labels: Sequence[Label], obstacles: Sequence[Box], bounds: Box) -> bool:
    """Return True if a label covers anything or leaves the plot."""
    boxes = np.array([label.box.ends for label in labels]).reshape(-1, 4)
    marks = np.array([box.ends for box in obstacles]).reshape(-1, 4)
    shared = _overlaps(boxes, boxes)
    np.fill_diagonal(shared, 0.0)
    inside = _overlaps(boxes, np.array([bounds.ends]))[:, 0]
    return bool(_overlaps(boxes, marks).sum() + shared.sum() > 1.0 or (inside < _areas(boxes) - 1.0).any())


def _areas(boxes: np.ndarray) -> np.ndarray:
    """Return the areas of boxes, (N,) in square pixels."""
    areas: np.ndarray = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return areas


def _overlaps(boxes: np.ndarray, other_boxes: np.ndarray) -> np.ndarray:
    """Return the areas that boxes share with others, (N, M).

    In square pixels.

    Args:
        boxes, others: (N, 4) and (M, 4): left, top, right and bottom edge.
    """
    ends, other_ends = boxes[:, None, :], other_boxes[None, :, :]
    sides = np.minimum(ends[..., 2:], other_ends[..., 2:]) - np.maximum(ends[..., :2], other_ends[..., :2])
    shared: np.ndarray = np.clip(sides, 0.0, None).prod(axis=-1)
    return shared


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
        for order, (left_edge, middle) in enumerate(places):
            box = Box(left_edge - 2, middle - height / 2, left_edge + width + 2, middle + height / 2)
            label = Label(left_edge, middle + size * 0.35, box, leader=ring > 0)
            yield ring * 45 + order, label
