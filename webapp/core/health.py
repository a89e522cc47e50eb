"""Health: every app adds its own check in `AppConfig.ready()`; `/healthz` runs them all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import connection


@dataclass(frozen=True)
class Health:
    """One check's answer: `ok` False makes the whole answer 503."""

    ok: bool
    details: dict[str, Any] = field(default_factory=dict)


class HealthAnswers(logging.Filter):
    """Keeps the 503 of `/healthz` out of Django's log of errors.

    A process that is still loading its bots is no error; what is one, the view logs with its name.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        path = getattr(getattr(record, "request", None), "path", None)
        return getattr(record, "status_code", None) != 503 or path != "/healthz"


_checks: dict[str, Callable[[], Health]] = {}


def health_check(name: str, check: Callable[[], Health]) -> None:
    """Add a check, shown under `name`."""
    _checks[name] = check


def health_now() -> dict[str, Health]:
    """Run every check; one that raises counts as failed, with the error's name."""
    results: dict[str, Health] = {}
    for name, check in _checks.items():
        try:
            results[name] = check()
        except Exception as error:  # a health page must answer whatever breaks
            results[name] = Health(False, {"error": type(error).__name__})
    return results


def _database() -> Health:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return Health(True, {"vendor": connection.vendor})


def _channel_layer() -> Health:
    layer = get_channel_layer()

    async def there_and_back() -> bool:
        channel = await layer.new_channel()
        await layer.send(channel, {"type": "health"})
        return (await layer.receive(channel))["type"] == "health"

    return Health(async_to_sync(there_and_back)())


health_check("database", _database)
health_check("channel_layer", _channel_layer)
