"""The database's time, which processes on several machines share, and how far this process's own clock is off.

A moment that one process stores and another compares (a lease, a heartbeat, the age of a message) is taken from here.
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
"""A process whose clock differs by more from the database's reports it."""


@dataclass(frozen=True, slots=True)
class _Look:
    moment: datetime
    at_s: float  # of the monotonic clock


class DatabaseClock:
    """The time of the database, asked for once a minute; SQLite has this machine's."""

    def __init__(self) -> None:
        self._look: _Look | None = None
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the database's time, in UTC.

        On an event loop, which must not wait for the database, the latest look is extrapolated.
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
        """Return by how many seconds this process's clock is ahead of the database's; negative: behind."""
        return (timezone.now() - self.now()).total_seconds()

    def _look_at_database(self) -> _Look:
        with self._lock:
            began_s = time.monotonic()
            connection.ensure_connection()
            with (
                connection.connection.cursor() as cursor
            ):  # not Django's: no query of the caller's is counted or logged
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
