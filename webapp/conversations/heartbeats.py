"""Writes of bot hosts' signs of life."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from webapp.conversations.models import BotHostHeartbeat


def heartbeat_store(*, host_id: UUID, pool: str, bots: dict[str, Any]) -> None:
    """Note that a bot host lives and what it has loaded; forget hosts silent for a day."""
    now = timezone.now()
    BotHostHeartbeat.objects.update_or_create(
        host_id=host_id, defaults={"pool": pool, "beat_at": now, "bots": bots}
    )
    BotHostHeartbeat.objects.filter(beat_at__lt=now - timedelta(days=1)).delete()


def heartbeat_end(*, host_id: UUID) -> None:
    """Remove the heartbeat of a bot host that stopped in order."""
    BotHostHeartbeat.objects.filter(host_id=host_id).delete()
