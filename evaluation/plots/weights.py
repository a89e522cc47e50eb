"""Coefficients with their intervals: a point and a line for each, hollow where 0 is inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evaluation.plots.lettering import plain, shorten, text_width
from evaluation.plots.marks import mark_link
from evaluation.plots.scale import Scale, ticks
from evaluation.plots.svg import drawing, el, line, rect, text
from evaluation.printing import share, span


@dataclass(frozen=True, slots=True)
class Weight:
    """One feature's mean coefficient; without an interval nothing is said about 0."""

    title: str
    mean: float
    low: float | None
    high: float | None
    about: str = ""

    @property
    def includes_zero(self) -> bool:
        """True if the interval contains 0, or if there is no interval."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


def weights_drawing(weights: Sequence[Weight], width: float, *, name: str, css: str = "") -> Markup:
    """Draw a row for each weight, in the order given.

    Args:
        width: in pixels.
        name: what it shows, for who cannot see it.
        css: class of the drawing.
    """
    row = 24.5
    names = min(max((text_width(w.title) for w in weights), default=60) + 12, width * 0.56)
    ends = [v for w in weights for v in (w.mean, w.low, w.high) if v is not None] + [0.0]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = -1.0, 1.0
    x = Scale(low, high, names + 8, width - 52)
    bottom = row * len(weights) + 4
    parts: list[object] = []
    for tick in ticks(low, high, 5 if width > 320 else 4):
        parts.append(line(x(tick), 0, x(tick), bottom, class_="axis" if tick == 0 else "grid"))
        label = plain(tick)
        label = label.replace("0.", ".", 1) if label.lstrip("−").startswith("0.") else label
        parts.append(text(x(tick), bottom + 17, label, class_="tick middle"))
    for i, weight in enumerate(weights):
        y = row * i + row / 2
        hollow = " hollow" if weight.includes_zero else ""
        marks = [rect(names + 4, y - 11, width - names - 56, 22, class_="hit")]
        if weight.low is not None and weight.high is not None:
            marks.append(line(x(weight.low), y, x(weight.high), y, class_=f"weight-span{hollow}"))
        marks.append(el("circle", cx=x(weight.mean), cy=y, r=5, class_=f"weight{hollow}"))
        says = f"{weight.title}\n{share(weight.mean)} {span(weight.low, weight.high, shares=True)}"
        if weight.about:
            says += f"\n{weight.about}"
        parts += [
            text(0, y + 4.5, shorten(weight.title, names - 4), class_="name"),
            mark_link(None, says, *marks),
            text(width - 2, y + 4.5, share(weight.mean), class_="value-light end"),
        ]
    return drawing(width, bottom + 24, *parts, name=name, interactive=True, class_=css or None)
