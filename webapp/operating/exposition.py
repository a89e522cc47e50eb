"""Content of `/metrics`: counts of every process, and the state of replies, jobs, bots and disk."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webapp.bots.selectors import bots_aside
from webapp.core import prometheus
from webapp.core.health import is_redis_up
from webapp.core.models import Process
from webapp.core.processes import processes_living
from webapp.jobs.models import State
from webapp.jobs.selectors.jobs import jobs_unfinished
from webapp.operating.system_load import database_bytes, disk_usage, job_counts, job_queues, replies_queue


def exposition(accept: str) -> tuple[bytes, str]:
    """Return the text in the format that the asker takes, and that format's name."""
    registry = CollectorRegistry()
    registry.register(_Confab())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Confab(Collector):
    """Reads the database once for each scrape."""

    def describe(self) -> list[Metric]:
        """Return nothing: names are known without a look at the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        living = processes_living()
        yield from _counted(living)
        yield from _processes(living)
        yield from _waiting()
        yield from _jobs()
        yield from _bots_and_room()


def _counted(living: list[Process]) -> Iterator[Metric]:
    """Yield what processes have counted, a series for each: one that ends takes nothing from the others."""
    for family in prometheus.registry.collect():
        found = Metric(family.name, family.documentation, family.type)
        for process in living:
            for name, labels, value in process.samples.get(family.name, ()):
                found.add_sample(name, {"process": process.label, **labels}, value)
        yield found


def _processes(living: list[Process]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "confab_process", "1 for each process that is heard of.",
        labels=["process", "roles", "host", "version"],
    )  # fmt: skip
    heard = _gauge("confab_process_heard_seconds", "Since its last sign of life.", "process")
    cpu = _gauge("confab_process_cpu_cores", "Cores it kept busy since its last sign.", "process")
    memory = _gauge("confab_process_memory_bytes", "Resident memory.", "process")
    hangs = _gauge(
        "confab_process_hangs_seconds",
        "How long its event loop, or all threads for pages, had stood still at its last sign; 0: they move.",
        "process",
    )
    for one in living:
        info.add_metric([one.label, " ".join(one.roles), one.host, one.version], 1)
        heard.add_metric([one.label], (timezone.now() - one.heard_at).total_seconds())
        memory.add_metric([one.label], one.load.get("memory_mb", 0) * 1e6)
        hangs.add_metric([one.label], max(one.load.get("hangs", {}).values(), default=0.0))
        if "cpu" in one.load:
            cpu.add_metric([one.label], one.load["cpu"])
    yield from (info, heard, cpu, memory, hangs)


def _waiting() -> Iterator[Metric]:
    replies, jobs = replies_queue(), job_queues()
    waiting = _gauge("confab_queue_waiting", "Replies and jobs that no process has started.", "queue")
    oldest = _gauge("confab_queue_oldest_seconds", "How long the first has waited; 0: none does.", "queue")  # fmt: skip
    running = _gauge("confab_queue_running", "Replies and jobs that a process works on.", "queue")
    for queue in (replies, *jobs):
        waiting.add_metric([queue.name], queue.n)
        oldest.add_metric([queue.name], queue.oldest_s or 0.0)
        running.add_metric([queue.name], queue.n_running)
    yield from (waiting, oldest, running)


def _jobs() -> Iterator[Metric]:
    counts = GaugeMetricFamily("confab_jobs", "Jobs by kind and state.", labels=["kind", "state"])
    for (kind, state), n in sorted(job_counts().items()):
        counts.add_metric([kind, state], n)
    progress = GaugeMetricFamily("confab_job_progress_ratio", "How far each running job is.", labels=["kind", "job"])
    for job in jobs_unfinished():
        if job.state == State.RUNNING and job.n_total:
            progress.add_metric([job.kind, str(job.pk)], min(1.0, job.n_done / job.n_total))
    yield from (counts, progress)


def _bots_and_room() -> Iterator[Metric]:
    aside = _gauge("confab_bot_set_aside", "1 for each bot that is set aside.", "bot")
    for bot_id in sorted(bots_aside()):
        aside.add_metric([bot_id], 1)
    room = disk_usage()
    yield aside
    if (answers := is_redis_up()) is not None:
        yield _plain("confab_redis_up", "1 if Redis answers, 0 if not.", float(answers))
    yield _plain("confab_disk_free_bytes", "Free on the disk of the data folder.", room.free)
    yield _plain("confab_disk_size_bytes", "Size of that disk.", room.total)
    yield _plain("confab_database_size_bytes", "Size of the database.", database_bytes())


def _gauge(name: str, documentation: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=[label])


def _plain(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=value)
