"""Writes of bot identities."""

from __future__ import annotations

from chatbots import Identity
from chatbots.base import Bot
from webapp.bots.models import BotVersion


def bot_version_record(*, bot: Bot) -> BotVersion:
    """The row of this bot as it is now, made on first use."""
    identity = bot.identity
    version, _ = BotVersion.objects.get_or_create(
        key=identity.key,
        defaults={
            "bot_id": bot.name,
            "title": bot.title,
            "kind": bot.kind,
            "version": identity.version,
            "params": dict(identity.params),
            "is_control": bot.is_control,
        },
    )
    return version


def bot_version_record_imported(*, bot_id: str, source: str) -> BotVersion:
    """The row of a bot known only by name from imported conversations of `source`."""
    identity = Identity(bot_id, "imported", {"source": source})
    version, _ = BotVersion.objects.get_or_create(
        key=identity.key,
        defaults={
            "bot_id": bot_id,
            "title": bot_id,
            "kind": "imported",
            "version": identity.version,
            "params": dict(identity.params),
        },
    )
    return version
