"""Metrics, fits, stored results and reports of the benchmarks' studies, so that their pages are complete."""

import random
import shutil
from collections.abc import Collection, Mapping
from typing import Any

PARTS = ("comparisons", "dimensions", "answers", "models", "raters", "trajectories", "correlations")
"""Of the analysis of a study of chats."""


def metrics_store(study: Any, wanted: Mapping[str, Collection[str]], *, seed: int = 3) -> None:
    """Give every conversation of a study drawn results of metrics, which differ between bots.

    Args:
        wanted: by a metric's name the columns of it, none for all.
    """
    from webapp.jobs.models import MetricResult
    from webapp.jobs.selectors.analysis_tables import column_names
    from webapp.jobs.selectors.metrics import metrics_all
    from webapp.jobs.services.fits import metric_version_record

    draw = random.Random(seed)
    chats = list(study.conversations.order_by("pk").values_list("pk", "bot__bot_id"))
    bots = sorted({bot for _pk, bot in chats})
    for metric in metrics_all():
        if metric.name not in wanted:
            continue
        version = metric_version_record(metric=metric)
        columns = wanted[metric.name] or column_names([metric])
        shift = {(bot, name): draw.random() for bot in bots for name in columns}
        for start in range(0, len(chats), 2000):
            MetricResult.objects.bulk_create(
                MetricResult(
                    conversation_id=pk,
                    metric=version,
                    values={name: (shift[bot, name] + draw.random()) / 2 for name in columns},
                )
                for pk, bot in chats[start : start + 2000]
            )


def metrics_of_fit(preset: str = "strong") -> dict[str, Collection[str]]:
    """Return the metrics that a fit reads, those of its baselines too, as `metrics_store` takes them."""
    from evaluation.hybrid.features import LENGTHS, preset_get
    from webapp.jobs.selectors.analysis_tables import metrics_of_columns

    result = metrics_of_columns([*preset_get(preset).features, *LENGTHS])
    return {metric.name: () for metric in result}


def done(job: Any) -> Any:
    """Do a job as a worker would, and return it as it ended."""
    from webapp.jobs.engine import run_job

    run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    return job


def fit_make(study: Any, preset: str = "strong") -> Any:
    """Fit the hybrid metric by the product's own service and job; return the fit."""
    from webapp.jobs.services.fits import fit_create

    return done(fit_create(study=study, preset=preset, enqueue=False))


def results_make(study: Any, parts: Collection[str] = PARTS) -> None:
    """Make the results of a study that are missing, as workers would, and its report."""
    from webapp.insights.report_files import report_ask
    from webapp.results.cache import AnalysisKey, get_result

    for part in parts:
        job = get_result(AnalysisKey(study, part)).job
        if job is not None:
            done(job)
    job = report_ask(study=study)
    if job.state != "done":
        done(job)


def results_copy(source: Any, target: Any) -> None:
    """Store the fit, the results and the report of a small study as those of a large one, whose jobs would take
    minutes.

    What a page of them takes depends on bots, questions and columns, of which both studies have the same.
    """
    from webapp.insights.report_files import report_ask, report_path
    from webapp.jobs.models import HybridFit, Job
    from webapp.results.cache import AnalysisKey, get_result, request_result

    def as_done(job: Any, like: Any, **other: Any) -> None:
        type(job).objects.filter(pk=job.pk).update(
            **{
                "state": "done",
                "result": like.result,
                "started_at": like.started_at,
                "ended_at": like.ended_at,
                **other,
            }
        )

    if not target.hybrid_fits.filter(state="done").exists():
        fit = HybridFit.objects.filter(study=source, state="done").latest("pk")
        fit.pk, fit.study = None, target
        fit.save(force_insert=True)
    for part in PARTS:
        made = Job.objects.filter(kind="results", study=source, payload__part=part, state="done")
        question = AnalysisKey(target, part)
        if not get_result(question).is_current:
            like = made.latest("pk")
            like.result["facts"]["n_ratings"] = question.state.n_ratings
            as_done(request_result(question), like)
    job = report_ask(study=target)
    if job.state != "done" or not report_path(job).exists():
        like = Job.objects.filter(kind="report", study=source, state="done").latest("pk")
        shutil.copy(report_path(like), report_path(job))
        as_done(job, like)
