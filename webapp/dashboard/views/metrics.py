"""The data dictionary of all metrics, and computing them for a study."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from chatbots.registry import UnknownName
from evaluation.columns import Column
from evaluation.metrics.base import Metric
from evaluation.metrics.configured import configured_metrics
from evaluation.metrics.registry import metric_list
from evaluation.plots.lettering import plain
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.dashboard.access import needs, staff_only
from webapp.dashboard.context import page
from webapp.dashboard.selectors import metrics_progress
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import study_of, study_page
from webapp.runs.selectors.languages import (
    languages_of,
    languages_told,
    left_out_told,
    metrics_left_out,
    results_counted,
    study_languages,
)
from webapp.runs.selectors.metrics import metric_runs_newest
from webapp.runs.services.jobs import jobs_settle
from webapp.runs.services.metrics import metric_run_create


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
        return f"from {plain(low or 0)}"
    if low is None:
        return f"up to {plain(high)}"
    return f"{plain(low)} … {plain(high)}"


@require_safe
@staff_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Show the data dictionary."""
    rows = dictionary()
    return page(
        request,
        "metrics.html",
        "metrics",
        metrics=rows,
        broken=configured_metrics.broken,
        n_columns=sum(len(row.columns) for row in rows),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(to_post=[Right.RUN])
def study_metrics(request: HttpRequest, key: str) -> HttpResponse:
    """Show how much of a study is measured; POST computes what is missing."""
    study = study_of(key)
    if request.method == "POST":
        try:
            metric_run_create(
                study=study,
                metrics=request.POST.getlist("metric"),
                created_by=request.user,  # type: ignore[arg-type]
            )
        except (Refused, UnknownName) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, "Metrics are being computed by a worker.")
        return redirect("dashboard:study_metrics", study.key)
    jobs_settle()
    jobs = metric_runs_newest(study, 10)
    newest = jobs[0] if jobs else None
    counted = results_counted(study=study)
    measured = metrics_progress(study, counted)
    names = {one.name for one in measured if one.n_done}
    return study_page(
        request,
        "study_metrics.html",
        study,
        "metrics",
        progress=measured,
        languages=languages_told(
            study_languages(study), [metric for metric in metric_list() if metric.name in names]
        ),
        left_out=left_out_told(metrics_left_out(study=study, counted=counted)),
        broken=configured_metrics.broken,
        jobs=jobs,
        running=job_context(newest, "metrics") if newest and not newest.is_over else None,
    )
