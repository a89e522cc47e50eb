"""Workers at the same job at the same time: every shard is done once, and the job is planned and ended once."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db import OperationalError, connection

from chatbots.validation import InputModel
from webapp.jobs import queue
from webapp.jobs.engine import run_job_for
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, kinds
from webapp.jobs.models import Job, Shard
from webapp.jobs.selectors.jobs import job_read
from webapp.jobs.services.jobs import job_ask, job_cancel, job_create

pytestmark = pytest.mark.django_db(transaction=True)

N_SHARDS = 24
N_WORKERS = 4


class Noted(JobKind[Job, InputModel]):
    """Notes what is done, by whom."""

    name = "noted"
    title = "Noted"
    stops_at: int | None = None

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.finished: list[int] = []
        self.followed: list[int] = []

    def plan(self, job: Job, asked: InputModel) -> list[ShardPlan]:
        return [ShardPlan({"n": n}) for n in range(N_SHARDS)]

    def slice(self, work: ShardWork[Job, InputModel]) -> int:
        n: int = work.shard["n"]
        self.done.append((threading.current_thread().name, n))
        if n == self.stops_at:
            job_cancel(job=job_read(work.job))
        return n

    def finish(self, work: ShardWork[Job, InputModel], results: Sequence[Any]) -> list[Any]:
        self.finished.append(work.job.pk)
        return list(results)

    def follow_up(self, job: Job) -> None:
        self.followed.append(job.pk)


@pytest.fixture
def noted() -> Iterator[Noted]:
    kind = Noted()
    kinds.add(kind)
    yield kind
    kinds.discard("noted")


def together(work: Any) -> list[BaseException]:
    """Call it in as many threads as there are workers, begun at the same moment. Returns what they raised."""
    barrier, raised = threading.Barrier(N_WORKERS), []

    def one() -> None:
        try:
            barrier.wait(30)
            work()
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, name=f"worker {n}") for n in range(N_WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def do_all(job: Job) -> None:
    """Do what a worker would: slices, until the job is over."""
    over = False
    while not over:
        with contextlib.suppress(OperationalError):  # SQLite in memory does not wait for its turn
            run_job_for(job)
            over = job_read(job).is_over


def test_every_shard_is_done_once_and_the_job_ended_once(noted: Noted) -> None:
    job = job_create(kind="noted", enqueue=False)
    assert together(lambda: do_all(job)) == []
    job.refresh_from_db()
    assert (job.state, job.n_done, job.n_total) == ("done", N_SHARDS, N_SHARDS)
    assert job.result == list(range(N_SHARDS))
    done = Counter(n for _who, n in noted.done)
    assert set(done) == set(range(N_SHARDS))
    assert noted.followed == [job.pk]
    if connection.vendor != "sqlite":  # where in memory a shard that could not be stored is done again
        assert set(done.values()) == {1}
        assert noted.finished == [job.pk]
    assert not Shard.objects.exists()


def test_a_job_that_is_stopped_stops_for_all(noted: Noted) -> None:
    noted.stops_at = 2
    job = job_create(kind="noted", enqueue=False)
    assert together(lambda: do_all(job)) == []
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert (noted.finished, noted.followed) == ([], [])
    assert len(noted.done) < N_SHARDS


def test_a_result_is_asked_for_once(noted: Noted, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Job] = []
    monkeypatch.setattr(queue, "send", sent.append)

    def ask() -> None:
        asked = None
        while asked is None:
            with contextlib.suppress(OperationalError):
                asked = job_ask(kind="noted", payload={}, state="now")

    assert together(ask) == []
    assert Job.objects.count() == 1
    assert sent == [Job.objects.get()]
