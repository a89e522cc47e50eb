"""Long work that is not over, as the list of studies shows it."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from webapp.runs.models import HybridFit, Job, MetricRun, SelfPlayRun
from webapp.runs.selectors.jobs import job_is_abandoned


@dataclass(frozen=True, slots=True)
class Running:
    """A job under way."""

    title: str
    n_done: int
    n_total: int
    state: str
    route: tuple[str, list[object]]
    is_abandoned: bool


def jobs_running() -> list[Running]:
    """Jobs waiting or under way, oldest first."""
    return [job for job in jobs_unfinished() if not job.is_abandoned]


def jobs_unfinished() -> list[Running]:
    """Jobs that are not over, those without a process too."""
    live = (Job.State.QUEUED, Job.State.RUNNING)
    found = [
        Running(
            run.name or _("Self-play {n}").format(n=run.pk),
            run.n_done,
            run.n_total,
            run.get_state_display(),
            ("dashboard:run", [run.pk]),
            job_is_abandoned(run),
        )
        for run in SelfPlayRun.objects.filter(state__in=live).order_by("pk")
    ]
    for metric_run in (
        MetricRun.objects.filter(state__in=live).select_related("study", "run").order_by("pk")
    ):
        study, run = metric_run.study, metric_run.run
        route: tuple[str, list[object]] = ("dashboard:metrics", [])
        name = str(metric_run)
        if study is not None:
            name, route = study.name, ("dashboard:study_metrics", [study.key])
        elif run is not None:
            name, route = str(run), ("dashboard:run", [run.pk])
        found.append(
            Running(
                _("Metrics for {name}").format(name=name),
                metric_run.n_done,
                metric_run.n_total,
                metric_run.get_state_display(),
                route,
                job_is_abandoned(metric_run),
            )
        )
    found += [
        Running(
            _("Hybrid metric for {name}").format(name=fit.study.name),
            fit.n_done,
            fit.n_total,
            fit.get_state_display(),
            ("dashboard:study_hybrid", [fit.study.key]),
            job_is_abandoned(fit),
        )
        for fit in HybridFit.objects.filter(state__in=live).select_related("study").order_by("pk")
    ]
    return found
