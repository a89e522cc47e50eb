"""Database work from the event loop, and whether the database is usable.

The work runs on few threads whose connections stay open.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from asgiref.sync import sync_to_async
from channels.consumer import get_handler_name
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import InterfaceError, OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from chatbots.threads import ContextPool
from webapp.core.clock import database_now

DATABASE_AWAY = (OperationalError, InterfaceError)
"""Django's errors for a database that is unreachable, busy or has closed the connection."""

_OUTAGE_REMEMBERED_S = 30.0


class DatabaseOutage:
    """Time of this process's latest request that could not reach the database."""

    def __init__(self) -> None:
        self._failed_at_s: float | None = None

    def note(self) -> None:
        """Note that the database could not be reached just now."""
        self._failed_at_s = time.monotonic()

    def is_going_on(self) -> bool:
        """Return True if the database was unreachable within the last half minute."""
        return self._failed_at_s is not None and time.monotonic() - self._failed_at_s < _OUTAGE_REMEMBERED_S


database_outage = DatabaseOutage()
"""The outage as known to this process."""


_BUSY = re.compile("locked|too many|connection slots|timeout")
"""Errors of a working database that rejects this request: locks, and too many connections."""


def is_unreachable(error: BaseException) -> bool:
    """Return True if the database is unavailable, not just busy."""
    return isinstance(error, DATABASE_AWAY) and not _BUSY.search(str(error))


class _ConnectionLosses:
    """Count of lost database connections, and what each thread knows of it."""

    def __init__(self) -> None:
        self._epoch = 0
        self._lock = threading.Lock()
        self._seen = threading.local()

    def drop_old_connections(self) -> None:
        """Close this thread's connections if another thread has lost its own.

        Only if they were opened before that.
        """
        if getattr(self._seen, "epoch", self._epoch) != self._epoch:
            connections.close_all()
        self._seen.epoch = self._epoch

    def note(self) -> None:
        """Note that this thread has lost its connection.

        Threads that lose theirs at the same time count as one loss.
        """
        with self._lock:
            if self._seen.epoch == self._epoch:
                self._epoch += 1
            self._seen.epoch = self._epoch


_losses = _ConnectionLosses()


P = ParamSpec("P")
R = TypeVar("R")


def in_database(work: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """Run `work` on one of the process's database threads.

    Like `channels.db.database_sync_to_async`, which checks before and after every call whether the connection is too
    old. Here it is kept, and closed after an error of the connection itself.

    If one thread loses its connection, so have the others: each opens a new one before its next work, so that only one
    call fails instead of one per thread.

    SQLite has one writer, and one thread. PostgreSQL has `CONFAB_SOCKET_THREADS`: while one waits for a commit to reach
    the disk, or for the threads of pages, the others continue.
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _losses.drop_old_connections()
        try:
            return work(*args, **kwargs)
        except DATABASE_AWAY as error:
            connections.close_all()
            if is_unreachable(error):
                _losses.note()
            raise

    threads = _threads(settings.CONFAB_SOCKET_THREADS) if connection.vendor == "postgresql" else None
    return sync_to_async(run, thread_sensitive=threads is None, executor=threads)


@functools.cache
def _threads(n: int) -> ContextPool | None:
    """Return the threads for database work.

    None for a single one, which is asgiref's own.
    """
    return ContextPool(n, "database") if n > 1 else None


class DirectDispatch:
    """Consumer that passes each message directly to the method of its type.

    Channels' own dispatch visits the database thread before every message to check the age of the connection. Consumers
    here use the database only through `in_database`, which keeps the connection.
    """

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Call the method for this message.

        Raises:
            AttributeError: if there is no method for its type.
        """
        await getattr(self, get_handler_name(message))(message)


def database_write_check() -> None:
    """Check that the database accepts writes, by one that is rolled back.

    Raises:
        DatabaseError: if the database is unavailable, read-only or without its tables.
    """
    with transaction.atomic():
        Session.objects.create(session_key=uuid4().hex, session_data="", expire_date=database_now())
        transaction.set_rollback(True)


def journal_emptied(using: BaseDatabaseWrapper = connection) -> None:
    """Empty SQLite's journal, where deleted data could be read for long.

    Other databases are left alone.

    If others read or write for longer than SQLite waits, the journal stays; the next written pages overwrite it.
    """
    if using.vendor != "sqlite" or using.in_atomic_block:
        return
    with contextlib.suppress(OperationalError), using.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def database_is_damaged(error: BaseException) -> bool:
    """Return True if SQLite or Django reports a damaged database file."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) or 0
    # The low byte is the kind of error; higher bytes are details.
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_new_embedded_database() -> bool:
    """Return True if the database is SQLite and has no table yet."""
    if connection.vendor != "sqlite":
        return False
    try:
        return not connection.introspection.table_names()
    except OperationalError:
        return False


def database_complaint(error: Exception) -> str:
    """Describe in one line what is wrong with the database and how to fix it."""
    reason = " ".join(str(error).split())
    name = connection.settings_dict["NAME"]
    if database_is_damaged(error):
        return (
            f"the database {name} is damaged ({reason}); `{settings.CONFAB_PROGRAM} restore FILE.zip` replaces it "
            "with a backup and keeps the damaged file"
        )
    if "readonly" in reason or "read-only" in reason:
        return f"the database {name} is read-only ({reason}); give this user write access to the file and its folder"
    return (
        f"the database {name} cannot be used: {reason}. If it is new or of an older version, run "
        f"`{settings.CONFAB_PROGRAM} upgrade`"
    )
