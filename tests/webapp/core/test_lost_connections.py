"""A lost database connection costs one call and one log line, however many threads had one."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError, connection, connections

from webapp.conversations import bot_host
from webapp.conversations.bot_host import BotHostRuntime
from webapp.core import database
from webapp.core.database import in_database


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_after_the_first_loss_every_thread_connects_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    n_threads = 4
    threads = ThreadPoolExecutor(n_threads)
    monkeypatch.setattr(database, "_threads", lambda _n: threads)
    barrier = threading.Barrier(n_threads)

    def look(*, together: bool = False) -> int:
        if together:
            barrier.wait()  # so that every thread takes part
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])

    def all_look() -> list[Any]:
        async def run() -> list[Any]:
            return await asyncio.gather(*(in_database(look)(together=True) for _ in range(n_threads)))

        return async_to_sync(run)()

    pids = set(all_look())
    assert len(pids) == n_threads
    with connection.cursor() as cursor:
        for pid in pids:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    with pytest.raises((OperationalError, InterfaceError)):
        async_to_sync(in_database(look))()
    assert len(set(all_look()) - pids) == n_threads, "no other thread fails"
    list(threads.map(lambda _n: (barrier.wait(), connections.close_all()), range(n_threads)))
    threads.shutdown()


def test_a_lost_connection_is_one_line_and_the_next_sweep_comes_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []
    failing = [True, False, True, True, False]

    class Stop(BaseException):
        pass

    async def sweep(_host: Any) -> None:
        is_failing = failing.pop(0)
        events.append("lost" if is_failing else "sweep")
        if is_failing:
            raise OperationalError("server closed the connection unexpectedly")

    async def pause(_seconds: float) -> None:
        events.append("pause")
        if not failing:
            raise Stop

    monkeypatch.setattr(BotHostRuntime, "_sweep", sweep)
    monkeypatch.setattr(bot_host.asyncio, "sleep", pause)
    caplog.set_level(logging.INFO)
    with pytest.raises(Stop):
        async_to_sync(BotHostRuntime._beat)(object.__new__(BotHostRuntime))
    assert events == ["lost", "sweep", "pause", "lost", "lost", "pause", "sweep", "pause"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"], "one line for each outage"
    assert "Traceback" not in caplog.text
