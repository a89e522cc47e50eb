"""SVG elements, linear scales, and stand-alone drawings.

All content of an element is escaped. A stand-alone drawing includes its own colours, for notebooks and files.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

# Characters forbidden in XML, which would make a downloaded figure unreadable.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def number(value: float) -> str:
    """Format a coordinate in pixels with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def el(tag: str, *children: object, **attributes: Any) -> Markup:
    """Make an element.

    Args:
        tag: name of the element.
        children: elements made by `el`, or text, which is escaped; None is skipped.
        attributes: `class_` gives `class`, other underscores give hyphens; None is skipped, True gives the bare name.
    """
    parts = [f"<{tag}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {name}")
            continue
        text = number(value) if isinstance(value, int | float) else escape(_CONTROL.sub("", str(value)))
        parts.append(f' {name}="{text}"')
    parts.append(">")
    parts.extend(_child(child) for child in children if child is not None)
    parts.append(f"</{tag}>")
    return Markup("".join(parts))  # noqa: S704 - every part is escaped above


def _child(child: object) -> str:
    if isinstance(child, Markup):
        return child
    return escape(_CONTROL.sub("", str(child)))


def group(*children: object, **attributes: Any) -> Markup:
    """Make a `<g>`, which groups elements."""
    return el("g", *children, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> Markup:
    """Make a straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(x: float, y: float, width: float, height: float, **attributes: Any) -> Markup:
    """Make a rectangle; `rx` rounds its corners."""
    return el("rect", x=x, y=y, width=max(width, 0), height=height, **attributes)


def text(x: float, y: float, content: object, **attributes: Any) -> Markup:
    """Make a text on one line, `y` at its baseline."""
    return el("text", content, x=x, y=y, **attributes)


def drawing(width: float, height: float, *children: object, name: str, interactive: bool, **attributes: Any) -> Markup:
    """Make the outer `<svg>`.

    A drawing with links is a group, not an image: in an image the links would be hidden from screen readers but still
    get keyboard focus.
    """
    return el(
        "svg",
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="group" if interactive else "img",
        aria_label=name,
        aria_roledescription="plot" if interactive else None,
        **attributes,
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear scale from values `low`…`high` to pixels `start`…`end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


SMALLEST_RANGE = 1e-300
"""Ranges below it count as none: the step of their ticks would underflow to 0."""


def tick_step(low: float, high: float, at_most: int) -> float:
    """Return a step that gives at most `at_most` ticks.

    It is 1, 2 or 5 times a power of ten.
    """
    raw = (high - low) / max(at_most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)


def ticks(low: float, high: float, at_most: int = 6) -> list[float]:
    """Return round values within `low`…`high`.

    Steps are 1, 2 or 5 times a power of ten.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    step = tick_step(low, high, at_most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    while last <= first:  # an axis needs two ticks, so take the next smaller step
        step *= 0.4 if f"{step:e}".startswith("5") else 0.5
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = -math.floor(math.log10(step))
    return [round(i * step, digits) for i in range(first, last + 1)]


def rating_ticks(low: float, high: float, at_most: int = 7) -> list[float]:
    """Return a rating scale's whole steps, or ends and middle."""
    steps = high - low
    if float(low).is_integer() and float(high).is_integer() and steps + 1 <= at_most:
        return [low + i for i in range(int(steps) + 1)]
    middle = (low + high) / 2
    return [low, middle, high] if at_most >= 3 else [low, high]


def padded_range(values: list[float], share: float = 0.06) -> tuple[float, float]:
    """Return the range of the values with padding at both ends.

    Values that differ by rounding alone count as equal: there are no ticks between them.
    """
    low, high = min(values), max(values)
    is_rounding = high - low <= max(1e-9 * max(abs(low), abs(high)), SMALLEST_RANGE)
    room = (max(abs(high), 1) if is_rounding else high - low) * share
    return low - room, high + room


_COLOURS = (
    "#3a4cc8", "#d0741a", "#0e8687", "#cf1d14", "#93308f", "#2b93d6", "#4c6a30", "#2b3a2a",
    "#3a4cc8", "#a55c15", "#0d7b7b", "#cf1d14", "#93308f", "#1f77ab", "#4c6a30", "#2b3a2a",
)  # fmt: skip
"""Colours of the bots by colour index, as on the pages."""
_DIVERGING = (
    "#8f4708", "#c5752d", "#e5ac74", "#f6dcc0", "#f3f3f0", "#cfddf1", "#8fb1e0", "#4572be", "#1d4e9e",
)  # fmt: skip
"""Diverging colours from far below to far above, as on the pages; the outermost have white numbers."""
_WHITE_ON = (1, 8, 9)
_GREY = "#52605c"
"""Colour of bots without their own."""
_ACCENT = "#0b6459"


def _bots() -> str:
    """Return the marks' colours without CSS variables.

    Drawing programs do not support the variables.
    """
    rules = []
    for slot, colour in [("", _GREY), *((f".bot-{n}", c) for n, c in enumerate(_COLOURS, start=1))]:
        rules += [
            f".bot{slot}{{fill:{colour}}}",
            f".bot.hollow{slot}{{fill:#fff;stroke:{colour};stroke-width:1.8}}",
            f".hollow{slot} .tile-number{{fill:{colour};stroke:none}}",
            f".whisker{slot}{{stroke:{colour};stroke-width:2;opacity:.8}}",
        ]
    return "".join(rules)


_STYLE = (
    "svg{background:#fff}"
    "text{font-family:Helvetica,Arial,sans-serif;font-size:13px;fill:#16211f}"
    ".tick,.axis-title,.head{fill:#52605c;font-size:12px}.label{font-weight:620}.label.small{font-size:11px}"
    ".middle{text-anchor:middle}.end{text-anchor:end}.value,.strong{font-weight:bold}"
    ".grid{stroke:#dbe2df}.axis,.leader{stroke:#75847f}.equal{stroke:#75847f;stroke-dasharray:5 5}"
    ".hit{fill:none}.zebra{fill:#f4f6f4}.paper{fill:#fff}"
    ".tile-number{fill:#fff;font-weight:bold;font-size:11px}"
    + _bots()
    + f".interval{{fill:{_ACCENT};fill-opacity:.66}}.mean-tick{{fill:{_ACCENT}}}"
    f".interval.hollow{{fill:#fff;fill-opacity:1;stroke:{_GREY};stroke-width:1.4}}.mean-tick.hollow{{fill:{_GREY}}}"
    f".interval-arrow{{fill:{_ACCENT}}}.interval-arrow.hollow{{fill:{_GREY}}}"
    ".joins{stroke:#16211f;stroke-width:4}.joins-past{stroke-width:1;stroke-dasharray:2 3}"
    f".strip{{fill:#f4f6f4;stroke:#dbe2df}}.strip-shown{{fill:{_ACCENT}}}.name,.value-light{{fill:#16211f}}"
    f".vote-up,.duration{{fill:{_ACCENT}}}.vote-down,.duration.fast{{fill:#c5752d}}.duration-line{{stroke:#16211f}}"
    f".rated-span{{fill:#eef1ef}}.item-point{{fill:{_ACCENT};fill-opacity:.5}}.sure{{font-weight:bold}}"
    + "".join(
        f".line-band.line-{n}{{fill:{colour};fill-opacity:.16;stroke:none}}"
        f".line-path.line-{n}{{fill:none;stroke:{colour};stroke-width:2}}.line-point.line-{n}{{fill:{colour}}}"
        for n, colour in enumerate((_ACCENT, "#c5752d", _GREY), start=1)
    )
    + ".step.div-none,.cell-self{fill:none;stroke:#dbe2df}.step-text{text-anchor:middle}"
    + "".join(f".step.div-{n}{{fill:{colour}}}" for n, colour in enumerate(_DIVERGING, start=1))
    + "".join(f".step-text.div-{n}{{fill:#fff}}" for n in _WHITE_ON)
)


FORMATS = {"svg": "image/svg+xml; charset=utf-8", "pdf": "application/pdf", "png": "image/png"}
"""File formats of saved plots, with their content types."""
_PNG_SCALE = 3
"""Resolution of PNG files relative to the drawing: about 300 dpi in a paper's column."""


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """Drawing with its style, displayed by notebooks.

    Attributes:
        svg: complete SVG document.
    """

    svg: str

    @classmethod
    def from_drawing(cls, drawing: str) -> Plot:
        """Make a plot by embedding the styles of the drawing's classes."""
        opening, end, rest = str(drawing).partition(">")
        paper = (
            '<rect width="100%" height="100%" fill="#fff" class="paper"/>'  # otherwise PNG files would be transparent
        )
        return cls(f"{opening}{end}<style>{_STYLE}</style>{paper}{rest}")

    def to(self, kind: str) -> bytes:
        """Convert the plot to one of `FORMATS`.

        Raises:
            ValueError: if the format is unknown.
        """
        if kind == "svg":
            return self.svg.encode()
        import vl_convert  # imported on demand, because the library is large

        if kind == "pdf":
            return bytes(vl_convert.svg_to_pdf(self.svg))
        if kind == "png":
            return bytes(vl_convert.svg_to_png(self.svg, scale=_PNG_SCALE))
        raise ValueError(f"“{kind}” is not a file format of plots; available: {', '.join(FORMATS)}")

    def save(self, path: str | Path) -> None:
        """Write the plot to a .svg, .pdf or .png file."""
        file = Path(path)
        file.write_bytes(self.to(file.suffix[1:].lower()))

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot({len(self.svg):,} characters of SVG)"
