"""Queues of due replies and of jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min
from django.utils import timezone

from chatbots.registry import UnknownName
from webapp.conversations.selectors import replies_due
from webapp.runs import alerts
from webapp.runs.kinds.base import job_models, kind_of
from webapp.runs.models import Job, JobBase, State
from webapp.runs.selectors.jobs import jobs_unfinished


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
    return Queue(
        "replies", waiting["n"], found.exclude(due_lease=None).count(), _age_s(waiting["since"])
    )


def job_queues() -> list[Queue]:
    """Return the workers' queues, those without a job too.

    Jobs that send alerts are left out: without a worker another process sends, and they would be told of themselves.
    """
    waiting: dict[str, list[JobBase]] = {"default": [], "gpu": []}
    running: dict[str, list[JobBase]] = defaultdict(list)
    for job in jobs_unfinished():
        if job.inline or job.kind == alerts.KIND:
            continue
        try:
            queue = kind_of(job).queue_of(job)
        except UnknownName:  # of a plug-in that is not installed here
            continue
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
