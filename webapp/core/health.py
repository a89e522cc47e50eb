"""Health checks, detection of an unavailable Redis, and Prometheus instruments.

Every app adds its own check in `AppConfig.ready()`; `/healthz` runs them all.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from webapp.core.restore_marker import read_restore_marker


@dataclass(frozen=True)
class Health:
    """Result of one check.

    Attributes:
        is_needed: whether pages need this check to be `ok`; otherwise it is only reported.
    """

    ok: bool
    details: dict[str, Any] = field(default_factory=dict)
    is_needed: bool = True


class HealthLogFilter(logging.Filter):
    """Filter that keeps the 503 of `/healthz` out of Django's error log.

    The view itself logs the failed checks by name.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        path = getattr(getattr(record, "request", None), "path", None)
        return getattr(record, "status_code", None) != 503 or path != "/healthz"


_checks: dict[str, Callable[[], Health]] = {}


def health_check(name: str, check: Callable[[], Health]) -> None:
    """Register a check, shown under `name`."""
    _checks[name] = check


def health_now() -> dict[str, Health]:
    """Run every check.

    One that raises counts as failed, with the error's name.
    """
    results: dict[str, Health] = {}
    for name, check in _checks.items():
        try:
            results[name] = check()
        except Exception as error:  # a health page must respond after any error
            results[name] = Health(False, {"error": type(error).__name__})
    return results


_ANSWERS_WITHIN_S = 2.0


def _database() -> Health:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return Health(True, {"vendor": connection.vendor})


def _channel_layer() -> Health:
    layer = get_channel_layer()

    async def there_and_back() -> bool:
        # A full or read-only Redis rejects messages or loses them.
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            return await send_and_receive()

    async def send_and_receive() -> bool:
        channel = await layer.new_channel()
        await layer.send(channel, {"type": "health"})
        return (await layer.receive(channel))["type"] == "health"

    return Health(async_to_sync(there_and_back)())


def _restore() -> Health:
    marker = read_restore_marker()
    return Health(marker is None, {"problem": marker.describe()} if marker else {})


health_check("database", _database)
health_check("restore", _restore)
health_check("channel_layer", _channel_layer)


_SAID_EVERY_S = 60.0


def redis_errors() -> tuple[type[Exception], ...]:
    """Return the errors of an unavailable Redis.

    Redis is imported only here, because importing it takes a tenth of a command's start-up time.
    """
    from redis.exceptions import RedisError

    return OSError, RedisError


def is_redis_up() -> bool | None:
    """Return True if Redis responds and accepts writes.

    None if none is used.
    """
    if not settings.REDIS_URL:
        return None
    from redis import Redis

    client = Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=_ANSWERS_WITHIN_S, socket_timeout=_ANSWERS_WITHIN_S
    )
    try:
        return bool(client.set(f"{settings.CHANNEL_PREFIX}health", 1, ex=60))
    except redis_errors():
        return False
    finally:
        client.close()


class RedisOutageFilter(logging.Filter):
    """Filter that logs an unavailable Redis once a minute, in one line.

    Listeners retry every second and would log a full traceback each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        known = sys.modules.get("redis.exceptions")  # no error can come from Redis
        if known is None or not isinstance(error, known.RedisError):
            return True
        now = time.monotonic()
        if now - self._said_at.get(record.name, -_SAID_EVERY_S) < _SAID_EVERY_S:
            return False
        self._said_at[record.name] = now
        record.msg, record.args = f"{record.getMessage()}: {error}", ()
        record.exc_info = None
        return True


# The process's row has the start time of the series.
disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
"""Registry of this process; libraries may use the client's default one."""

_REPLY_S = (0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)

REQUESTS = Histogram(
    "confab_request_duration_seconds",
    "Response time of pages and API calls, by part of Confab and status class.",
    ["part", "status"],
    buckets=(0.025, 0.05, 0.1, 0.3, 1, 3, 10),
    registry=registry,
)
SENT_AWAY = Counter(
    "confab_requests_sent_away", "Requests rejected because no thread became free in time.", registry=registry
)
REPLIES = Counter("confab_replies", "Bot replies to participants that were stored.", ["bot"], registry=registry)
REPLY_WHOLE = Histogram(
    "confab_reply_duration_seconds",
    "Time from a message to the complete reply.",
    ["bot"],
    buckets=_REPLY_S,
    registry=registry,
)
REPLY_FIRST = Histogram(
    "confab_reply_first_token_seconds",
    "Time from a message to the first words of the reply.",
    ["bot"],
    buckets=_REPLY_S,
    registry=registry,
)
REPLY_FAILURES = Counter(
    "confab_reply_failures",
    "Replies that failed, because the bot was busy or raised an error.",
    ["bot", "why"],
    registry=registry,
)

Stored = dict[str, list[tuple[str, dict[str, str], float]]]
"""Samples by family: name, labels and value."""


def samples_now() -> Stored:
    """Return this process's counts as JSON values.

    Families without a sample are left out.
    """
    return {
        family.name: [(sample.name, dict(sample.labels), sample.value) for sample in family.samples]
        for family in registry.collect()
        if family.samples
    }
