"""Routes of jobs: list, progress, cancel, resume, and start.

Also start hybrid fits, metrics of conversations, analyses, rehearsals and item sampling.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import Http404, HttpRequest
from ninja import Router, Status

from chatbots.text import quote
from evaluation.hybrid.baselines import MIN_BOTS
from webapp.api.errors import BODY_FAILURES, FAILURES, Token
from webapp.api.schemas import AskAnalysis, AskFit, AskItems, AskMetrics, AskRehearsal, FitOut, JobOut
from webapp.api.schemas_study import MetricProgressOut
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.errors import Refused
from webapp.core.pages import server_address
from webapp.core.rights import Right
from webapp.insights.overview import selfplay_bots
from webapp.insights.pipeline import SELFPLAY_EACH
from webapp.insights.selectors import bot_progress, metrics_progress
from webapp.jobs.kinds.base import job_models, kinds
from webapp.jobs.models import HybridFit, Job, JobBase, SelfPlayRun, State
from webapp.jobs.services.fits import analysis_start, fit_create, metric_run_create
from webapp.jobs.services.jobs import job_cancel, job_create, job_restart, job_settle, jobs_settle
from webapp.ratings.flag_selectors import without_read
from webapp.ratings.services import flags_ensure
from webapp.studies.models import Study
from webapp.studies.protocols.base import get_protocol
from webapp.studies.selectors import study_by_key

router = Router(tags=["jobs"], auth=Token())
TO_RUN = Token(Right.RUN)
_LISTED = 100


def get_job(kind: str, pk: int) -> JobBase:
    """Return a job.

    Raises:
        Http404: no such job.
    """
    if kind not in kinds:
        raise Http404(f"there is no job kind {quote(kind)}; the kinds are {', '.join(kinds.names())}")
    job = kinds.get(kind).model._default_manager.filter(pk=pk).first()
    if job is None or job.kind != kind:
        raise Http404(f"there is no job {pk} of kind {kind}")
    return job_settle(job=job)


@router.get("/jobs", response={200: list[JobOut], **FAILURES}, operation_id="jobs")
def jobs(request: HttpRequest, unfinished: bool = False) -> Any:
    """List the newest jobs of all kinds without results, at most 100."""
    jobs_settle()
    listed_jobs: list[JobBase] = []
    for model in job_models():
        rows: QuerySet[Any] = model._default_manager.order_by("-created_at")
        if unfinished:
            rows = rows.filter(state__in=(State.QUEUED, State.RUNNING))
        if model is Job:
            rows = rows.filter(kind__in=kinds.names()).defer("result").select_related("study")
        listed_jobs += rows[:_LISTED]
    newest = sorted(listed_jobs, key=lambda job: job.created_at, reverse=True)[:_LISTED]
    for job in newest:
        if isinstance(job, Job):
            job.result = None  # not loaded
    return newest


@router.get("/jobs/{kind}/{id}", response={200: JobOut, **FAILURES}, operation_id="job")
def job(request: HttpRequest, kind: str, id: int) -> Any:
    """Return a job, with its result if it has one."""
    return get_job(kind, id)


@router.post("/jobs/{kind}/{id}/stop", auth=TO_RUN, response={200: JobOut, **FAILURES}, operation_id="job_stop")
def job_stop(request: HttpRequest, kind: str, id: int) -> Any:
    """Request a job to stop.

    What it has stored so far is kept.
    """
    return job_cancel(job=get_job(kind, id))


@router.post("/jobs/{kind}/{id}/go-on", auth=TO_RUN, response={200: JobOut, **FAILURES}, operation_id="job_go_on")
def job_go_on(request: HttpRequest, kind: str, id: int) -> Any:
    """Resume a job that failed, was stopped or lost its process."""
    return job_restart(job=get_job(kind, id), enqueue=True)


@router.post("/studies/{key}/fits", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="fit_start")
def fit_start(request: HttpRequest, key: str, params: AskFit) -> Any:
    """Fit the hybrid metric to a study's ratings with leave-one-bot-out folds."""
    study = study_by_key(key)
    excluded_flags = without_read(",".join(params.without))
    if excluded_flags:
        flags_ensure(study=study)
    fit = fit_create(
        study=study,
        targets=params.targets,
        preset=params.preset,
        intercept=params.intercept,
        run=None if params.run is None else get_run(params.run),
        features=params.features,
        exclude_bots=params.exclude_bots,
        with_people=params.with_people,
        include_synthetic=params.include_synthetic,
        excluded_flags=excluded_flags,
        condition=params.condition,
        seed=params.seed,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, fit)


@router.get("/studies/{key}/fits", response={200: list[FitOut], **FAILURES}, operation_id="fits")
def fits(request: HttpRequest, key: str) -> Any:
    """List a study's newest hybrid fits, at most 100, without their documents."""
    newest_fits = list(_annotate_fits(study_by_key(key).hybrid_fits.order_by("-pk")).defer("result")[:_LISTED])
    for fit in newest_fits:
        fit.result = None  # not loaded
    return newest_fits


@router.get("/fits/{id}", response={200: FitOut, **FAILURES}, operation_id="fit")
def fit(request: HttpRequest, id: int) -> Any:
    """Return a hybrid fit with the document that `fit_hybrid --json` prints."""
    selected_fit = _annotate_fits(HybridFit.objects.filter(pk=id)).first()
    if selected_fit is None:
        raise Http404(f"there is no fit {id}")
    return selected_fit


@router.get("/fits/{id}/file", response={200: dict[str, Any], **FAILURES}, operation_id="fit_file")
def fit_file(request: HttpRequest, id: int) -> Any:
    """Download a fit as `fit_hybrid --output` writes it; apply it with `--fit`."""
    fit = HybridFit.objects.filter(pk=id).first()
    if fit is None or not fit.kept:
        raise Http404(f"there is no stored fit {id}")
    record(DOWNLOAD, fit, file="fit")
    return fit.kept


def _annotate_fits(rows: QuerySet[HybridFit]) -> QuerySet[HybridFit]:
    """Return fits without large columns that no response contains."""
    has_file = ExpressionWrapper(Q(kept__isnull=False), BooleanField())
    return rows.defer("kept", "predictions").annotate(has_file=has_file)


def get_run(pk: int) -> SelfPlayRun:
    """Return a self-play run.

    Raises:
        Http404: no such run.
    """
    run = SelfPlayRun.objects.filter(pk=pk).first()
    if run is None:
        raise Http404(f"there is no self-play run {pk}")
    return run


metrics_router = Router(tags=["metrics"], auth=Token())


@metrics_router.get(
    "/studies/{key}/metrics", response={200: list[MetricProgressOut], **FAILURES}, operation_id="study_metrics"
)
def study_metrics(request: HttpRequest, key: str) -> Any:
    """Return the progress of each metric over a study's finished conversations."""
    return metrics_progress(study_by_key(key))


@metrics_router.post(
    "/runs/{id}/metrics", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="run_measure"
)
def run_measure(request: HttpRequest, id: int, params: AskMetrics) -> Any:
    """Compute metrics of a self-play run's conversations."""
    return Status(202, _start_metric_run(params, request, run=get_run(id)))


@metrics_router.post(
    "/studies/{key}/metrics", auth=TO_RUN, response={202: JobOut, **BODY_FAILURES}, operation_id="study_measure"
)
def study_measure(request: HttpRequest, key: str, params: AskMetrics) -> Any:
    """Compute metrics of a study's conversations."""
    return Status(202, _start_metric_run(params, request, study=study_by_key(key)))


def _start_metric_run(
    params: AskMetrics, request: HttpRequest, *, study: Study | None = None, run: SelfPlayRun | None = None
) -> JobBase:
    return metric_run_create(
        study=study,
        run=run,
        metrics=params.metrics,
        created_by=request.user,  # type: ignore[arg-type]
    )


analyses_router = Router(tags=["jobs"], auth=Token(Right.RUN))


@analyses_router.post("/studies/{key}/analysis", response={202: JobOut, **BODY_FAILURES}, operation_id="analysis_start")
def analysis(request: HttpRequest, key: str, params: AskAnalysis) -> Any:
    """Compute a study's metrics and fit the hybrid metric.

    Optionally let its bots converse first (self-play).

    Returns the first job; the others start when it is done and appear in `GET /jobs`.
    """
    study = study_by_key(key)
    bots = selfplay_bots(study) if params.selfplay else []
    if params.selfplay and not bots:
        raise Refused("no_bots", f"no bot of {key} can chat here; leave out selfplay")
    n_rated = sum(1 for bot in bot_progress(study) if bot.n_completed)
    job = analysis_start(
        study=study,
        bots=bots,
        n_conversations=SELFPLAY_EACH,
        fits=n_rated >= MIN_BOTS,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job)


@analyses_router.post(
    "/studies/{key}/rehearsals", response={202: JobOut, **BODY_FAILURES}, operation_id="rehearsal_start"
)
def rehearsal(request: HttpRequest, key: str, params: AskRehearsal) -> Any:
    """Run scripted participants through a study's pages.

    They are marked synthetic and excluded from results.
    """
    study = study_by_key(key)
    if study.is_imported:
        raise Http404(f"{key} is imported, so it has no participant link")
    job = job_create(
        kind="rehearsal",
        payload={"people": params.people, "url": server_address(request), "seed": params.seed},
        study=study,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job)


@analyses_router.post(
    "/studies/{key}/items",
    auth=Token(Right.ADMINISTER, Right.RUN),
    response={202: JobOut, **BODY_FAILURES},
    operation_id="items_draw",
)
def items_draw(request: HttpRequest, key: str, params: AskItems) -> Any:
    """Draw items for a study from stored conversations or self-play.

    The listed bots reply to them.
    """
    study = study_by_key(key)
    if not get_protocol(study).judges_items:
        raise Refused("no_items", f"participants do not rate items in {key}")
    job = job_create(
        kind="items",
        payload={"study": key, **params.model_dump(), "bots": list(params.bots)},
        study=study,
        created_by=request.user,  # type: ignore[arg-type]
    )
    return Status(202, job)
