"""Messages to workers, and the leases of jobs and shards.

Messages name a task, so callers need not import it.

A message names a queue, not a job: it wakes a worker, which does a slice of the job that waited longest. Lost or extra
messages are therefore harmless, and a long job does not block others.
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
        False if the broker is unavailable. The job waits in the database, and a worker that starts picks it up.
    """
    return wake(kind_of(job).queue_of(job), countdown_s=countdown_s)


def send_on_commit(job: JobBase) -> None:
    """Wake a worker on commit, unless a command does the job itself."""
    if not job.inline:
        starts_at = getattr(job, "starts_at", None)
        delay = {"countdown_s": max(0.0, (starts_at - database_now()).total_seconds())} if starts_at else {}
        transaction.on_commit(partial(send, job, **delay), robust=True)


def alerts_later(*, countdown_s: float) -> None:
    """Schedule a retry of failed alerts after the given time."""
    try:
        app.send_task(ALERTS_TASK, countdown=countdown_s, queue="default")
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; alerts wait for the next worker to start", exc_info=True)


def wake(queue: str, *, countdown_s: float = 0, watches: bool = False) -> bool:
    """Wake a worker of the queue; False if the broker is unavailable.

    Args:
        watches: if there is no work now, the worker checks again later, because the processes at work may die.
    """
    try:
        app.send_task(TASK, [queue, watches], countdown=countdown_s or None, queue=queue)
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; jobs wait in the database", exc_info=True)
        return False
    return True


def clocks_look() -> bool:
    """Ask a worker to run the retention job.

    False without a broker; the hourly check catches a missed call.
    """
    try:
        app.send_task(CLOCKS, queue="default", expires=3600)
    except (OperationalError, OSError):
        log.warning("the broker is unavailable; the retention job waits", exc_info=True)
        return False
    return True


STALE_AFTER = timedelta(seconds=60)
"""A holder without a heartbeat for this long no longer holds its job."""


_live_holders: set[str] = set()


def holder_new() -> str:
    """Return a token, `host:pid:random`, with which this process claims a row."""
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{uuid.uuid4().hex}"
    _live_holders.add(holder)
    return holder


def holder_end(holder: str) -> None:
    """Drop this token, even if a busy database kept the row claimed."""
    _live_holders.discard(holder)


def free_rows(current: str | None) -> Q:
    """Return the query condition under which a row can be claimed.

    Args:
        current: the holder read before; if it was a process of this machine, its pid is checked.
    """
    free = Q(holder="") | Q(heartbeat_at=None) | Q(heartbeat_at__lt=database_now() - STALE_AFTER)
    return free | Q(holder=current) if current and holder_is_dead(current) else free


def is_alive(holder: str, heartbeat_at: datetime | None) -> bool:
    """Return True if the row's holder is alive.

    It has sent recent heartbeats.
    """
    if not holder or heartbeat_at is None or database_now() - heartbeat_at > STALE_AFTER:
        return False
    return not holder_is_dead(holder)


def holder_is_dead(holder: str) -> bool:
    """Return True if the holder is a dead process of this machine.

    Also True for a token that this process has dropped.
    """
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
    """Return True if a process has ended but was not reaped.

    This happens in containers without an init process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # the process has ended, or this is not Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")
