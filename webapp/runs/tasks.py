"""Celery's doors to the long work: each task does one slice and sends the next.

The parent of a worker imports this module, so nothing here may import torch, transformers or statsmodels
(OpenMP does not survive a fork); the slices import what they need in the child.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Task
from celery.signals import worker_ready
from django.db import connections
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.celery import app
from webapp.runs.models import HybridFit, Job, MetricRun, SelfPlayRun
from webapp.runs.selectors.fits import fit_encodes_texts

log = logging.getLogger(__name__)

RETRY_IN_S = 5


@app.task(ignore_result=True)
def selfplay_slice(run_id: int) -> None:
    """About a minute of a self-play run."""
    from webapp.runs import jobs

    _go_on(selfplay_slice, run_id, jobs.selfplay_slice)


@app.task(ignore_result=True)
def metrics_slice(metric_run_id: int) -> None:
    """About a minute of metrics."""
    from webapp.runs import jobs

    _go_on(metrics_slice, metric_run_id, jobs.metrics_slice)


@app.task(ignore_result=True)
def hybrid_fit(fit_id: int) -> None:
    """A whole hybrid fit."""
    from webapp.runs import jobs

    _go_on(hybrid_fit, fit_id, jobs.fit_do)


_TASKS: dict[type[Job], Task] = {
    SelfPlayRun: selfplay_slice,
    MetricRun: metrics_slice,
    HybridFit: hybrid_fit,
}


def _go_on(task: Task, job_id: int, work: Callable[[int], bool]) -> None:
    from django.db import OperationalError as DatabaseAway

    try:
        more = work(job_id)
    except DatabaseAway:
        log.warning("%s %s: the database is away; trying again", task.name, job_id)
        task.apply_async([job_id], countdown=RETRY_IN_S)
        return
    if more:
        task.delay(job_id)


def enqueue(job: Job, *, countdown_s: float = 0) -> bool:
    """Send the job's next slice to the workers.

    Returns:
        False if the broker is away. The job waits in the database, and a worker that starts picks it up.
    """
    task = _TASKS[type(job)]
    try:
        task.apply_async([job.pk], countdown=countdown_s or None, **_queue(job))
    except (OperationalError, OSError):
        log.warning("%s waits: the broker is away", job, exc_info=True)
        return False
    return True


def _queue(job: Job) -> dict[str, str]:
    """The queue where the routes by task's name are not enough: fits that encode texts go where the device is."""
    if isinstance(job, HybridFit) and fit_encodes_texts(job):
        return {"queue": "gpu"}
    return {}


@worker_ready.connect
def unfinished_pick_up(**_: Any) -> None:
    """Send slices for every job that is not over.

    One whose holder may be alive is sent for the time when it would be known to be dead; whoever comes too
    early finds it taken and does nothing.
    """
    from webapp.runs.holders import STALE_AFTER, holder_is_dead
    from webapp.runs.selectors.jobs import jobs_unfinished

    try:
        for job in jobs_unfinished():
            wait_s = 0.0
            if job.holder and job.heartbeat_at and not holder_is_dead(job.holder):
                wait = job.heartbeat_at + STALE_AFTER - timezone.now()
                wait_s = max(0.0, wait.total_seconds() + 1)
            enqueue(job, countdown_s=wait_s)
    except Exception:
        log.exception("unfinished jobs could not be picked up")
    finally:
        connections.close_all()  # children that are forked later must not share one
