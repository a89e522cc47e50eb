"""Messages to workers, by a task's name, and leases of jobs and shards by the processes that work on them.

Who asks for a job imports no task.

A message names a queue, not a job: it wakes a worker, which does a slice of the job that waited longest. So a lost
or a superfluous message does no harm, and no long job keeps others from their turn.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from django.db import transaction
from django.db.models import Q
from kombu.exceptions import OperationalError

from webapp.celery import app
from webapp.core.clock import database_now
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
        transaction.on_commit(partial(send, job), robust=True)


def alerts_later(*, countdown_s: float) -> None:
    """Have alerts that could not be sent tried again after so long."""
    try:
        app.send_task(ALERTS_TASK, countdown=countdown_s, queue="default")
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; alerts wait for the next worker to start", exc_info=True)


def wake(queue: str, *, countdown_s: float = 0, watches: bool = False) -> bool:
    """Wake a worker of the queue. False if the broker is away.

    Args:
        watches: where nothing is to be done now, look again later: those who do the rest may die.
    """
    try:
        app.send_task(TASK, [queue, watches], countdown=countdown_s or None, queue=queue)
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; jobs wait in the database", exc_info=True)
        return False
    return True


def clocks_look() -> bool:
    """Ask a worker to look at the studies' retention clocks. False if the broker is away; the next hour asks again."""
    try:
        app.send_task(CLOCKS, queue="default", expires=3600)
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; the retention job waits", exc_info=True)
        return False
    return True


STALE_AFTER = timedelta(seconds=60)
"""Who has given no sign of life for so long holds a job no more."""


_live_holders: set[str] = set()


def holder_new() -> str:
    """Return a token of this process, host:pid:random, with which it holds one row until `holder_end`."""
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{uuid.uuid4().hex}"
    _live_holders.add(holder)
    return holder


def holder_end(holder: str) -> None:
    """Be at work with this token no longer, even where a busy database did not let the row go."""
    _live_holders.discard(holder)


def free_rows(current: str | None) -> Q:
    """Return the condition on a row that it may be claimed.

    Args:
        current: its holder as read before, who is looked up where that was a process of this machine.
    """
    free = Q(holder="") | Q(heartbeat_at=None) | Q(heartbeat_at__lt=database_now() - STALE_AFTER)
    return free | Q(holder=current) if current and holder_is_dead(current) else free


def is_alive(holder: str, heartbeat_at: datetime | None) -> bool:
    """Return True if a process holds the row and has not died or long been silent."""
    if not holder or heartbeat_at is None or database_now() - heartbeat_at > STALE_AFTER:
        return False
    return not holder_is_dead(holder)


def holder_is_dead(holder: str) -> bool:
    """Return True if the holder was a process of this machine that no longer exists, or this one, long done with it."""
    host, _, rest = holder.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname()[:80] or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        return holder not in _live_holders
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(int(pid))


def _is_zombie(pid: int) -> bool:
    """Return True if a process has ended and only its parent has not noticed, as in containers without an init."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone meanwhile, or not Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")
