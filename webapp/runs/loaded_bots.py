"""Bots that a worker's process has loaded; those that it needs no longer make room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.bots.selectors import bot_find

if TYPE_CHECKING:
    from chatbots.base import Bot

_loaded: dict[str, Bot] = {}


def bots_loaded(needed: Sequence[str]) -> list[Bot]:
    """Return these bots, loaded once a process.

    Raises:
        BotError: if one cannot be loaded.
    """
    from chatbots.registry import bot_load

    wanted = {bot_id: bot_find(bot_id) for bot_id in needed}
    # One that is no longer registered, or registered again, is unloaded too.
    for bot_id in [bot_id for bot_id, bot in _loaded.items() if bot is not wanted.get(bot_id)]:
        _loaded.pop(bot_id).unload()
    for bot_id in wanted:
        if bot_id not in _loaded:
            _loaded[bot_id] = bot_load(bot_id, settings.CONFAB_DEVICE)
    return [_loaded[bot_id] for bot_id in needed]
