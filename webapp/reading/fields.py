"""The numbers that conversations can be asked by and sorted by: ratings, metrics of their present version, counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from evaluation.ratings import Dimension
from webapp.reading.computed import COMPUTED, Computed
from webapp.reading.models import Series
from webapp.runs.models import MetricVersion
from webapp.runs.selectors.metrics import metrics_all

COUNTS = {
    "turns": gettext_lazy("Turns"),
    "exchanges": gettext_lazy("Exchanges"),
    "ratings": gettext_lazy("Ratings"),
    "up": gettext_lazy("Votes up"),
    "down": gettext_lazy("Votes down"),
}
IN_ROW = {"exchanges": "n_exchanges"}
"""Counts that stand in the conversation's own row."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of conversations.

    Attributes:
        name: as it is asked by.
        title: for people.
        kind: `rating`, `metric` or `count`.
        series: its key in the index; None where no conversation has one.
        unit: of a metric, as it declares it.
        about: what it is, in a sentence; empty where the title says it.
    """

    name: str
    title: str
    kind: str
    series: int | None = None
    unit: str = ""
    about: str = ""

    @property
    def column(self) -> str:
        """The column of the conversation's own row; empty for a number that stands in the index."""
        return IN_ROW.get(self.name, "") if self.kind == Series.Kind.COUNT else ""

    @property
    def computed(self) -> Computed | None:
        """Definition of the number if it is computed on request; None for a number that is stored."""
        return COMPUTED.get(self.name) if self.kind == Series.Kind.COUNT else None

    @property
    def is_time(self) -> bool:
        """True if its values are times."""
        return self.computed is not None and self.computed.is_time


class Numbers:
    """Every number of a study's conversations by its names, read in two queries.

    A metric's own name stands for its first number, so that `repetition` is enough; where a rating and a metric
    have one name, the name is the rating's, and `metric.NAME` the metric's.
    """

    def __init__(self, dimensions: Sequence[Dimension]) -> None:
        versions = {row.key: row for row in MetricVersion.objects.all()}
        newest: dict[str, int] = {}
        for row in sorted(versions.values(), key=lambda row: row.pk):
            newest[row.name] = row.pk
        series = {(s.kind, s.name, s.metric): s.pk for s in Series.objects.all()}
        ratings = [
            Number(d.key, d.title, "rating", series.get(("rating", d.key, 0))) for d in dimensions
        ]
        counts = [
            Number(name, str(title), "count", series.get(("count", name, 0)))
            for name, title in COUNTS.items()
        ]
        counts += [Number(name, str(one.title), "count") for name, one in COMPUTED.items()]
        metrics: list[Number] = []
        short: dict[str, Number] = {}
        for metric in metrics_all():
            present = versions.get(metric.identity.key)
            version = present.pk if present is not None else newest.get(metric.name, 0)
            columns = [column for column in metric.columns if column.level == "conversation"]
            for column in columns:
                number = Number(
                    column.name,
                    column.title.removesuffix(", mean"),
                    "metric",
                    series.get(("metric", column.name, version)),
                    column.unit,
                    column.description,
                )
                metrics.append(number)
                short.setdefault(metric.name, number)
        # A metric that is not registered any more can still be asked by, where results of it are stored.
        known = {number.name for number in metrics}
        for (kind, name, _version), key in sorted(series.items(), key=lambda one: one[0][2]):
            if kind == "metric" and name not in known:
                title = _("{name} (a metric that is not here any more)").format(name=name)
                short[name] = Number(name, title, "metric", key)
        self.shown: list[Number] = [*ratings, *counts, *metrics]
        self._by_name: dict[str, Number] = {
            **short,
            **{number.name: number for number in (*metrics, *counts, *ratings)},
            **{f"{n.kind}.{n.name}": n for n in (*metrics, *counts, *ratings)},
        }

    def get(self, name: str) -> Number | None:
        """Return the number of this name, in upper or lower case; None where there is none."""
        found = self._by_name.get(name)
        if found is None:
            lower = name.lower()
            found = next((n for key, n in self._by_name.items() if key.lower() == lower), None)
        return found

    def names(self) -> list[str]:
        """Return the names of those that some conversation has, with the kind where another has the same name."""
        return [
            name
            for name, number in self._by_name.items()
            if _is_there(number)
            and (name != f"{number.kind}.{number.name}" or self._by_name[number.name] != number)
        ]

    def measured(self) -> list[Number]:
        """Return those that some conversation has, in the order of a list: ratings, counts, metrics."""
        return [number for number in self.shown if _is_there(number)]


def _is_there(number: Number) -> bool:
    return number.series is not None or bool(number.column) or number.computed is not None
