"""Who may work on a job, and in which state it ends."""

import json
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
from webapp.jobs import engine, queue, tasks
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.kinds import selfplay
from webapp.jobs.kinds.base import ShardPlan
from webapp.jobs.management.command_line import run_inline
from webapp.jobs.models import SelfPlayRun, Shard
from webapp.jobs.queue import STALE_AFTER, holder_is_dead
from webapp.jobs.selectors.jobs import job_progress, jobs_unfinished, shard_results
from webapp.jobs.services.jobs import (
    job_beat,
    job_cancel,
    job_claim,
    job_done,
    job_release,
    job_restart,
    shard_beat,
    shard_claim,
    shard_end,
    shards_plan,
)
from webapp.jobs.services.selfplay import run_create

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
    assert not job_done(job=run, holder=first)
    assert job_beat(job=run, holder=second)
    assert job_done(job=run, holder=second)
    assert job_claim(job=run) is None
    run.refresh_from_db()
    assert (run.state, run.holder) == ("done", "")
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
    monkeypatch.setattr(selfplay, "selfplay_store", lambda **_: end())
    with pytest.raises(Refused, match="stopped"):
        run_inline(run, label="Run", unit="conversations")
    run.refresh_from_db()
    assert (run.state, run.holder) == ("cancelled", "")


def test_an_unexpected_error_fails_the_job_with_its_name(
    run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch, json_lines: Callable[[], list[str]]
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(selfplay, "selfplay_store", breaks)
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert (run.state, run.error) == ("failed", "ZeroDivisionError: division by zero")
    (line,) = [line for line in map(json.loads, json_lines()) if "exception" in line]
    assert line["job_id"] == f"selfplay {run.pk}"


def test_a_busy_database_fails_nothing(run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch) -> None:
    store = selfplay.selfplay_store

    def busy(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(selfplay, "selfplay_store", busy)
    assert run_job_for(run).has_more
    monkeypatch.setattr(selfplay, "selfplay_store", store)
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    assert run.state == "done"


def test_progress(run: SelfPlayRun) -> None:
    assert job_progress(run).fraction == 0
    assert not job_progress(run).waits_for_worker
    holder = job_claim(job=run)
    assert holder
    assert shards_plan(job=run, holder=holder, parts=[ShardPlan(n_total=2)])
    shard = shard_claim(job=run)
    assert shard
    assert shard_claim(job=run) is None
    assert shard_beat(job=run, shard=shard, n_done=1)
    SelfPlayRun.objects.update(started_at=timezone.now() - timedelta(seconds=10))
    run.refresh_from_db()
    result = job_progress(run)
    assert result.fraction == 0.5
    assert result.remaining_s == pytest.approx(10, abs=1)
    assert jobs_unfinished() == [run]
    assert job_progress(job_cancel(job=run)).stopping
    assert not shard_beat(job=run, shard=shard)
    with pytest.raises(Refused, match="has not ended"):
        job_restart(job=run)


def test_a_shard_has_one_holder_and_is_begun_anew_when_that_dies(run: SelfPlayRun) -> None:
    holder = job_claim(job=run)
    assert holder
    assert shards_plan(job=run, holder=holder, parts=[ShardPlan(), ShardPlan()])
    assert not shards_plan(job=run, holder=holder, parts=[ShardPlan()])  # once
    job_release(job=run, holder=holder)
    first, second = shard_claim(job=run), shard_claim(job=run)
    assert first
    assert second
    assert (first.number, second.number) == (0, 1)
    assert shard_claim(job=run) is None
    Shard.objects.filter(pk=first.pk).update(heartbeat_at=timezone.now() - STALE_AFTER - timedelta(seconds=1))
    again = shard_claim(job=run)
    assert again
    assert again.number == 0
    assert not shard_end(job=run, shard=first, result="late")
    assert shard_end(job=run, shard=again, result="first")
    assert shard_end(job=run, shard=second, result="second")
    assert shard_results(run) == ["first", "second"]
    run.refresh_from_db()
    assert (run.n_done, run.n_total) == (2, 2)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Record what is sent to the broker: the task's arguments and how long it is to wait."""
    results: list[tuple[Any, Any]] = []
    monkeypatch.setattr(queue.app, "send_task", lambda name, args, **how: results.append((args, how["countdown"])))
    return results


def test_a_worker_that_starts_is_woken_for_what_is_unfinished(
    run: SelfPlayRun, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # `run` is a command's own.
    run_create(bots=["eliza"], n_conversations=2, n_turns=2, enqueue=True)
    done = run_create(bots=["generic"], enqueue=False)
    job_cancel(job=done)
    monkeypatch.setattr(tasks.connections, "close_all", lambda: None)
    tasks.unfinished_pick_up()
    assert sent == [(["gpu", True], None)]


def test_a_worker_takes_the_job_that_waited_longest_and_leaves_those_of_commands(
    run: SelfPlayRun, sent: list[Any]
) -> None:
    with_turn = [run_create(bots=["eliza"], n_conversations=1, n_turns=2, enqueue=True) for _ in range(3)]
    sent.clear()
    with_turn[0].refresh_from_db()
    SelfPlayRun.objects.filter(pk=with_turn[0].pk).update(heartbeat_at=timezone.now())
    tasks.work("default")
    assert sent == []
    for _ in range(5):
        tasks.work("gpu")
    ended = SelfPlayRun.objects.exclude(ended_at=None).order_by("ended_at")
    assert list(ended) == [with_turn[1], with_turn[2], with_turn[0]]
    assert sent == [(["gpu", True], None)] * 3
    run.refresh_from_db()
    assert run.state == "queued"


def test_who_has_worked_looks_again_while_others_do_the_rest(run: SelfPlayRun, sent: list[Any]) -> None:
    SelfPlayRun.objects.update(inline=False)
    holder = job_claim(job=run)
    assert holder
    shards_plan(job=run, holder=holder, parts=[ShardPlan()])
    job_release(job=run, holder=holder)
    assert shard_claim(job=run)
    tasks.work("gpu", True)
    tasks.work("gpu")
    assert sent == [(["gpu", True], tasks.WATCH_IN_S)]


def test_a_broker_that_is_away_leaves_the_job_waiting(run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError("no broker")

    monkeypatch.setattr(queue.app, "send_task", away)
    assert queue.send(run) is False
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


def test_a_call_that_takes_long_gives_signs_of_life(run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STALE_AFTER.total_seconds() / 3 > engine.PULSE_EVERY_S
    beaten = threading.Event()
    beats: list[str] = []

    def beat(*, job: Any, shard: Any, **_: Any) -> bool:
        if threading.current_thread() is not threading.main_thread():
            beats.append(shard.holder)
            beaten.set()
        return True

    def long(_kind: Any, work: Any) -> None:
        holders.append(Shard.objects.get().holder)
        assert beaten.wait(20), "no sign of life while the work was going on"

    holders: list[str] = []
    monkeypatch.setattr(engine, "shard_beat", beat)
    monkeypatch.setattr(engine, "PULSE_EVERY_S", 0.01)
    monkeypatch.setattr(selfplay.SelfPlayJob, "slice", long)
    monkeypatch.setattr(selfplay.SelfPlayJob, "finish", lambda *_: None)
    run_job(run)
    run.refresh_from_db()
    assert run.state == "done"
    assert set(beats) == set(holders)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pulse")]


def test_a_quick_job_ends_with_its_progress(run: SelfPlayRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are told every other second; those of the last one must not get lost."""

    def quick(_kind: Any, work: Any) -> None:
        work.beat(now=True)
        work.beat(3, 25)
        work.beat(25)

    monkeypatch.setattr(selfplay.SelfPlayJob, "slice", quick)
    monkeypatch.setattr(selfplay.SelfPlayJob, "finish", lambda *_: None)
    run_job(run)
    run.refresh_from_db()
    assert (run.state, run.n_done, run.n_total) == ("done", 25, 25)
