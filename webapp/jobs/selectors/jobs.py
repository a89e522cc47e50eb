"""Progress of long work, for pages and commands that poll."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from chatbots.registry import UnknownName
from webapp.core.clock import database_now
from webapp.core.processes import WORKER, processes_living
from webapp.core.project_scope import active_project, in_project
from webapp.jobs.kinds.base import job_models, kind_of
from webapp.jobs.models import UNFINISHED, Job, JobBase, Shard, State
from webapp.jobs.queue import STALE_AFTER, holder_is_dead, is_alive

NO_WORKER_AFTER = timedelta(seconds=15)
J = TypeVar("J", bound=JobBase)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Snapshot of a job's progress.

    Attributes:
        fraction: of the work done, 0 to 1.
        remaining_s: estimated from the pace so far; None where unknown.
        waits_for_worker: True if no worker has claimed it for a while.
        stopping: True if a stop was requested and is pending.
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


def rows_of(job: JobBase) -> QuerySet[Any]:
    """Return the job's row, for a conditional UPDATE."""
    return type(job)._default_manager.filter(pk=job.pk)


def seconds_to_start(job: JobBase) -> float:
    """Return the seconds until workers may start the job; 0 if they may now."""
    starts_at = getattr(job, "starts_at", None)
    return 0.0 if starts_at is None else max(0.0, (starts_at - database_now()).total_seconds())


def job_progress(job: JobBase) -> JobProgress:
    """Return the job's progress from its row, without a new query."""
    now = database_now()
    fraction = min(1.0, job.n_done / job.n_total) if job.n_total else float(job.is_over)
    remaining_s = None
    if job.state == State.RUNNING and job.started_at and 0 < fraction < 1:
        elapsed_s = (now - job.started_at).total_seconds()
        remaining_s = round(elapsed_s * (1 - fraction) / fraction, 1)
    return JobProgress(
        state=job.state,
        n_done=job.n_done,
        n_total=job.n_total,
        fraction=fraction,
        remaining_s=remaining_s,
        waits_for_worker=job.state == State.QUEUED
        and now - max(job.updated_at, getattr(job, "starts_at", None) or job.updated_at) > NO_WORKER_AFTER,
        stopping=job.is_stopping,
        is_over=job.is_over,
        error=job.error,
    )


def queue_of(job: JobBase) -> str:
    """Return the job's queue; empty for commands and unknown kinds."""
    try:
        return "" if job.inline else kind_of(job).queue_of(job)
    except UnknownName:  # of a plug-in that is not installed here
        return ""


def worker_lives(job: JobBase) -> bool:
    """Return True if a worker of the job's queue sends heartbeats.

    It may be busy with other jobs.
    """
    return queue_is_served(queue_of(job))


def queue_is_served(queue: str) -> bool:
    """Return True if a worker of the queue sends heartbeats."""
    return any(queue in process.details.get("queues", ()) for process in processes_living(WORKER))


def job_is_held(job: JobBase) -> bool:
    """Return True if a living process works on the job or its shards."""
    if is_alive(job.holder, job.heartbeat_at):
        return True
    held_shards = Shard.objects.filter(kind=job.kind, job_id=job.pk).exclude(holder="")
    return any(is_alive(*row) for row in held_shards.values_list("holder", "heartbeat_at"))


def job_is_abandoned(job: JobBase) -> bool:
    """Return True if a running job has no process at work on it.

    Its process was killed or has long been silent, or the command that was to run it died before starting.
    """
    now = database_now()
    if job.state == State.QUEUED:
        return job.inline and now - job.updated_at > STALE_AFTER
    if job.state != State.RUNNING or job_is_held(job):
        return False
    # Between two slices the job has no holder for a moment.
    silent = job.heartbeat_at is None or now - job.heartbeat_at > NO_WORKER_AFTER
    return silent or bool(dead_holders(job))


def dead_holders(job: JobBase) -> list[str]:
    """Return dead holders of the job and its shards.

    Only processes of this machine are checked.
    """
    shards = Shard.objects.filter(kind=job.kind, job_id=job.pk).exclude(holder="")
    holders = [job.holder, *shards.values_list("holder", flat=True)]
    return [holder for holder in holders if holder and holder_is_dead(holder)]


def jobs_abandoned() -> list[JobBase]:
    """Return running jobs that no process is at work on."""
    may_be = Q(state=State.RUNNING) | Q(state=State.QUEUED, inline=True)
    return [job for model in job_models() for job in model._default_manager.filter(may_be) if job_is_abandoned(job)]


def job_title(job: JobBase) -> str:
    """Return the job's title on pages."""
    try:
        return kind_of(job).job_title(job)
    except UnknownName:  # of a plug-in that is not installed here
        return str(job)


def job_read(job: J) -> J:
    """Reload the job's row."""
    return cast(J, type(job)._default_manager.get(pk=job.pk))


def jobs_unfinished() -> list[JobBase]:
    """Return waiting and running jobs, oldest first within each table."""
    return [job for model in job_models() for job in model._default_manager.filter(state__in=UNFINISHED).order_by("pk")]


def jobs_for_workers(queue: str) -> list[JobBase]:
    """Return a queue's unfinished jobs by priority and waiting time.

    Jobs run by a command or of an unknown plug-in are left out, as are those that start later.
    """
    jobs = (job for job in jobs_unfinished() if queue_of(job) == queue and not seconds_to_start(job))
    return sorted(jobs, key=_turn)


def _turn(job: JobBase) -> tuple[int, datetime, datetime]:
    never = datetime.min.replace(tzinfo=timezone.get_default_timezone())
    return -job.priority, job.heartbeat_at or never, job.created_at


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """Unfinished job of the active project, with the jobs ahead of it.

    Attributes:
        ahead: jobs of the project that are ahead in the queue.
        n_of_others: number of jobs of other projects that are ahead.
        place: position among the waiting jobs of all projects, from 1; 0 if the job is running or first.
    """

    job: JobBase
    ahead: list[JobBase]
    n_of_others: int
    place: int


def jobs_in_line() -> list[QueuedJob]:
    """Return the active project's unfinished jobs by queue, running jobs first.

    Projects share the queues. Jobs of other projects are counted, and nothing else of them is returned.
    """
    project = active_project()
    queues: dict[str, list[JobBase]] = {}
    with in_project(None):
        for job in jobs_unfinished():
            queues.setdefault(queue_of(job), []).append(job)
    line: list[QueuedJob] = []
    for name, jobs in queues.items():
        jobs.sort(key=lambda job: (job.state != State.RUNNING, _turn(job)))
        for n, job in enumerate(jobs):
            if project not in (None, job.project_id):
                continue
            before = jobs[:n] if name and job.state == State.QUEUED else []
            ahead = [earlier_job for earlier_job in before if project in (None, earlier_job.project_id)]
            n_waiting = sum(earlier_job.state == State.QUEUED for earlier_job in before)
            line.append(QueuedJob(job, ahead, len(before) - len(ahead), n_waiting + 1 if before else 0))
    return line


def shards_free(job: JobBase, *, limit: int) -> Iterator[Shard]:
    """Yield unfinished shards without a living holder, in order."""
    shards = Shard.objects.filter(kind=job.kind, job_id=job.pk).exclude(state=State.DONE)
    n = 0
    for shard in shards.order_by("number").defer("result").iterator(chunk_size=limit):
        if not is_alive(shard.holder, shard.heartbeat_at):
            yield shard
            n += 1
            if n == limit:
                return


def shard_counts(job: JobBase) -> tuple[int, int, int]:
    """Return the amount done, the total, and the number of unfinished shards."""
    totals = Shard.objects.filter(kind=job.kind, job_id=job.pk).aggregate(
        n_done=Sum("n_done", default=0),
        n_total=Sum("n_total", default=0),
        n_open=Count("pk", filter=~Q(state=State.DONE)),
    )
    return totals["n_done"], totals["n_total"], totals["n_open"]


@dataclass(frozen=True, slots=True)
class JobPart:
    """Part of an unfinished job, for its page."""

    title: str
    state: str
    n_done: int
    n_total: int


def job_parts(job: JobBase) -> list[JobPart]:
    """Return the parts of a planned job with their progress; empty if its kind gives them no titles."""
    if job.planned_at is None:
        return []
    try:
        title_of = kind_of(job).shard_title
    except UnknownName:  # of a plug-in that is not installed here
        return []
    shards = Shard.objects.filter(kind=job.kind, job_id=job.pk).order_by("number").defer("result")
    parts = [
        JobPart(title, str(State(shard.state).label), shard.n_done, shard.n_total)
        for shard in shards
        if (title := title_of(shard.payload))
    ]
    return parts if len(parts) > 1 else []


def job_named(kind: str, name: str) -> Job | None:
    """Return the newest job of a kind that is not done, and whose payload has this name."""
    return Job.objects.filter(kind=kind, payload__name=name).exclude(state=State.DONE).order_by("-pk").first()


def shard_results(job: JobBase) -> list[Any]:
    """Return the results of the job's shards, in order."""
    shards = Shard.objects.filter(kind=job.kind, job_id=job.pk).order_by("number")
    return list(shards.values_list("result", flat=True))


def jobs_broken_off(n: int) -> list[JobBase]:
    """Return the newest failed or interrupted jobs, `n` of each table."""
    return [
        job
        for model in job_models()
        for job in model._default_manager.filter(state__in=(State.FAILED, State.INTERRUPTED))[:n]
    ]
