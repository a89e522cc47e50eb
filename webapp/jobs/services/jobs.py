"""States of jobs and shards, changed by conditional UPDATEs.

So two processes cannot both make the same change.

The process that works on a shard is its holder and sends heartbeats (`shard_beat`). The process that plans or finishes
the job itself claims the job.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import OperationalError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from chatbots.identity import Identity
from chatbots.registry import UnknownName
from chatbots.text import sanitise
from chatbots.validation import InputModel, ValuesError, values_read
from webapp.bots.services import REASON_REMOVED
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.project_disk import disk_demand
from webapp.jobs import queue
from webapp.jobs.kinds.base import JobKind, ShardPlan, kind_of, kinds
from webapp.jobs.models import UNFINISHED, HybridFit, Job, JobBase, MetricRun, Shard, State
from webapp.jobs.queue import free_rows, holder_end, holder_new
from webapp.jobs.selectors.jobs import (
    dead_holders,
    job_is_abandoned,
    job_is_held,
    jobs_abandoned,
    rows_of,
    shard_counts,
    shards_free,
)
from webapp.studies.models import Study

if TYPE_CHECKING:
    from django.contrib.auth.models import User

log = logging.getLogger(__name__)

J = TypeVar("J", bound=JobBase)
LIVING = (State.QUEUED, State.RUNNING, State.INTERRUPTED)
"""States in which a heartbeat means that the job is running."""


def job_create(
    *,
    kind: str,
    payload: Mapping[str, Any] | None = None,
    study: Study | None = None,
    created_by: User | None = None,
    enqueue: bool = True,
    starts_at: datetime | None = None,
) -> Job:
    """Request a job of a kind without its own table.

    It is sent to the workers.

    Args:
        payload: parameters, as fields of the kind's model.
        starts_at: workers do not start the job earlier, so that it can be cancelled until then.
        enqueue: False for a caller that does the work itself (`engine.run_job`).

    Raises:
        UnknownName: there is no such kind; with the nearest names.
        Refused: `bad_payload` with every mistake, what the kind's `check` says, or `project_disk_full`. Nothing is
            stored.
    """
    job_kind = kinds.get(kind)
    params = payload_read(job_kind, payload or {})
    job_kind.check(params)
    _demand_disk(job_kind, study)
    job = Job.objects.create(
        kind=kind,
        payload=params.model_dump(mode="json"),
        study=study,
        created_by=created_by,
        inline=not enqueue,
        starts_at=starts_at,
    )
    queue.send_on_commit(job)
    return job


def job_ask(
    *, kind: str, payload: Mapping[str, Any], state: str, study: Study | None = None, created_by: User | None = None
) -> Job:
    """Return the job whose result uses the current data.

    It is requested if it does not exist.

    A page shows `job.result` once the job is done, and its progress before. A stopped job stays stopped until a user
    resumes it; a failed one is retried when the data change.

    Args:
        state: digest or time stamp of the data that the result depends on, besides the payload.

    Raises:
        UnknownName, Refused: as in `job_create`.
    """
    job_kind = kinds.get(kind)
    params = payload_read(job_kind, payload)
    key = job_key(params, state)
    existing = Job.objects.filter(kind=kind, key=key).first()
    if existing is not None:
        return existing
    job_kind.check(params)
    _demand_disk(job_kind, study)
    job, is_new = Job.objects.get_or_create(
        kind=kind,
        key=key,
        defaults={"payload": params.model_dump(mode="json"), "study": study, "created_by": created_by},
    )
    if is_new:
        queue.send_on_commit(job)
    return job


def _demand_disk(kind: JobKind[Any, Any], study: Study | None) -> None:
    if kind.writes_files:
        disk_demand(project=study.project_id if study is not None else None)


def job_key(params: InputModel, state: str) -> str:
    """Return the key of a cached result.

    It identifies the request and the data.
    """
    return f"{Identity('asked', '1', params.model_dump(mode='json')).key}:{state}"


def payload_read(kind: JobKind[Any, Any], payload: Mapping[str, Any]) -> InputModel:
    """Return the payload parsed by the kind's model.

    Raises:
        Refused: `bad_payload`, with all errors and their paths.
    """
    try:
        return values_read(kind.Payload, dict(payload), subject=f"what is asked of {kind.name}")
    except ValuesError as error:
        raise Refused("bad_payload", str(error)) from None


def job_claim(*, job: JobBase) -> str | None:
    """Claim a job that no living process holds, to plan or finish it.

    The job must not be over.

    Returns:
        Token for `job_release` and `job_end`, or None.
    """
    now = database_now()
    holder = holder_new()
    current = rows_of(job).values_list("holder", flat=True).first()
    claimed = (
        rows_of(job)
        .filter(free_rows(current), state__in=UNFINISHED)
        .update(
            holder=holder,
            state=State.RUNNING,
            heartbeat_at=now,
            started_at=Coalesce(F("started_at"), now),
            updated_at=now,
        )
    )
    if claimed:
        return holder
    holder_end(holder)
    return None


def job_beat(*, job: JobBase, holder: str) -> bool:
    """Send a heartbeat while planning or finishing.

    False if work must stop.
    """
    return job_lives(rows_of(job).filter(holder=holder))


def job_lives(rows: QuerySet[Any], **progress: Any) -> bool:
    """Store a heartbeat and the progress in a job's row.

    False if work must stop.

    A process that slept so long that its job counted as abandoned takes it up again.

    Args:
        rows: the job's row, if the caller's conditions hold.
    """
    now = database_now()
    held_rows = rows.filter(state__in=LIVING, cancel_requested=False)
    living = {"state": State.RUNNING, "ended_at": None, "heartbeat_at": now, "updated_at": now}
    return bool(held_rows.update(**living, **progress))


def job_release(*, job: JobBase, holder: str) -> None:
    """Release the job."""
    holder_end(holder)
    rows_of(job).filter(holder=holder).update(holder="")


def job_done(*, job: J, holder: str, result: Any = None) -> bool:
    """End a job whose shards are all done, and request what follows.

    False if the caller did not hold it.

    The job stays ended even if the next one cannot be requested.
    """
    try:
        with transaction.atomic():
            return _job_done(job, holder, result, follow=True)
    except OperationalError:  # the database is busy; another slice ends the job
        raise
    except Exception:
        log.exception("%s is done, but its next step could not start", job)
        with transaction.atomic():
            return _job_done(job, holder, result, follow=False)


def _job_done(job: JobBase, holder: str, result: Any, *, follow: bool) -> bool:
    fields: dict[str, Any] = {"result": result} if isinstance(job, Job) else {}
    if not _end(job, State.DONE, holder=holder, **fields):
        return False
    shards = Shard.objects.filter(kind=job.kind, job_id=job.pk)
    if shards.exists():
        n_done, n_total, _ = shard_counts(job)
        rows_of(job).update(n_done=n_done, n_total=n_total)
        shards.delete()
    rows_of(job).update(planned_at=None)
    if follow:
        job.refresh_from_db()
        kind_of(job).follow_up(job)
    return True


def job_fail(*, job: JobBase, error: str) -> bool:
    """End a job with an error, whichever process works on it.

    False if it was already over.
    """
    return _end(job, State.FAILED, error=sanitise(error, 2000))


def job_errors_forget(studies: Collection[int]) -> None:
    """Remove errors of these studies' jobs, which may quote an erased participant."""
    keys = list(Study.objects.filter(pk__in=studies).values_list("key", flat=True))
    of_studies = Q(study__in=list(studies))
    for rows in (
        Job.objects.filter(of_studies | Q(payload__study__in=keys)),  # an import names its study
        MetricRun.objects.filter(of_studies),
        HybridFit.objects.filter(of_studies | Q(train_study__in=list(studies))),
    ):
        rows.exclude(error="").update(error=REASON_REMOVED)


def job_stopped(*, job: JobBase) -> bool:
    """End a job after its process has noticed a user's request to stop."""
    return _end(job, State.CANCELLED, cancel_requested=True)


def _end(
    job: JobBase, state: State, *, holder: str | None = None, cancel_requested: bool | None = None, **fields: Any
) -> bool:
    now = database_now()
    rows = rows_of(job).filter(state__in=UNFINISHED)
    if holder is not None:
        rows = rows.filter(holder=holder)
    if cancel_requested is not None:
        rows = rows.filter(cancel_requested=cancel_requested)
    return bool(rows.update(state=state, ended_at=now, updated_at=now, holder="", **fields))


def job_cancel(*, job: J) -> J:
    """Request the job to stop.

    It stops at once if no process works on it. Its results stay.

    A failed or interrupted job counts as stopped from now on, so it no longer causes warnings; its error stays.
    """
    rows_of(job).filter(state__in=(State.FAILED, State.INTERRUPTED)).update(
        state=State.CANCELLED, updated_at=database_now()
    )
    rows_of(job).filter(state__in=UNFINISHED).update(cancel_requested=True, updated_at=database_now())
    job.refresh_from_db()
    if not job_is_held(job):
        job_stopped(job=job)
        job.refresh_from_db()
    return job


def job_prioritise(*, job: JobBase, priority: int) -> None:
    """Set a job's priority: before (1) or after (-1) others of its queue.

    0 orders it by waiting time.
    """
    rows_of(job).filter(state__in=UNFINISHED).update(priority=max(-1, min(1, priority)), updated_at=database_now())


def job_settle(*, job: J) -> J:
    """Correct a job that counts as running without a process.

    Returns its row.

    A workers' job waits for a worker again. A command's job is interrupted until a user resumes it, because no one else
    was asked to run it. A job that was to stop is stopped.
    """
    if not job_is_abandoned(job):
        return job
    dead, now = dead_holders(job), database_now()
    fields: dict[str, Any] = {"state": State.QUEUED}
    if job.cancel_requested or job.inline:
        ended = State.CANCELLED if job.cancel_requested else State.INTERRUPTED
        fields = {"state": ended, "ended_at": now}
    if job.holder in dead:
        fields["holder"] = ""
    seen = ("state", "heartbeat_at", "holder", "cancel_requested")
    as_seen = rows_of(job).filter(**{name: getattr(job, name) for name in seen})
    if as_seen.update(updated_at=now, **fields) and dead:
        Shard.objects.filter(kind=job.kind, job_id=job.pk, holder__in=dead).update(holder="")
        if fields["state"] == State.QUEUED:
            with contextlib.suppress(UnknownName):  # of a plug-in that is not installed here
                queue.send(job)
    job.refresh_from_db()
    return job


def jobs_settle() -> None:
    """Correct every job's row, before jobs are shown."""
    for job in jobs_abandoned():
        job_settle(job=job)


def job_restart(*, job: J, enqueue: bool = False) -> J:
    """Resume a job that failed, was stopped or lost its process.

    Args:
        enqueue: send it to the workers; otherwise the caller runs it.

    Raises:
        Refused: `running` or `done`.
    """
    job_settle(job=job)
    with transaction.atomic():
        # A failed job that was dismissed has kept its error.
        stopped_after_error = Q(state=State.CANCELLED) & ~Q(error="")
        had_failed = rows_of(job).filter(Q(state=State.FAILED) | stopped_after_error).exists()
        changed = (
            rows_of(job)
            .filter(state__in=(State.FAILED, State.CANCELLED, State.INTERRUPTED))
            .update(
                state=State.QUEUED,
                cancel_requested=False,
                error="",
                ended_at=None,
                holder="",
                inline=not enqueue,
                updated_at=database_now(),
            )
        )
        job.refresh_from_db()
        if not changed:
            if job.state == State.DONE:
                raise Refused("done", f"{job} is done; it cannot be continued")
            raise Refused("running", f"{job} has not ended; it continues by itself")
        kind_of(job).restarted(job, had_failed=had_failed)
        queue.send_on_commit(job)
    return job


CANDIDATES = 32
"""Number of free shards that a worker considers before it gives up: others claim them at the same time."""


def shards_plan(*, job: JobBase, holder: str, parts: Iterable[ShardPlan]) -> bool:
    """Store the shards of a job, once.

    False if the caller no longer holds it.
    """
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
    now = database_now()
    with transaction.atomic():
        held_rows = rows_of(job).filter(holder=holder, state=State.RUNNING, planned_at=None)
        if not held_rows.update(planned_at=now, n_done=n_done, n_total=n_total, heartbeat_at=now, updated_at=now):
            return False
        Shard.objects.bulk_create(rows, batch_size=200)
    return True


def shard_claim(*, job: JobBase) -> Shard | None:
    """Claim a job's first shard that no living process holds.

    None if there is none.
    """
    for shard in shards_free(job, limit=CANDIDATES):
        holder, now = holder_new(), database_now()
        free = Shard.objects.filter(free_rows(shard.holder), pk=shard.pk).exclude(state=State.DONE)
        shard.holder, shard.state, shard.heartbeat_at = holder, State.RUNNING, now
        claimed = False
        try:
            if free.update(holder=holder, state=State.RUNNING, heartbeat_at=now):
                # A resumed job waits until a process works on it.
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
    """Send a heartbeat and, if given, the job's progress and a note.

    Returns:
        False if work must stop: a user stopped the job, or another process took the shard.
    """
    now = database_now()
    counts = {"n_done": n_done, "n_total": n_total}
    known_counts: dict[str, Any] = {name: n for name, n in counts.items() if n is not None}
    held_shard = Shard.objects.filter(pk=shard.pk, holder=shard.holder, state=State.RUNNING)
    if not held_shard.update(heartbeat_at=now, **known_counts):
        return False
    progress: dict[str, Any] = {}
    if known_counts:
        progress["n_done"], progress["n_total"], _ = shard_counts(job)
    if note is not None:
        progress["note"] = sanitise(note, 200)
    return job_lives(rows_of(job), **progress)


def shard_release(*, shard: Shard) -> None:
    """Release the shard, so that another process can start it again."""
    holder_end(shard.holder)
    Shard.objects.filter(pk=shard.pk, holder=shard.holder).update(holder="")


def shard_end(*, job: JobBase, shard: Shard, result: Any) -> bool:
    """Store the shard's end state and result.

    False if the caller no longer held it.
    """
    held_shard = Shard.objects.filter(pk=shard.pk, holder=shard.holder, state=State.RUNNING)
    ended = held_shard.update(state=State.DONE, holder="", n_done=F("n_total"), result=result)
    holder_end(shard.holder)
    if not ended:
        return False
    now = database_now()
    n_done, n_total, _ = shard_counts(job)
    rows_of(job).filter(state=State.RUNNING).update(heartbeat_at=now, updated_at=now, n_done=n_done, n_total=n_total)
    return True


def jobs_forget(kinds: Collection[str], studies: Collection[int]) -> None:
    """Remove results of jobs on these studies, and stop running ones.

    Called when a participant is erased.
    """
    jobs = Job.objects.filter(kind__in=kinds, study__in=studies)
    for job in jobs.filter(state__in=UNFINISHED):
        job_cancel(job=job)
    for job in jobs:
        shards_forget(job=job)
    jobs.exclude(state__in=UNFINISHED).delete()


def shards_forget(*, job: JobBase) -> None:
    """Delete the plan of a job, so that it is planned again."""
    with transaction.atomic():
        Shard.objects.filter(kind=job.kind, job_id=job.pk).delete()
        rows_of(job).update(planned_at=None)
