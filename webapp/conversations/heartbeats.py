"""Queries for bot hosts' heartbeats and loaded bots."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from webapp.conversations.models import BotHostHeartbeat
from webapp.core.clock import database_now


def heartbeat_ages_s() -> dict[str, float]:
    """Return the seconds since the newest heartbeat of each pool's bot hosts."""
    now = database_now()
    ages: dict[str, float] = {}
    for pool, beat_at in BotHostHeartbeat.objects.values_list("pool", "beat_at"):
        age = round((now - beat_at).total_seconds(), 1)
        ages[pool] = min(age, ages.get(pool, age))
    return ages


def heartbeat_bots() -> dict[str, dict[str, Any]]:
    """Return the state of each bot at live hosts; the newest report wins."""
    reports: dict[str, dict[str, Any]] = {}
    since = database_now() - timedelta(seconds=30)
    for beat in BotHostHeartbeat.objects.filter(beat_at__gte=since).order_by("beat_at"):
        reports.update(beat.bots)
    return reports


def bots_unavailable_at_hosts() -> dict[str, str]:
    """Return the bots that a live host could not load, with the reason."""
    return {
        bot_id: report.get("reason") or "unavailable"
        for bot_id, report in heartbeat_bots().items()
        if report.get("state") == "unavailable"
    }
