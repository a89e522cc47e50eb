"""Catalogue of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from evaluation.data.tables import Column
from evaluation.metrics.base import Metric
from evaluation.metrics.imported import ScoreFileMetric
from evaluation.metrics.registry import configured_metrics
from evaluation.number_format import share, span
from evaluation.plots.text_layout import tick_label
from webapp.core.errors import Refused
from webapp.core.language import plural
from webapp.core.rights import Right
from webapp.dashboard.navigation import metric_tabs, page, post_view, read_view
from webapp.jobs.selectors.metrics import languages_of, metrics_all, metrics_computed
from webapp.results.metric_agreement import MetricAgreement, metric_agreements
from webapp.transfer.import_scores import imported_metric_delete


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
    agreement: MetricAgreement | None

    @property
    def is_imported(self) -> bool:
        """True if its values come from files."""
        return isinstance(self.metric, ScoreFileMetric)

    @property
    def meaning(self) -> str:
        """First sentence on the first column."""
        description = self.columns[0][0].description if self.columns else ""
        sentence, full_stop, _rest = description.partition(". ")
        return f"{sentence}." if full_stop else description

    @property
    def agreement_text(self) -> str:
        """Agreement with people in words, or the reason for none."""
        agreement = self.agreement
        if agreement is None:
            return "Agreement with people unknown: not compared with human ratings on this server."
        ends = span(agreement.low, agreement.high, shares=True) if agreement.low is not None else ""
        question = f"“{agreement.question}”" if agreement.question else "the mean of all ratings"
        where = f"{agreement.n:,} {agreement.unit} of {agreement.source}"
        return " ".join(filter(None, [f"ρ = {share(agreement.r)}", ends, f"with {question}, {where}"]))

    @property
    def words(self) -> str:
        """Text that the catalogue's search looks through."""
        columns = (f"{column.name} {column.title} {column.description}" for column, _range in self.columns)
        return " ".join([self.metric.name, self.metric.title, *columns]).lower()


def dictionary() -> list[MetricRow]:
    """Return every metric with its identity, columns and agreement with people."""
    metrics = metrics_all()
    agreements = metric_agreements(metrics)
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
            agreement=agreements.get(metric.name),
        )
        for metric in metrics
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


@post_view(to_post=[Right.RUN])
def metric_delete(request: HttpRequest, name: str) -> HttpResponse:
    """Delete an imported metric with its values."""
    try:
        n_values = imported_metric_delete(name)
    except Refused as refused:
        messages.error(request, refused.message)
    else:
        values = plural(n_values, "1 value", "%(n)d values") % {"n": n_values}
        messages.success(request, f"The metric {name} was deleted with {values}.")
    return redirect("dashboard:metrics")


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
        metric_tabs=metric_tabs("metrics"),
        groups=[group for group in groups if group[2]],
        q=q,
        broken=configured_metrics.broken,
        n_metrics=len(rows),
        n_columns=sum(len(row.columns) for row in rows),
    )
