"""A metric along a conversation: one narrow track running downwards, a cell beside every turn.

Rows are as high as their text, which the server cannot know, so every cell is a drawing of its own that
stretches to its row: line pieces meet at the rows' borders, and dots are round strokes that do not scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.columns import Column
from evaluation.plots.lettering import plain
from evaluation.plots.scale import Scale
from evaluation.plots.svg import el, number
from evaluation.printing import figure


@dataclass(frozen=True, slots=True)
class TrackCell:
    """One turn's place on a track: the drawing, the printed value, why there is none."""

    svg: Markup | None
    value: str
    why: str


def printed(value: float | None, unit: str) -> str:
    """Write a metric's value: whole numbers as they are, others with two decimals."""
    if value is None:
        return "–"
    return (
        plain(value) if float(value).is_integer() and unit not in ("1", "cosine") else figure(value)
    )


def track(
    values: Sequence[float | None], speakers: Sequence[str], column: Column, why: str
) -> list[TrackCell]:
    """Return the cells of one track, in the order of turns.

    Args:
        values: per turn, None where undefined.
        speakers: per turn; the bot's marks are filled, the participant's hollow.
        column: gives the range.
        why: said beside missing values.
    """
    known = [value for value in values if value is not None]
    low = column.range[0] if column.range[0] is not None else min([*known, 0.0])
    high = column.range[1] if column.range[1] is not None else max([*known, 1.0])
    scale = Scale(low, high, 10, 90)
    xs = [None if value is None else scale.held(value) for value in values]
    zero = scale(0) if low < 0 < high else None
    # A column that never describes one speaker's turns has no gap at them: the line goes on through.
    silent = {
        speaker
        for speaker in set(speakers)
        if all(x is None for x, s in zip(xs, speakers, strict=True) if s == speaker)
    }
    path = _through(xs, [speaker in silent for speaker in speakers])
    cells = []
    for i, x in enumerate(xs):
        before = _border(path[i - 1], path[i]) if i else None
        after = _border(path[i], path[i + 1]) if i + 1 < len(path) else None
        svg = _cell(x, path[i], before, after, zero, speakers[i] == "bot") if known else None
        if x is not None:
            cells.append(TrackCell(svg, printed(values[i], column.unit), ""))
        else:
            cells.append(TrackCell(svg, "" if path[i] is not None else "none", why))
    return cells


def _through(xs: Sequence[float | None], silent: Sequence[bool]) -> list[float | None]:
    """Return the points; a turn without a value between two that have one gets the middle of both."""
    path = list(xs)
    for i in range(1, len(xs) - 1):
        if xs[i] is None and silent[i]:
            path[i] = _border(xs[i - 1], xs[i + 1])
    return path


def _border(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else (a + b) / 2


def _cell(
    x: float | None,
    middle: float | None,
    before: float | None,
    after: float | None,
    zero: float | None,
    filled: bool,
) -> Markup:
    steady = {"vector_effect": "non-scaling-stroke"}
    parts: list[object] = []
    if zero is not None:
        parts.append(el("path", d=f"M{number(zero)} 0V100", class_="track-zero", **steady))
    if middle is not None:
        for border, y in ((before, 0), (after, 100)):
            if border is not None:
                d = f"M{number(border)} {y}L{number(middle)} 50"
                parts.append(el("path", d=d, class_="track-line", **steady))
    if x is not None:
        dot = f"M{number(x)} 50h0.01"
        parts.append(el("path", d=dot, class_="track-halo", **steady))
        parts.append(el("path", d=dot, class_="track-dot" if filled else "track-ring", **steady))
        if not filled:
            parts.append(el("path", d=dot, class_="track-hole", **steady))
    return el(
        "svg",
        *parts,
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        class_="track",
        aria_hidden="true",
    )
