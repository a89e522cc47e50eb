"""Detection of an unavailable Redis, and how often the log reports it."""

from __future__ import annotations

import logging
import sys
import time

from django.conf import settings

_ANSWERS_WITHIN_S = 2.0
_SAID_EVERY_S = 60.0


def redis_away() -> tuple[type[Exception], ...]:
    """Return the errors of a Redis that is away.

    Redis is imported for it only here: that would take a tenth of the start of every command.
    """
    from redis.exceptions import RedisError

    return OSError, RedisError


def redis_answers() -> bool | None:
    """Return True if Redis answers; None where none is used."""
    if not settings.REDIS_URL:
        return None
    from redis import Redis

    asked = Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=_ANSWERS_WITHIN_S,
        socket_timeout=_ANSWERS_WITHIN_S,
    )
    try:
        return bool(asked.ping())
    except redis_away():
        return False
    finally:
        asked.close()


class RedisAwayLines(logging.Filter):
    """Lets a logger say once a minute, in one line, that Redis is away.

    Whoever listens to it tries again every second, and says each time with all its calls what went wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        known = sys.modules.get("redis.exceptions")  # else no error is one of Redis
        if known is None or not isinstance(error, known.RedisError):
            return True
        now = time.monotonic()
        if now - self._said_at.get(record.name, -_SAID_EVERY_S) < _SAID_EVERY_S:
            return False
        self._said_at[record.name] = now
        record.msg, record.args = f"{record.getMessage()}: {error}", ()
        record.exc_info = None
        return True
