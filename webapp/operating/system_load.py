"""Load of the installation: queues, disk usage, and `/metrics`."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webapp.bots.selectors import bots_aside
from webapp.conversations.selectors import replies_due
from webapp.core import health
from webapp.core.clock import database_now
from webapp.core.health import is_redis_up
from webapp.core.models import Process
from webapp.core.processes import processes_living
from webapp.jobs import alerts
from webapp.jobs.kinds.base import QUEUES, job_models
from webapp.jobs.models import Job, JobBase, State
from webapp.jobs.selectors.jobs import jobs_unfinished, queue_of


@dataclass(frozen=True, slots=True)
class Queue:
    """State of a queue.

    Attributes:
        n: number of waiting entries.
        n_running: number of running entries.
        oldest_s: seconds that the first entry has waited; None if nothing waits.
        moved_s: seconds since the last progress of any entry; None if unknown.
    """

    name: str
    n: int
    n_running: int
    oldest_s: float | None
    moved_s: float | None = None


def replies_queue() -> Queue:
    """Return the queue of replies that participants wait for."""
    due_replies = replies_due()
    waiting = due_replies.filter(due_lease=None).aggregate(n=Count("pk"), since=Min("due_since"))
    return Queue("replies", waiting["n"], due_replies.exclude(due_lease=None).count(), _age_s(waiting["since"]))


def job_queues() -> list[Queue]:
    """Return the workers' queues, those without a job too.

    Jobs that send alerts are left out, because without a worker another process sends them, and a backlog would trigger
    alerts about alerts.
    """
    waiting: dict[str, list[JobBase]] = {name: [] for name in QUEUES}
    running: dict[str, list[JobBase]] = defaultdict(list)
    for job in jobs_unfinished():
        if (queue := queue_of(job)) and job.kind != alerts.KIND:
            (waiting if job.state == State.QUEUED else running).setdefault(queue, []).append(job)
    queues = []
    for name, jobs in waiting.items():
        moved = [job.heartbeat_at or job.started_at for job in running[name]]
        oldest = min((job.created_at for job in jobs), default=None)
        newest = max((moment for moment in moved if moment is not None), default=None)
        queues.append(Queue(name, len(jobs), len(running[name]), _age_s(oldest), _age_s(newest)))
    return queues


def job_counts() -> dict[tuple[str, str], int]:
    """Count the jobs by kind and state."""
    counts: Counter[tuple[str, str]] = Counter()
    for model in job_models():
        group_fields = ("kind", "state") if model is Job else ("state",)
        rows = model._default_manager.order_by().values_list(*group_fields).annotate(n=Count("pk"))
        for *names, n in rows:
            kind = names[0] if model is Job else str(model.kind)
            counts[kind, names[-1]] += n
    return dict(counts)


def _age_s(moment: datetime | None) -> float | None:
    return None if moment is None else max(0.0, (database_now() - moment).total_seconds())


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk that the data folder is on, in bytes."""

    folder: Path
    free: int
    total: int


def disk_usage() -> Disk:
    """Return the usage of the data folder's disk."""
    folder = Path(settings.DATA_DIR)
    usage = shutil.disk_usage(folder)
    return Disk(folder, usage.free, usage.total)


def database_bytes() -> int:
    """Return the database's size; for SQLite without the journal."""
    size = "SELECT pg_database_size(current_database())"
    if connection.vendor == "sqlite":
        size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    with connection.cursor() as cursor:
        cursor.execute(size)
        return int(cursor.fetchone()[0])


def folder_bytes(names: tuple[str, ...] = ("cache", "backups", "exports", "imports")) -> dict[str, int]:
    """Return the sizes of growing folders in the data folder, in bytes.

    Missing folders have 0.
    """
    return {name: _size(Path(settings.DATA_DIR) / name) for name in names}


def _size(folder: Path) -> int:
    total = 0
    for directory, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total


def exposition(accept: str) -> tuple[bytes, str]:
    """Return the metrics in the client's format, and the content type."""
    registry = CollectorRegistry()
    registry.register(_Confab())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Confab(Collector):
    """Reads the database once for each scrape."""

    def describe(self) -> list[Metric]:
        """Return nothing, so that registration does not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        living = processes_living()
        yield from _collect_counts(living)
        yield from _processes(living)
        yield from _waiting()
        yield from _jobs()
        yield from _bots_and_room()


def _collect_counts(living: list[Process]) -> Iterator[Metric]:
    """Yield the counts of each process as its own series.

    The end of a process therefore does not change the others.
    """
    for family in health.registry.collect():
        metric = Metric(family.name, family.documentation, family.type)
        for process in living:
            for name, labels, value in process.samples.get(family.name, ()):
                metric.add_sample(name, {"process": process.label, **labels}, value)
        yield metric


def _processes(living: list[Process]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "confab_process", "Constant 1 for each process that sends heartbeats.",
        labels=["process", "roles", "host", "version"],
    )  # fmt: skip
    heard = _gauge("confab_process_heard_seconds", "Seconds since the last heartbeat.", "process")
    cpu = _gauge("confab_process_cpu_cores", "Average CPU cores used, measured at the last heartbeat.", "process")
    memory = _gauge("confab_process_memory_bytes", "Resident memory.", "process")
    hangs = _gauge(
        "confab_process_hangs_seconds",
        "Seconds for which the event loop, or all page threads, had been stuck at the last heartbeat; 0 if not stuck.",
        "process",
    )
    for process in living:
        info.add_metric([process.label, " ".join(process.roles), process.host, process.version], 1)
        heard.add_metric([process.label], (database_now() - process.heard_at).total_seconds())
        memory.add_metric([process.label], process.load.get("memory_mb", 0) * 1e6)
        hangs.add_metric([process.label], max(process.load.get("hangs", {}).values(), default=0.0))
        if "cpu" in process.load:
            cpu.add_metric([process.label], process.load["cpu"])
    yield from (info, heard, cpu, memory, hangs)


def _waiting() -> Iterator[Metric]:
    replies, jobs = replies_queue(), job_queues()
    waiting = _gauge("confab_queue_waiting", "Replies and jobs that no process has started.", "queue")
    oldest = _gauge("confab_queue_oldest_seconds", "Waiting time of the oldest; 0 if none waits.", "queue")  # fmt: skip
    running = _gauge("confab_queue_running", "Replies and jobs in progress.", "queue")
    for queue in (replies, *jobs):
        waiting.add_metric([queue.name], queue.n)
        oldest.add_metric([queue.name], queue.oldest_s or 0.0)
        running.add_metric([queue.name], queue.n_running)
    yield from (waiting, oldest, running)


def _jobs() -> Iterator[Metric]:
    counts = GaugeMetricFamily("confab_jobs", "Number of jobs by kind and state.", labels=["kind", "state"])
    for (kind, state), n in sorted(job_counts().items()):
        counts.add_metric([kind, state], n)
    progress = GaugeMetricFamily("confab_job_progress_ratio", "Progress of each running job.", labels=["kind", "job"])
    for job in jobs_unfinished():
        if job.state == State.RUNNING and job.n_total:
            progress.add_metric([job.kind, str(job.pk)], min(1.0, job.n_done / job.n_total))
    yield from (counts, progress)


def _bots_and_room() -> Iterator[Metric]:
    aside = _gauge("confab_bot_set_aside", "Constant 1 for each disabled bot.", "bot")
    for bot_id in sorted(bots_aside()):
        aside.add_metric([bot_id], 1)
    room = disk_usage()
    yield aside
    if (answers := is_redis_up()) is not None:
        yield _plain("confab_redis_up", "1 if Redis responds, 0 if not.", float(answers))
    yield _plain("confab_disk_free_bytes", "Free space on the disk of the data folder.", room.free)
    yield _plain("confab_disk_size_bytes", "Size of the disk of the data folder.", room.total)
    yield _plain("confab_database_size_bytes", "Size of the database.", database_bytes())


def _gauge(name: str, documentation: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=[label])


def _plain(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=value)
