"""The database's time, which all processes share, and clock offsets.

A time that one process stores and another compares (a lease, a heartbeat, the age of a message) is taken from here.
Between two queries the monotonic clock advances the time, so that setting this machine's clock changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.utils import timezone

_LOOK_EVERY_S = 60.0
OFF_AFTER_S = 5.0
"""Offset from the database's clock above which a process reports it."""


@dataclass(frozen=True, slots=True)
class _Look:
    moment: datetime
    at_s: float  # reading of the monotonic clock


class DatabaseClock:
    """The database's time, queried once a minute.

    With SQLite it is this machine's.
    """

    def __init__(self) -> None:
        self._look: _Look | None = None
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the database's time, in UTC.

        On an event loop, which must not wait for the database, it is extrapolated from the latest query.
        """
        if connection.vendor == "sqlite":
            return timezone.now()
        look = self._look
        if (look is None or time.monotonic() - look.at_s >= _LOOK_EVERY_S) and not _is_on_event_loop():
            look = self._look_at_database()
        if look is None:
            return timezone.now()
        return look.moment + timedelta(seconds=time.monotonic() - look.at_s)

    def seconds_off(self) -> float:
        """Return the seconds by which this process's clock is ahead.

        Negative if it is behind the database's.
        """
        return (timezone.now() - self.now()).total_seconds()

    def _look_at_database(self) -> _Look:
        with self._lock:
            began_s = time.monotonic()
            connection.ensure_connection()
            with (
                connection.connection.cursor() as cursor
            ):  # not Django's connection: the caller's queries are not counted or logged
                cursor.execute("SELECT clock_timestamp()")
                moment: datetime = cursor.fetchone()[0]
            self._look = _Look(moment.astimezone(UTC), (began_s + time.monotonic()) / 2)
            return self._look


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


database_clock = DatabaseClock()
"""The clock of this process."""


def database_now() -> datetime:
    """Return the database's time, in UTC."""
    return database_clock.now()
