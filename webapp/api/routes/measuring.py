"""Routes of metrics of conversations: their progress, and requests for more of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from webapp.api.auth import Token
from webapp.api.errors import BODY_FAILURES, FAILURES
from webapp.api.routes.jobs import TO_RUN, job_out, run_found
from webapp.api.schemas import AskMetrics, JobOut
from webapp.api.schemas_study import MetricProgressOut
from webapp.dashboard.selectors import metrics_progress
from webapp.runs.models import SelfPlayRun
from webapp.runs.services.metrics import metric_run_create
from webapp.studies.models import Study
from webapp.studies.selectors import study_by_key

router = Router(tags=["metrics"], auth=Token())


@router.get(
    "/studies/{key}/metrics",
    response={200: list[MetricProgressOut], **FAILURES},
    operation_id="study_metrics",
)
def study_metrics(request: HttpRequest, key: str) -> Any:
    """Return each metric's progress over a study's finished conversations."""
    return metrics_progress(study_by_key(key))


@router.post(
    "/runs/{id}/metrics",
    auth=TO_RUN,
    response={202: JobOut, **BODY_FAILURES},
    operation_id="run_measure",
)
def run_measure(request: HttpRequest, id: int, asked: AskMetrics) -> Any:
    """Compute metrics of a self-play run's conversations."""
    return Status(202, _measured(asked, request, run=run_found(id)))


@router.post(
    "/studies/{key}/metrics",
    auth=TO_RUN,
    response={202: JobOut, **BODY_FAILURES},
    operation_id="study_measure",
)
def study_measure(request: HttpRequest, key: str, asked: AskMetrics) -> Any:
    """Compute metrics of a study's conversations."""
    return Status(202, _measured(asked, request, study=study_by_key(key)))


def _measured(
    asked: AskMetrics,
    request: HttpRequest,
    *,
    study: Study | None = None,
    run: SelfPlayRun | None = None,
) -> JobOut:
    made = metric_run_create(
        study=study,
        run=run,
        metrics=asked.metrics,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return job_out(made)
