"""Coefficients with their intervals, largest first, with the table beside them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from evaluation.plots.weights import Weight, weights_drawing
from evaluation.printing import share, span
from webapp.core.speaking import plural
from webapp.dashboard.plots.figure import Cell, Figure, Header, More, Table, Variant

FIRST = 15
"""Weights that are drawn at first."""


def weights_figure(weights: Sequence[Weight], *, title: str, method: str, note: str = "") -> Figure:
    """Draw the weights, sorted by their means, largest first: of many the strongest, and all on demand."""
    ordered = sorted(weights, key=lambda weight: -weight.mean)
    wide, narrow = _drawings(ordered)
    more = None
    if len(ordered) > FIRST + 3:
        told = (
            f"Shown are the {FIRST} that move the prediction most: chosen for that, they look stronger than they "
            "are."
        )
        all_of_them = plural(len(ordered), "All %(n)s weight", "All %(n)s weights")
        more = More(all_of_them % {"n": len(ordered)}, told, wide, narrow)
        strongest = set(sorted(range(len(ordered)), key=lambda i: -abs(ordered[i].mean))[:FIRST])
        wide, narrow = _drawings([one for i, one in enumerate(ordered) if i in strongest])
    return Figure(
        id="weights",
        title=title,
        method=method,
        wide=wide,
        narrow=narrow,
        table=Table(
            [Header("Feature"), Header("Weight", numeric=True), Header("90 %", numeric=True)],
            [
                [
                    Cell(weight.title, why=weight.about),
                    Cell(share(weight.mean)),
                    Cell(span(weight.low, weight.high, shares=True)),
                ]
                for weight in ordered
            ],
        ),
        note=note,
        more=more,
    )


def _drawings(weights: Sequence[Weight]) -> tuple[Markup, list[Variant]]:
    """Return the drawings for wide and for narrow columns."""
    n = len(weights)
    name = plural(
        n,
        "The weight of %(n)d feature with its interval.",
        "Weights of %(n)d features with their intervals.",
    ) % {"n": n}
    return (
        weights_drawing(weights, 380, name=name, css="plot-wide"),
        [Variant("", weights_drawing(weights, 298, name=name))],
    )
