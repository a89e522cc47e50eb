"""How far long work is, for pages and commands that poll."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from django.utils import timezone

from webapp.runs.holders import STALE_AFTER, holder_is_dead
from webapp.runs.models import HybridFit, Job, MetricRun, SelfPlayRun

JOB_MODELS: tuple[type[Job], ...] = (SelfPlayRun, MetricRun, HybridFit)
NO_WORKER_AFTER = timedelta(seconds=15)
J = TypeVar("J", bound=Job)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A snapshot.

    Attributes:
        fraction: of the work done, 0 to 1.
        remaining_s: estimated from the pace so far; None where unknown.
        waits_for_worker: nobody has taken it for a while: probably no worker runs.
        stopping: asked to stop, and about to.
    """

    state: str
    n_done: int
    n_total: int
    fraction: float
    remaining_s: float | None
    waits_for_worker: bool
    stopping: bool
    is_over: bool
    error: str


def job_progress(job: Job) -> JobProgress:
    """The job's state as its row says, without reading it again."""
    now = timezone.now()
    fraction = min(1.0, job.n_done / job.n_total) if job.n_total else float(job.is_over)
    remaining_s = None
    if job.state == Job.State.RUNNING and job.started_at and 0 < fraction < 1:
        elapsed_s = (now - job.started_at).total_seconds()
        remaining_s = round(elapsed_s * (1 - fraction) / fraction, 1)
    return JobProgress(
        state=job.state,
        n_done=job.n_done,
        n_total=job.n_total,
        fraction=fraction,
        remaining_s=remaining_s,
        waits_for_worker=job.state == Job.State.QUEUED and now - job.updated_at > NO_WORKER_AFTER,
        stopping=job.cancel_requested and not job.is_over,
        is_over=job.is_over,
        error=job.error,
    )


def job_is_abandoned(job: Job) -> bool:
    """Whether a job counts as running though its process was killed or has long been silent.

    A worker that starts takes it up; work that was done by a command waits for somebody to go on with it.
    """
    if job.state != Job.State.RUNNING or not job.holder:
        return False
    silent = job.heartbeat_at is None or timezone.now() - job.heartbeat_at > STALE_AFTER
    return silent or holder_is_dead(job.holder)


def job_read(job: J) -> J:
    """The job's row as it is now."""
    return type(job).objects.get(pk=job.pk)  # type: ignore[attr-defined, no-any-return]


def jobs_unfinished() -> list[Job]:
    """Every job that is waiting or running, oldest first of each kind."""
    states = [Job.State.QUEUED, Job.State.RUNNING]
    return [
        job
        for model in JOB_MODELS
        for job in model.objects.filter(state__in=states).order_by("pk")  # type: ignore[attr-defined]
    ]
