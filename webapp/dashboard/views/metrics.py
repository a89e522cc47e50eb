"""Catalogue of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse

from evaluation.data.tables import Column
from evaluation.metrics.base import Metric
from evaluation.metrics.registry import configured_metrics, metric_list
from evaluation.plots.text_layout import tick_label
from webapp.dashboard.navigation import page, read_view
from webapp.jobs.selectors.metrics import languages_of, metrics_computed


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of the dictionary."""

    metric: Metric
    key: str
    params: dict[str, object]
    reason: str
    languages: str
    needs: str
    device: str
    licence: str
    columns: list[tuple[Column, str]]

    @property
    def words(self) -> str:
        """Text that the catalogue's search looks through."""
        columns = (f"{column.name} {column.title} {column.description}" for column, _range in self.columns)
        return " ".join([self.metric.name, self.metric.title, *columns]).lower()


def dictionary() -> list[MetricRow]:
    """Return every metric with its identity and columns."""
    return [
        MetricRow(
            metric=metric,
            key=metric.identity.key,
            params=dict(metric.identity.params),
            reason=metric.unavailable_reason() or "",
            languages=languages_of(metric),
            needs=", ".join(getattr(metric, "needs", ())),
            device=str(getattr(metric, "device", "cpu")),
            licence=str(getattr(metric, "licence", "")),
            columns=[(column, _range(column)) for column in metric.columns],
        )
        for metric in metric_list()
    ]


def _range(column: Column) -> str:
    low, high = column.range
    if low is None and high is None:
        return "any"
    if high is None:
        return f"from {tick_label(low or 0)}"
    if low is None:
        return f"up to {tick_label(high)}"
    return f"{tick_label(low)} … {tick_label(high)}"


@read_view()
def metrics(request: HttpRequest) -> HttpResponse:
    """Show the catalogue in groups; `?q=` searches it."""
    q = " ".join(request.GET.get("q", "").split())
    rows = [row for row in dictionary() if q.lower() in row.words]
    computed = metrics_computed()
    groups = (
        ("Computed", "Metrics with results.", [row for row in rows if row.metric.name in computed], True),
        (
            "Can be computed",
            "Metrics that run on this installation.",
            [row for row in rows if row.metric.name not in computed and not row.reason],
            True,
        ),
        (
            "Need a model or a package",
            "Each entry shows what to install or configure.",
            [row for row in rows if row.metric.name not in computed and row.reason],
            bool(q),
        ),
    )
    return page(
        request,
        "metrics.html",
        "metrics",
        groups=[group for group in groups if group[2]],
        q=q,
        broken=configured_metrics.broken,
        n_metrics=len(rows),
        n_columns=sum(len(row.columns) for row in rows),
    )
