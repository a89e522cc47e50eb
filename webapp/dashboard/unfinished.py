"""Long work that is not over, as the list of studies shows it."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.runs.models import HybridFit, Job, JobBase, MetricRun, SelfPlayRun
from webapp.runs.selectors import jobs as selectors


@dataclass(frozen=True, slots=True)
class Running:
    """A job under way, or waiting for a worker.

    Attributes:
        route: name and arguments of the page that shows it.
    """

    job: JobBase
    title: str
    route: tuple[str, list[object]]


def jobs_running() -> list[Running]:
    """Return the jobs waiting or under way, oldest first."""
    return [
        Running(job, selectors.job_title(job), route_of(job)) for job in selectors.jobs_unfinished()
    ]


def route_of(job: JobBase) -> tuple[str, list[object]]:
    """Return the page that shows a job: that of its study or run where it has one."""
    if isinstance(job, SelfPlayRun):
        return "dashboard:run", [job.pk]
    if isinstance(job, MetricRun) and job.study is not None:
        return "dashboard:study_metrics", [job.study.key]
    if isinstance(job, MetricRun) and job.run is not None:
        return "dashboard:run", [job.run.pk]
    if isinstance(job, HybridFit):
        return "dashboard:study_hybrid", [job.study.key]
    if job.kind == "export" and isinstance(job, Job) and job.study is not None:
        return "dashboard:study_export", [job.study.key]
    if job.kind == "report" and isinstance(job, Job) and job.study is not None:
        return "dashboard:study_report", [job.study.key]
    return "dashboard:job", [job.kind, job.pk]
