"""Who may work on a job, and in which state it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from webapp.core.errors import Refused
from webapp.dashboard.selectors import needs
from webapp.dashboard.unfinished import jobs_running
from webapp.runs import jobs, tasks
from webapp.runs.management.following import work_inline
from webapp.runs.models import SelfPlayRun
from webapp.runs.selectors.jobs import job_is_abandoned, job_progress, jobs_unfinished
from webapp.runs.services.jobs import (
    STALE_AFTER,
    holder_is_dead,
    job_beat,
    job_cancel,
    job_claim,
    job_end,
    job_release,
    job_restart,
)
from webapp.runs.services.selfplay import run_create

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> SelfPlayRun:
    return run_create(bots=["eliza"], n_conversations=2, n_turns=2, enqueue=False)


def test_one_holder_at_a_time(run: SelfPlayRun) -> None:
    first = job_claim(job=run)
    assert first
    assert job_claim(job=run) is None
    job_release(job=run, holder=first)
    second = job_claim(job=run)
    assert second
    assert second != first
    assert not job_beat(job=run, holder=first)
    assert not job_end(job=run, holder=first, state="failed")
    assert job_beat(job=run, holder=second, n_done=1)
    assert job_end(job=run, holder=second, state="done")
    assert job_claim(job=run) is None
    run.refresh_from_db()
    assert (run.state, run.n_done, run.holder) == ("done", 1, "")
    assert run.ended_at is not None


def test_a_holder_without_signs_of_life_is_replaced(run: SelfPlayRun) -> None:
    assert job_claim(job=run)
    SelfPlayRun.objects.update(heartbeat_at=timezone.now() - STALE_AFTER - timedelta(seconds=1))
    assert job_claim(job=run)


def test_a_holder_that_died_on_this_machine_is_replaced_at_once(run: SelfPlayRun) -> None:
    assert job_claim(job=run)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    SelfPlayRun.objects.update(holder=f"{socket.gethostname()[:80]}:{gone.pid}:x")
    assert job_claim(job=run)
    SelfPlayRun.objects.update(holder=f"elsewhere:{gone.pid}:x")
    assert job_claim(job=run) is None


def test_a_job_whose_process_was_killed_is_not_running_and_can_be_gone_on_with(
    run: SelfPlayRun,
) -> None:
    assert job_claim(job=run)
    run.refresh_from_db()
    assert not job_is_abandoned(run)
    with pytest.raises(Refused, match="not over"):
        job_restart(job=run)
    assert [job.title for job in jobs_running()] == [f"Self-play {run.pk}"]
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    SelfPlayRun.objects.update(holder=f"{socket.gethostname()[:80]}:{gone.pid}:x")
    run.refresh_from_db()
    assert job_is_abandoned(run)
    assert jobs_running() == []
    assert [need.lead for need in needs()] == [f"Self-play {run.pk}"]
    assert job_restart(job=run).state == "queued"
    assert not job_is_abandoned(run)


def _ctrl_c() -> None:
    # Not by a signal: a process that was started in the background may ignore SIGINT.
    raise KeyboardInterrupt


def _sigterm() -> None:
    signal.raise_signal(signal.SIGTERM)
    raise AssertionError("SIGTERM went unheard")


@pytest.mark.parametrize("end", [_ctrl_c, _sigterm])
def test_a_command_that_is_ended_stops_its_job(
    run: SelfPlayRun, end: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "selfplay_store", lambda **_: end())
    with pytest.raises(Refused, match="stopped"):
        work_inline(run, jobs.selfplay_slice, what="Run", unit="conversations")
    run.refresh_from_db()
    assert (run.state, run.holder) == ("cancelled", "")


def test_an_unexpected_error_fails_the_job_with_its_name(
    run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(jobs, "selfplay_store", breaks)
    assert jobs.selfplay_slice(run.pk) is False
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "ZeroDivisionError: division by zero")


def test_a_busy_database_fails_nothing(run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch) -> None:
    store = jobs.selfplay_store

    def busy(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(jobs, "selfplay_store", busy)
    assert jobs.selfplay_slice(run.pk) is True
    monkeypatch.setattr(jobs, "selfplay_store", store)
    assert jobs.selfplay_slice(run.pk) is False
    run.refresh_from_db()
    assert run.state == "done"


def test_progress(run: SelfPlayRun) -> None:
    assert job_progress(run).fraction == 0
    assert not job_progress(run).waits_for_worker
    holder = job_claim(job=run)
    assert holder
    job_beat(job=run, holder=holder, n_done=1)
    SelfPlayRun.objects.update(started_at=timezone.now() - timedelta(seconds=10))
    run.refresh_from_db()
    found = job_progress(run)
    assert found.fraction == 0.5
    assert found.remaining_s == pytest.approx(10, abs=1)
    assert jobs_unfinished() == [run]
    assert job_progress(job_cancel(job=run)).stopping
    with pytest.raises(Refused, match="is not over"):
        job_restart(job=run)


def test_a_worker_that_starts_sends_what_is_unfinished(
    run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = run_create(bots=["parrot"], enqueue=False)
    job_claim(job=held)
    done = run_create(bots=["generic"], enqueue=False)
    job_cancel(job=done)
    sent: dict[Any, float] = {}
    monkeypatch.setattr(tasks, "enqueue", lambda job, countdown_s: sent.update({job: countdown_s}))
    monkeypatch.setattr(tasks.connections, "close_all", lambda: None)
    tasks.unfinished_pick_up()
    assert set(sent) == {run, held}
    assert sent[run] == 0
    assert 50 < sent[held] <= 62  # this very process holds it, and lives


def test_a_broker_that_is_away_leaves_the_job_waiting(
    run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError("no broker")

    monkeypatch.setattr(tasks.selfplay_slice, "apply_async", away)
    assert tasks.enqueue(run) is False
    run.refresh_from_db()
    assert run.state == "queued"


def test_a_holder_that_ended_unnoticed_is_dead() -> None:
    """A killed worker's child can stay a zombie for as long as nobody waits for it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = f"{socket.gethostname()[:80]}:{child.pid}:x"
    try:
        assert not holder_is_dead(holder)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and left as a zombie
        assert holder_is_dead(holder)
    finally:
        child.wait()
    assert holder_is_dead(holder)


def test_a_call_that_takes_long_gives_signs_of_life(
    run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert STALE_AFTER.total_seconds() / 3 > jobs.PULSE_EVERY_S
    beaten = threading.Event()
    beats: list[tuple[int, str]] = []

    def beat(*, job: Any, holder: str, n_done: int | None = None) -> bool:
        if threading.current_thread() is not threading.main_thread():
            beats.append((job.pk, holder))
            beaten.set()
        return True

    def long(work: Any) -> bool:
        holders.append(work.holder)
        assert beaten.wait(20), "no sign of life while the work was going on"
        return False

    holders: list[str] = []
    monkeypatch.setattr(jobs, "job_beat", beat)
    monkeypatch.setattr(jobs, "PULSE_EVERY_S", 0.01)
    monkeypatch.setattr(jobs, "_selfplay", lambda run, work: long(work))
    jobs.selfplay_slice(run.pk)
    run.refresh_from_db()
    assert run.state == "done"
    assert beats[0] == (run.pk, holders[0])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pulse")]


def test_a_quick_job_ends_with_its_progress(run: SelfPlayRun) -> None:
    """Counts are told every other second; those of the last one must not get lost."""

    def quick(work: jobs._Work) -> bool:
        work.beat(now=True)
        work.beat(3, 25)
        work.beat(25)
        work.beat(now=True)
        return False

    jobs._slice(run, quick, None)
    run.refresh_from_db()
    assert (run.state, run.n_done, run.n_total) == ("done", 25, 25)
