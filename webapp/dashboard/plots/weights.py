"""Coefficients with their intervals, largest first, with the table beside them."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _

from evaluation.plots.weights import Weight, weights_drawing
from evaluation.printing import share, span
from webapp.dashboard.plots.figure import Cell, Figure, Header, Table, Variant


def weights_figure(weights: Sequence[Weight], *, title: str, method: str, note: str = "") -> Figure:
    """Draw the weights, sorted by their means, largest first."""
    ordered = sorted(weights, key=lambda weight: -weight.mean)
    name = _("Weights of {n} features with their intervals.").format(n=len(ordered))
    return Figure(
        id="weights",
        title=title,
        method=method,
        wide=weights_drawing(ordered, 380, name=name, css="plot-wide"),
        narrow=[Variant("", weights_drawing(ordered, 298, name=name))],
        table=Table(
            [Header(_("Feature")), Header(_("Weight"), numeric=True), Header("90 %", numeric=True)],
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
    )
