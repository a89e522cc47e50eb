"""Long work that is not over, as the list of studies shows it."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.runs.models import HybridFit, JobBase, MetricRun, SelfPlayRun, Standing
from webapp.runs.selectors import jobs as selectors


@dataclass(frozen=True, slots=True)
class Running:
    """A job under way."""

    title: str
    n_done: int
    n_total: int
    standing: Standing
    route: tuple[str, list[object]]

    @property
    def is_abandoned(self) -> bool:
        """Return whether nobody is at work on it any more."""
        return self.standing == Standing.INTERRUPTED


def jobs_running() -> list[Running]:
    """Return the jobs waiting or under way, oldest first."""
    return [job for job in jobs_unfinished() if not job.is_abandoned]


def jobs_unfinished() -> list[Running]:
    """Return the jobs that are not over, those without a process too."""
    return [
        Running(
            selectors.job_title(job),
            job.n_done,
            job.n_total,
            selectors.job_standing(job),
            route_of(job),
        )
        for job in selectors.jobs_unfinished()
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
    return "dashboard:job", [job.kind, job.pk]
