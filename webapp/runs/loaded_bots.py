"""Bots that a worker's process has loaded; those that it needs no longer make room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.bots.selectors import bot_find

if TYPE_CHECKING:
    from chatbots.base import Bot

_loaded: list[str] = []


def bots_loaded(needed: Sequence[str]) -> list[Bot]:
    """Return these bots, loaded once a process.

    Raises:
        BotError: if one cannot be loaded.
    """
    from chatbots.registry import bot_load

    for other in [bot_id for bot_id in _loaded if bot_id not in needed]:
        bot_find(other).unload()
        _loaded.remove(other)
    for bot_id in needed:
        if bot_id not in _loaded:
            bot_load(bot_id, settings.CONFAB_DEVICE)
            _loaded.append(bot_id)
    return [bot_find(bot_id) for bot_id in needed]
