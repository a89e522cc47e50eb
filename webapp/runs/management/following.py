"""Following a job from a terminal: a progress bar, and what to say when the person leaves."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from django.core.management.base import CommandError
from tqdm import tqdm

from webapp.core.errors import Refused
from webapp.runs.engine import job_do
from webapp.runs.models import JobBase, State
from webapp.runs.selectors.jobs import job_progress, job_read, worker_lives
from webapp.runs.services.jobs import job_cancel, job_settle

J = TypeVar("J", bound=JobBase)
POLL_S = 0.5


class Bar:
    """A progress bar on standard error, where that is a terminal."""

    def __init__(self, job: JobBase, what: str, unit: str) -> None:
        self._bar: tqdm[Any] = tqdm(
            total=job.n_total,
            initial=min(job.n_done, job.n_total),
            desc=what,
            unit=f" {unit}",
            file=sys.stderr,
            disable=not sys.stderr.isatty(),
        )

    def show(self, job: JobBase) -> None:
        self._bar.total = job.n_total
        self._bar.n = min(job.n_done, job.n_total)
        self._bar.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()


def work_inline(job: J, *, what: str, unit: str) -> J:
    """Do the whole job in this process. Ctrl-C and SIGTERM stop the job, not only the command.

    Raises:
        Refused: if it failed or was stopped.
    """
    with Bar(job, what, unit) as bar, _sigterm_exits():
        try:
            job_do(job, follow=bar.show)
        except (KeyboardInterrupt, SystemExit):
            job = job_cancel(job=job)
        else:
            job = job_read(job)
        bar.show(job)
    if not job.is_over:
        raise Refused("taken", f"another process is at work on {job}; follow it in the dashboard")
    return checked(job)


@contextlib.contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Let SIGTERM come through as an exception, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def follow(job: J, *, what: str, unit: str, note: Callable[[str], None], go_on: str) -> J:
    """Wait for workers to finish the job.

    Args:
        note: tells the person something.
        go_on: what to say when they leave with Ctrl-C.

    Raises:
        Refused: if it failed or was stopped.
    """
    told = False
    try:
        with Bar(job, what, unit) as bar:
            while not job.is_over:
                time.sleep(POLL_S)
                job = job_settle(job=job_read(job))
                bar.show(job)
                if not told and job_progress(job).waits_for_worker:
                    told = True
                    note(
                        "Other jobs are before this; it begins when a worker is free."
                        if worker_lives(job)
                        else "No worker has taken this yet. `make run` starts one, or by hand: "
                        "celery -A webapp.celery worker -Q gpu,default. With --inline no worker is needed."
                    )
    except KeyboardInterrupt:
        raise CommandError(go_on) from None
    return checked(job)


def checked(job: J) -> J:
    """Return the job if it is done.

    Raises:
        Refused: it failed, with its error, or was stopped or interrupted.
    """
    if job.state == State.FAILED:
        raise Refused("failed", f"{job} failed: {job.error}")
    if job.state == State.CANCELLED:
        raise Refused("cancelled", f"{job} was stopped; what it made is kept")
    if job.state == State.INTERRUPTED:
        raise Refused("interrupted", f"{job} was interrupted; what it made is kept")
    return job
