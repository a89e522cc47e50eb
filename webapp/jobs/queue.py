"""Sending work to the workers, by the task's name: who asks for a job imports no task.

A message names a queue, not a job: it wakes a worker, which does a slice of the job that waited longest. So a lost
or a superfluous message does no harm, and no long job keeps others from their turn.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import transaction
from kombu.exceptions import OperationalError

from webapp.celery import app
from webapp.jobs.kinds.base import kind_of
from webapp.jobs.models import JobBase

log = logging.getLogger(__name__)

TASK = "webapp.runs.tasks.work"
ALERTS_TASK = "webapp.runs.tasks.alerts"
CLOCKS = "webapp.runs.tasks.retention"


def send(job: JobBase, *, countdown_s: float = 0) -> bool:
    """Wake a worker for the job.

    Returns:
        False if the broker is away. The job waits in the database, and a worker that starts picks it up.
    """
    return wake(kind_of(job).queue_of(job), countdown_s=countdown_s)


def send_on_commit(job: JobBase) -> None:
    """Wake a worker when the job is in the database, unless a command does it itself."""
    if not job.inline:
        transaction.on_commit(partial(send, job))


def alerts_later(*, countdown_s: float) -> None:
    """Have alerts that could not be sent tried again after so long."""
    try:
        app.send_task(ALERTS_TASK, countdown=countdown_s, queue="default")
    except (OperationalError, OSError):
        log.warning("the broker is away; alerts wait for the next worker that starts", exc_info=True)


def wake(queue: str, *, countdown_s: float = 0, watches: bool = False) -> bool:
    """Wake a worker of the queue. False if the broker is away.

    Args:
        watches: where nothing is to be done now, look again later: those who do the rest may die.
    """
    try:
        app.send_task(TASK, [queue, watches], countdown=countdown_s or None, queue=queue)
    except (OperationalError, OSError):
        log.warning("the broker is away; work waits in the database", exc_info=True)
        return False
    return True


def clocks_look() -> bool:
    """Ask a worker to look at the studies' retention clocks. False if the broker is away; the next hour asks again."""
    try:
        app.send_task(CLOCKS, queue="default", expires=3600)
    except (OperationalError, OSError):
        log.warning("the broker is away; the retention clocks wait", exc_info=True)
        return False
    return True
