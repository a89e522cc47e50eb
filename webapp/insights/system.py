"""State of the installation: processes, queues, disk, alerts, and running jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from webapp.bots.models import Alert
from webapp.bots.selectors import alerts_newest
from webapp.core.clock import database_now
from webapp.core.language import plural
from webapp.core.models import Process
from webapp.core.processes import BOT_HOST, WORKER, hangs_since, is_silent, processes_known
from webapp.operating.incidents import STILL, Problem, find_problems, role_words
from webapp.operating.system_load import Queue, database_bytes, disk_usage, folder_bytes, job_queues, replies_queue
from webapp.studies.models import Study

_ALERTS = 10
_STUDIES = 200
LONG_WAIT_S = 120
"""If something waits longer, the page does not claim that nothing is wrong."""


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """Process: its work, host, start and load.

    `cpu` is in percent of a core, None at first.
    """

    name: str
    about: str
    host: str
    version: str
    began_at: datetime
    heard_s: int
    is_silent: bool
    hangs_since: datetime | None
    cpu: int | None
    memory_mb: float


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Queue with its displayed name."""

    title: str
    queue: Queue
    is_still: bool


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Disk space in bytes, with its largest uses; `used` in percent."""

    free: int
    total: int
    used: int
    is_low: bool
    parts: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class AlertRow:
    """Alert, and the outcome of sending it."""

    alert: Alert
    title: str


@dataclass(frozen=True, slots=True)
class System:
    """The state of the installation."""

    troubles: list[Problem]
    notes: list[str]
    processes: list[ProcessRow]
    queues: list[QueueRow]
    room: DiskUsage


def system_now() -> System:
    """Return the current state of the installation.

    Raises:
        DatabaseError, OSError: the database or the disk is unavailable.
    """
    problems = find_problems()
    kinds = {(problem.kind, problem.subject) for problem in problems}
    processes = processes_known()
    return System(
        problems,
        [*_notes(processes), *queue_waits(kinds)],
        [_row(process) for process in processes],
        [QueueRow(_queue_title(queue.name), queue, (STILL, queue.name) in kinds) for queue in _queues()],
        _room(is_low=any(problem.kind == "disk_low" for problem in problems)),
    )


def _notes(processes: list[Process]) -> list[str]:
    """Compose notes on kinds of process without a heartbeat.

    None if no process has one.
    """
    roles = {role for process in processes if not is_silent(process) for role in process.roles}
    if not roles:
        return []
    notes = []
    if BOT_HOST not in roles:
        notes.append("No bot host is reporting: participants who write get no reply.")
    if WORKER not in roles:
        notes.append("No worker is reporting: jobs wait, and only the web process sends alerts.")
    return notes


def _queues() -> list[Queue]:
    return [replies_queue(), *job_queues()]


def queue_waits(problem_keys: set[tuple[str, str]]) -> list[str]:
    """Compose notes on moving queues whose oldest entry has waited minutes.

    Args:
        problem_keys: kinds and subjects of problems that are already shown.
    """
    return [
        f"{_queue_title(queue.name)}: {queue.n} {plural(queue.n, 'waits', 'wait')}, the oldest for "
        f"{round((queue.oldest_s or 0) / 60)} min."
        for queue in _queues()
        if (queue.oldest_s or 0) >= LONG_WAIT_S and (STILL, queue.name) not in problem_keys
    ]


def _row(process: Process) -> ProcessRow:
    cpu = process.load.get("cpu")
    return ProcessRow(
        role_words(process),
        _about(process),
        process.host,
        process.version,
        process.began_at,
        max(0, round((database_now() - process.heard_at).total_seconds())),
        is_silent(process),
        min(hangs_since(process).values(), default=None),
        None if cpu is None else round(cpu * 100),
        process.load.get("memory_mb", 0.0),
    )


def _about(process: Process) -> str:
    parts = [f"process {process.pid}"]
    if pool := process.details.get("pool"):
        parts.append("bots of all pools" if pool == "all" else f"bots of pool {pool}")
    if queues := process.details.get("queues"):
        parts.append("queues {queues}".format(queues=", ".join(queues)))
    return "; ".join(parts)


def _queue_title(name: str) -> str:
    titles = {"replies": "Replies to participants", "default": "Jobs", "gpu": "Jobs of models", "analysis": "Analyses"}
    return titles.get(name, name)


def _room(*, is_low: bool) -> DiskUsage:
    usage = disk_usage()
    titles = {"cache": "Cache of vectors", "backups": "Backups", "exports": "Exports", "imports": "Imports"}
    folders = [(titles.get(name, name), size) for name, size in folder_bytes().items()]
    used = round(100 * (1 - usage.free / usage.total)) if usage.total else 0
    parts = [("Database", database_bytes()), *folders]
    return DiskUsage(usage.free, usage.total, used, is_low, parts)


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """Retention of a study's recruitment ids and texts.

    Times of erasure are None until the study has ended.
    """

    study: Study
    ids_at: datetime | None
    texts_at: datetime | None


def retention_rows() -> list[RetentionRow]:
    """Return the retention of studies with participants, newest first."""
    rows = []
    for study in Study.objects.filter(is_imported=False, archived_at=None).order_by("-created_at")[:_STUDIES]:
        rights, end = study.values.rights, study.ended_at
        rows.append(RetentionRow(study, _later(end, rights.ids_kept_days), _later(end, rights.texts_kept_days)))
    return rows


def _later(end: datetime | None, days: int | None) -> datetime | None:
    return None if end is None or days is None else end + timedelta(days=days)


def alert_rows() -> list[AlertRow]:
    """Return the newest alerts, the newest first."""
    return [AlertRow(alert, _alert_title(alert)) for alert in alerts_newest(_ALERTS)]


def _alert_title(alert: Alert) -> str:
    if alert.aside is not None:
        return f"{alert.aside.bot_id}: {alert.get_event_display()}"
    return str(alert.said.get("title", "")) or str(alert.get_event_display())
