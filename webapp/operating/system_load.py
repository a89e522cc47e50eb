"""Load of the installation: queues of replies and jobs, and disk usage."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min
from django.utils import timezone

from webapp.conversations.selectors import replies_due
from webapp.jobs import alerts
from webapp.jobs.kinds.base import QUEUES, job_models
from webapp.jobs.models import Job, JobBase, State
from webapp.jobs.selectors.jobs import jobs_unfinished, queue_of


@dataclass(frozen=True, slots=True)
class Queue:
    """State of a queue.

    Attributes:
        n: number of entries that wait.
        n_running: number of entries that a process is at work on.
        oldest_s: seconds that the first entry has waited; None where nothing waits.
        moved_s: seconds since the last progress of any entry; None where it is not known.
    """

    name: str
    n: int
    n_running: int
    oldest_s: float | None
    moved_s: float | None = None


def replies_queue() -> Queue:
    """Return the replies that participants wait for: those a bot host is at, and the others."""
    found = replies_due()
    waiting = found.filter(due_lease=None).aggregate(n=Count("pk"), since=Min("due_since"))
    return Queue("replies", waiting["n"], found.exclude(due_lease=None).count(), _age_s(waiting["since"]))


def job_queues() -> list[Queue]:
    """Return the workers' queues, those without a job too.

    Jobs that send alerts are left out: without a worker another process sends, and they would be told of themselves.
    """
    waiting: dict[str, list[JobBase]] = {name: [] for name in QUEUES}
    running: dict[str, list[JobBase]] = defaultdict(list)
    for job in jobs_unfinished():
        if (queue := queue_of(job)) and job.kind != alerts.KIND:
            (waiting if job.state == State.QUEUED else running).setdefault(queue, []).append(job)
    found = []
    for name, jobs in waiting.items():
        moved = [job.heartbeat_at or job.started_at for job in running[name]]
        oldest = min((job.created_at for job in jobs), default=None)
        newest = max((one for one in moved if one is not None), default=None)
        found.append(Queue(name, len(jobs), len(running[name]), _age_s(oldest), _age_s(newest)))
    return found


def job_counts() -> dict[tuple[str, str], int]:
    """Count the jobs by kind and state."""
    counts: Counter[tuple[str, str]] = Counter()
    for model in job_models():
        by = ("kind", "state") if model is Job else ("state",)
        rows = model._default_manager.order_by().values_list(*by).annotate(n=Count("pk"))
        for *names, n in rows:
            kind = names[0] if model is Job else str(model.kind)
            counts[kind, names[-1]] += n
    return dict(counts)


def _age_s(moment: datetime | None) -> float | None:
    return None if moment is None else max(0.0, (timezone.now() - moment).total_seconds())


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that the data folder is on, in bytes."""

    folder: Path
    free: int
    total: int


def disk_usage() -> Disk:
    """Return the usage of the data folder's disk, as this process sees it."""
    folder = Path(settings.DATA_DIR)
    found = shutil.disk_usage(folder)
    return Disk(folder, found.free, found.total)


def database_bytes() -> int:
    """Return the size of the database, as it says itself; of SQLite without its journal."""
    size = "SELECT pg_database_size(current_database())"
    if connection.vendor == "sqlite":
        size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    with connection.cursor() as cursor:
        cursor.execute(size)
        return int(cursor.fetchone()[0])


def folder_bytes(names: tuple[str, ...] = ("cache", "backups", "exports", "imports")) -> dict[str, int]:
    """Return the bytes of the data folder's folders that grow by themselves; missing folders: 0."""
    return {name: _size(Path(settings.DATA_DIR) / name) for name in names}


def _size(folder: Path) -> int:
    total = 0
    for where, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total
