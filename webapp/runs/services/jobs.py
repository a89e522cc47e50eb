"""The state of long work. Every change is one conditional UPDATE, so two processes cannot both make it.

A process that works on a job is its holder and gives signs of life. Who finds a job without a living
holder may take it: the rows already made say what is left.
"""

from __future__ import annotations

import os
import socket
import uuid
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from chatbots.storable import storable
from webapp.core.errors import Refused
from webapp.runs.holders import STALE_AFTER, holder_is_dead
from webapp.runs.models import Job, SelfPlayRun
from webapp.runs.selectors.jobs import job_is_abandoned

State = Job.State
J = TypeVar("J", bound=Job)


def job_claim(*, job: Job) -> str | None:
    """Become the job's holder, if it is not over and nobody alive is at work on it.

    Returns:
        The token that `job_beat`, `job_release` and `job_end` want, or None.
    """
    now = timezone.now()
    holder = f"{socket.gethostname()[:80]}:{os.getpid()}:{uuid.uuid4().hex}"
    model = type(job)
    free = Q(holder="") | Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - STALE_AFTER)
    current = model.objects.filter(pk=job.pk).values_list("holder", flat=True).first()  # type: ignore[attr-defined]
    if current and holder_is_dead(current):
        free |= Q(holder=current)
    claimed = model.objects.filter(free, pk=job.pk, state__in=[State.QUEUED, State.RUNNING]).update(  # type: ignore[attr-defined]
        holder=holder,
        state=State.RUNNING,
        heartbeat_at=now,
        started_at=Coalesce(F("started_at"), now),
        updated_at=now,
    )
    return holder if claimed else None


def job_beat(
    *, job: Job, holder: str, n_done: int | None = None, n_total: int | None = None
) -> bool:
    """Give a sign of life and, if given, the progress.

    Returns:
        False if work must stop: somebody cancelled the job, or took it.
    """
    now = timezone.now()
    fields: dict[str, Any] = {"heartbeat_at": now, "updated_at": now}
    if n_done is not None:
        fields["n_done"] = n_done
    if n_total is not None:
        fields["n_total"] = n_total
    mine = type(job).objects.filter(pk=job.pk, holder=holder, state=State.RUNNING)  # type: ignore[attr-defined]
    return bool(mine.filter(cancel_requested=False).update(**fields))


def job_release(*, job: Job, holder: str) -> None:
    """Leave the job to whoever takes the next slice."""
    type(job).objects.filter(pk=job.pk, holder=holder).update(holder="")  # type: ignore[attr-defined]


def job_end(*, job: Job, holder: str, state: str, error: str = "") -> bool:
    """Put the job into its end state, alone in its transaction. False if it was not the holder's."""
    now = timezone.now()
    return bool(
        type(job)  # type: ignore[attr-defined]
        .objects.filter(pk=job.pk, holder=holder, state=State.RUNNING)
        .update(state=state, error=storable(error, 2000), ended_at=now, updated_at=now, holder="")
    )


def job_cancel(*, job: J) -> J:
    """Ask for the job to stop; at once if nobody is at work on it. What it made stays."""
    now = timezone.now()
    model = type(job)
    with transaction.atomic():
        rows = model.objects.filter(pk=job.pk, state__in=[State.QUEUED, State.RUNNING])  # type: ignore[attr-defined]
        rows.update(cancel_requested=True, updated_at=now)
        rows.filter(Q(holder="") | Q(heartbeat_at__lt=now - STALE_AFTER)).update(
            state=State.CANCELLED, ended_at=now, holder=""
        )
    job.refresh_from_db()
    return job


def job_restart(*, job: J, enqueue: bool = False) -> J:
    """Go on with a job that failed, was stopped or lost its process.

    Conversations that failed are tried again where the whole run has failed, and left where it was only
    stopped: going on is no reason to ask, and pay, a bot again that did not answer.

    Args:
        enqueue: send it to the workers too.

    Raises:
        Refused: `running` or `done`.
    """
    can = Q(state__in=[State.FAILED, State.CANCELLED])
    if job_is_abandoned(job):
        can |= Q(state=State.RUNNING, holder=job.holder, heartbeat_at=job.heartbeat_at)
    with transaction.atomic():
        had_failed = type(job).objects.filter(pk=job.pk, state=State.FAILED).exists()  # type: ignore[attr-defined]
        changed = (
            type(job)  # type: ignore[attr-defined]
            .objects.filter(can, pk=job.pk)
            .update(
                state=State.QUEUED,
                cancel_requested=False,
                error="",
                ended_at=None,
                holder="",
                updated_at=timezone.now(),
            )
        )
        job.refresh_from_db()
        if not changed:
            if job.state == State.DONE:
                raise Refused("done", f"{job} is done; there is nothing to go on with")
            raise Refused("running", f"{job} is not over; it goes on by itself")
        if had_failed and isinstance(job, SelfPlayRun):
            from webapp.runs.services.selfplay import selfplay_forget_failed

            selfplay_forget_failed(run=job)
    if enqueue:
        from webapp.runs.tasks import enqueue as send

        send(job)
    return job
