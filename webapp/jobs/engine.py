"""Engine of long work: plans a job, processes its shards, finishes it.

`run_job_for` works on a job for about a minute and returns whether work is left. The Celery task and `--inline`
commands call the same function, in any number of processes: each claims shards that no living process holds. Shards
compute outside transactions, and no result is lost or stored twice when a process dies.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, OperationalError, connection
from structlog.contextvars import bound_contextvars

from chatbots.text import error_text
from chatbots.threads import thread_start
from webapp.core.audit_trail import Origin, in_origin
from webapp.core.project_scope import in_project
from webapp.jobs import queue
from webapp.jobs.kinds.base import JobKind, ShardWork, kind_of
from webapp.jobs.models import JobBase, Shard
from webapp.jobs.selectors.jobs import job_read, shard_counts, shard_results
from webapp.jobs.services.jobs import (
    job_beat,
    job_claim,
    job_done,
    job_fail,
    job_release,
    job_stopped,
    shard_beat,
    shard_claim,
    shard_end,
    shard_release,
    shards_plan,
)

log = logging.getLogger(__name__)

SLICE_S = 45.0
BEAT_EVERY_S = 2.0
PULSE_EVERY_S = 15.0  # four times before a holder counts as dead
HELPERS = 32
"""Number of workers woken for a job with many shards; more would find nothing to do."""

Follow = Callable[[JobBase], None]

# Errors with a message for users, matched by name because importing their modules loads heavy libraries.
_EXPECTED_ERRORS = (
    "BotError",
    "CheckpointError",
    "CorpusError",
    "EncoderError",
    "HybridError",
    "MetricUnavailable",
    "Refused",
    "StateError",
    "TrainingError",
    "UnknownName",
    "ValuesError",
)


class Stopped(Exception):
    """Raised if a user stopped the job or another process took over."""


@dataclass(frozen=True, slots=True)
class Sliced:
    """Result of a slice.

    Attributes:
        worked: True if this slice did any work.
        more: True if work is left for this process.
    """

    worked: bool
    has_more: bool


def run_job(job: JobBase, *, follow: Follow | None = None) -> None:
    """Run a job in this process until no work is left for it."""
    while run_job_for(job, follow=follow).has_more:
        pass


def run_job_for(job: JobBase, *, follow: Follow | None = None) -> Sliced:
    """Work on a job for about a minute, at least one shard.

    Plans the job first and finishes it when all shards are done.

    The job's state is updated accordingly, also after an error.

    Args:
        follow: called with the job whenever its progress is written.
    """
    job = job_read(job)
    if job.is_over:
        return Sliced(worked=False, has_more=False)
    project = None if kind_of(job).is_server_wide else job.project_id
    origin = Origin("job", actor=job.created_by_id, details={"job": job.pk, "kind": job.kind})
    with bound_contextvars(job_id=f"{job.kind} {job.pk}"), in_project(project), in_origin(origin):
        return _sliced(job, follow)


def _sliced(job: JobBase, follow: Follow | None) -> Sliced:
    run = _Run(job, kind_of(job), follow)
    until = time.monotonic() + SLICE_S
    worked = False
    try:
        worked = run.plan()
        while (shard := shard_claim(job=job)) is not None:
            worked = True
            run.do(shard)
            if time.monotonic() >= until:
                return Sliced(worked=True, has_more=True)
        return Sliced(worked=run.finish() or worked, has_more=False)
    except Stopped:
        job_stopped(job=job)
    except OperationalError:
        # The database was busy or unavailable, which is not the job's fault: another slice tries again.
        log.warning("%s: the database did not respond; trying again", job, exc_info=True)
        return Sliced(worked=True, has_more=True)
    except Exception as error:
        reason = _reason(error)
        if type(error).__name__ in _EXPECTED_ERRORS:
            log.warning("%s: %s", job, reason)
        else:
            log.exception("%s failed", job)
        job_fail(job=job, error=reason)
    return Sliced(worked=True, has_more=False)


class _Run:
    """A job that this process works on."""

    def __init__(self, job: JobBase, kind: JobKind[Any, Any], follow: Follow | None) -> None:
        self.job = job
        self.kind = kind
        self.follow = follow

    def plan(self) -> bool:
        """Create the job's shards if missing.

        False if there is nothing to plan.
        """
        if self.job.planned_at is not None:
            return False
        with self._held_job() as holder:
            if holder is None:
                return False
            self.job = job_read(self.job)
            if self.job.planned_at is None:
                parts = list(self.kind.plan(self.job, self._read_params()))
                if not shards_plan(job=self.job, holder=holder, parts=parts):
                    raise Stopped
                if not self.job.inline:
                    for _ in range(min(len(parts) - 1, HELPERS)):
                        queue.send(self.job)
        self._tell()
        return True

    def do(self, shard: Shard) -> None:
        """Process a shard that this process holds."""
        beat = _Beat(lambda **n: shard_beat(job=self.job, shard=shard, **n), self._tell)
        try:
            with _pulse(f"pulse of {shard}", lambda: shard_beat(job=self.job, shard=shard)):
                beat(now=True)
                result = self.kind.slice(ShardWork(self.job, self._read_params(), shard.payload, beat))
                beat(now=True)
            shard_end(job=self.job, shard=shard, result=result)
        except BaseException:
            # Also after Ctrl-C or a worker's shutdown: release the shard so that another process can start it again.
            with contextlib.suppress(DatabaseError):
                shard_release(shard=shard)
            raise
        self._tell()

    def finish(self) -> bool:
        """End the job if all shards are done.

        False if it was not ended.
        """
        self.job = job_read(self.job)
        if self.job.planned_at is None or shard_counts(self.job)[2]:
            return False
        with self._held_job() as holder:
            if holder is None:
                return False
            beat = _Beat(lambda **_: job_beat(job=self.job, holder=holder), self._tell)
            beat(now=True)
            work = ShardWork(self.job, self._read_params(), {}, beat)
            result = self.kind.finish(work, shard_results(self.job))
            job_done(job=self.job, holder=holder, result=result)
        self._tell()
        return True

    @contextlib.contextmanager
    def _held_job(self) -> Iterator[str | None]:
        """Hold the job itself, with heartbeats.

        None if another process holds it.
        """
        holder = job_claim(job=self.job)
        if holder is None:
            yield None
            return
        try:
            with _pulse(f"pulse of {self.job}", lambda: job_beat(job=self.job, holder=holder)):
                yield holder
        finally:
            with contextlib.suppress(DatabaseError):
                job_release(job=self.job, holder=holder)

    def _read_params(self) -> Any:
        return self.kind.Payload.model_validate(self.job.params)

    def _tell(self) -> None:
        if self.follow is not None:
            self.follow(job_read(self.job))


class _Beat:
    """Heartbeats and progress, written at most every other second.

    Values reported between two writes go out with the next one; otherwise a short job would end without its progress.
    """

    def __init__(self, write: Callable[..., bool], on_progress: Callable[[], None]) -> None:
        self._write = write
        self._on_progress = on_progress
        self._counts: dict[str, Any] = {}
        self._next = 0.0

    def __call__(
        self, n_done: int | None = None, n_total: int | None = None, *, note: str | None = None, now: bool = False
    ) -> None:
        """Report the work done, optionally its total and a note.

        Raises:
            Stopped
        """
        if n_done is not None:
            self._counts["n_done"] = n_done
        if n_total is not None:
            self._counts["n_total"] = n_total
        if note is not None:
            self._counts["note"] = note
        if not now and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BEAT_EVERY_S
        if not self._write(**self._counts):
            raise Stopped
        self._on_progress()


@contextlib.contextmanager
def _pulse(name: str, beat: Callable[[], bool]) -> Iterator[None]:
    """Send heartbeats from a thread, for calls longer than the holder's timeout."""
    over = threading.Event()

    def beats() -> None:
        try:
            while not over.wait(PULSE_EVERY_S):
                try:
                    beat()
                except DatabaseError:
                    log.warning("%s: the heartbeat could not be stored in the database", name)
                    connection.close()
        finally:
            connection.close()

    thread = thread_start(beats, name=name)
    try:
        yield
    finally:
        over.set()
        thread.join()


def _reason(error: Exception) -> str:
    text = error_text(error)
    is_expected = type(error).__name__ in _EXPECTED_ERRORS
    return text if is_expected and text else f"{type(error).__name__}: {text}"
