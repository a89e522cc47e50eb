"""Reads about bots: which there are here, and where they run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from chatbots.base import Bot
from chatbots.registry import bot_get, bot_list


@dataclass(frozen=True)
class BotEntry:
    """A bot as lists show it."""

    id: str
    name: str
    kind: str
    is_control: bool
    available: bool
    reason: str | None
    params: dict


@cache
def bots_discover() -> None:
    """Register the configured bots of `CONFAB_BOTS`, once a process."""
    if Path(settings.CONFAB_BOTS).exists():
        from chatbots.configured import configured_register

        configured_register(Path(settings.CONFAB_BOTS))


def bot_entry_list() -> list[BotEntry]:
    """Every registered bot, by name."""
    bots_discover()
    return [bot_entry(bot) for bot in bot_list()]


def bot_entry(bot: Bot) -> BotEntry:
    """One bot as lists show it."""
    reason = bot.unavailable_reason()
    return BotEntry(
        id=bot.name,
        name=bot.title,
        kind=bot.kind,
        is_control=bot.is_control,
        available=reason is None,
        reason=reason,
        params=dict(bot.identity.params),
    )


def bot_find(bot_id: str) -> Bot:
    """The registered bot.

    Raises:
        UnknownName: with the nearest names.
    """
    bots_discover()
    return bot_get(bot_id)


def bot_available_ids(bot_ids: list[str]) -> list[str]:
    """Those of `bot_ids` that can be offered to people now, in the same order."""
    entries = {entry.id: entry for entry in bot_entry_list()}
    return [bot_id for bot_id in bot_ids if bot_id in entries and entries[bot_id].available]


def bot_pool(bot_id: str) -> str:
    """The pool of bot hosts that serves this bot."""
    return settings.CONFAB_BOT_POOLS.get(bot_id, "default")


def bot_pools() -> list[str]:
    """All pools, "default" first."""
    return ["default", *sorted(set(settings.CONFAB_BOT_POOLS.values()) - {"default"})]
