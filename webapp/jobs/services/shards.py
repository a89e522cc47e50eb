"""The parts of a job: made once, claimed by any worker, ended by their holder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce
from django.utils import timezone

from chatbots.text import sanitise
from webapp.jobs.kinds.base import ShardPlan
from webapp.jobs.leases import free_rows, holder_end, holder_new
from webapp.jobs.models import UNFINISHED, Job, JobBase, Shard, State
from webapp.jobs.selectors.jobs import rows_of, shard_counts, shards_free
from webapp.jobs.services.jobs import job_cancel, job_lives

CANDIDATES = 32
"""So many free shards are looked at before a worker gives up: others claim them at the same time."""


def shards_plan(*, job: JobBase, holder: str, parts: Iterable[ShardPlan]) -> bool:
    """Store the shards of a job, once. False if the job is not the holder's any more."""
    rows = [
        Shard(
            kind=job.kind,
            job_id=job.pk,
            number=number,
            payload=dict(part.payload),
            n_total=part.n_total,
            n_done=part.n_done,
            state=State.DONE if part.n_done >= part.n_total else State.QUEUED,
        )
        for number, part in enumerate(parts)
    ]
    n_done, n_total = sum(row.n_done for row in rows), sum(row.n_total for row in rows)
    now = timezone.now()
    with transaction.atomic():
        mine = rows_of(job).filter(holder=holder, state=State.RUNNING, planned_at=None)
        if not mine.update(planned_at=now, n_done=n_done, n_total=n_total, heartbeat_at=now, updated_at=now):
            return False
        Shard.objects.bulk_create(rows, batch_size=200)
    return True


def shard_claim(*, job: JobBase) -> Shard | None:
    """Become the holder of a job's first shard that no living process holds; None where there is none."""
    for shard in shards_free(job, limit=CANDIDATES):
        holder, now = holder_new(), timezone.now()
        free = Shard.objects.filter(free_rows(shard.holder), pk=shard.pk).exclude(state=State.DONE)
        shard.holder, shard.state, shard.heartbeat_at = holder, State.RUNNING, now
        claimed = False
        try:
            if free.update(holder=holder, state=State.RUNNING, heartbeat_at=now):
                # A resumed job waits until a process is at work on it.
                rows_of(job).filter(state=State.QUEUED).update(
                    state=State.RUNNING, started_at=Coalesce(F("started_at"), now), updated_at=now
                )
                claimed = True
                return shard
        finally:
            if not claimed:
                holder_end(holder)
    return None


def shard_beat(
    *, job: JobBase, shard: Shard, n_done: int | None = None, n_total: int | None = None, note: str | None = None
) -> bool:
    """Send a heartbeat and, if given, the progress and a note of the job.

    Returns:
        False if work must stop: a user stopped the job, or another process took the shard.
    """
    now = timezone.now()
    counts = {"n_done": n_done, "n_total": n_total}
    told: dict[str, Any] = {name: n for name, n in counts.items() if n is not None}
    mine = Shard.objects.filter(pk=shard.pk, holder=shard.holder, state=State.RUNNING)
    if not mine.update(heartbeat_at=now, **told):
        return False
    progress: dict[str, Any] = {}
    if told:
        progress["n_done"], progress["n_total"], _ = shard_counts(job)
    if note is not None:
        progress["note"] = sanitise(note, 200)
    return job_lives(rows_of(job), **progress)


def shard_release(*, shard: Shard) -> None:
    """Release the shard, for the next process that begins it again."""
    holder_end(shard.holder)
    Shard.objects.filter(pk=shard.pk, holder=shard.holder).update(holder="")


def shard_end(*, job: JobBase, shard: Shard, result: Any) -> bool:
    """Put the shard into its end state with its result. False if it was not the holder's any more."""
    mine = Shard.objects.filter(pk=shard.pk, holder=shard.holder, state=State.RUNNING)
    ended = mine.update(state=State.DONE, holder="", n_done=F("n_total"), result=result)
    holder_end(shard.holder)
    if not ended:
        return False
    now = timezone.now()
    n_done, n_total, _ = shard_counts(job)
    rows_of(job).filter(state=State.RUNNING).update(heartbeat_at=now, updated_at=now, n_done=n_done, n_total=n_total)
    return True


def jobs_forget(kinds: Collection[str], studies: Collection[int]) -> None:
    """Remove the results of jobs on these studies, and stop those under way: a participant was erased."""
    jobs = Job.objects.filter(kind__in=kinds, study__in=studies)
    for job in jobs.filter(state__in=UNFINISHED):
        job_cancel(job=job)
    for job in jobs:
        shards_forget(job=job)
    jobs.exclude(state__in=UNFINISHED).delete()


def shards_forget(*, job: JobBase) -> None:
    """Drop the plan of a job, so that it is planned again."""
    with transaction.atomic():
        Shard.objects.filter(kind=job.kind, job_id=job.pk).delete()
        rows_of(job).update(planned_at=None)
