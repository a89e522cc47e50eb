"""A drawing that stands alone: with its own colours, for notebooks and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_COLOURS = (
    "#3a4cc8", "#d0741a", "#0e8687", "#cf1d14", "#93308f", "#2b93d6", "#4c6a30", "#2b3a2a",
    "#3a4cc8", "#a55c15", "#0d7b7b", "#cf1d14", "#93308f", "#1f77ab", "#4c6a30", "#2b3a2a",
)  # fmt: skip
"""Of the bots' slots, as on the pages."""
_DIVERGING = (
    "#8f4708", "#c5752d", "#e5ac74", "#f6dcc0", "#f3f3f0", "#cfddf1", "#8fb1e0", "#4572be", "#1d4e9e",
)  # fmt: skip
"""From far below to far above, as on the pages; the outermost have white numbers."""
_WHITE_ON = (1, 8, 9)
_GREY = "#52605c"
"""Of a bot without a colour of its own."""
_ACCENT = "#0b6459"


def _bots() -> str:
    """Return the colours of the bots' marks, without variables, which drawing programs do not know."""
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
    ".joins{stroke:#16211f;stroke-width:4}.joins-past{stroke-width:1;stroke-dasharray:2 3}"
    f".between{{stroke:{_GREY};stroke-width:3}}.strip{{fill:#f4f6f4;stroke:#dbe2df}}.strip-shown{{fill:{_ACCENT}}}"
    f".weight{{fill:{_ACCENT}}}.weight-span{{stroke:{_ACCENT};stroke-width:2.5}}"
    f".weight.hollow{{fill:#fff;stroke:{_GREY};stroke-width:2}}.weight-span.hollow{{stroke:{_GREY}}}"
    ".step.div-none,.cell-self{fill:none;stroke:#dbe2df}.step-text{text-anchor:middle}"
    + "".join(f".step.div-{n}{{fill:{colour}}}" for n, colour in enumerate(_DIVERGING, start=1))
    + "".join(f".step-text.div-{n}{{fill:#fff}}" for n in _WHITE_ON)
)


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """A drawing with its style; a notebook shows it as the value of a cell.

    Attributes:
        svg: a whole SVG document.
    """

    svg: str

    @classmethod
    def of(cls, drawing: str) -> Plot:
        """Return the drawing with the style its classes need inside."""
        opening, end, rest = str(drawing).partition(">")
        return cls(f"{opening}{end}<style>{_STYLE}</style>{rest}")

    def save(self, path: str | Path) -> None:
        """Write it as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot({len(self.svg):,} characters of SVG)"
