"""The bot hosts' part of the health page."""

from __future__ import annotations

from collections import Counter

from django.conf import settings

from webapp.bots.selectors import bot_entry_list
from webapp.conversations.bot_host import bots_of_running_studies, runtime_existing
from webapp.conversations.selectors import heartbeat_ages_s
from webapp.core.health import Health


def bots_health() -> Health:
    """Return the ages of the last heartbeats and, embedded, whether the running studies' bots are loaded and how busy.

    It names no bot: participants can open the page, and must not learn which one is loading, or busy, as they write.

    A bot host in a process of its own that is silent does not make a web process unhealthy: people can
    still write, and their replies come when the host is back.
    """
    details: dict[str, object] = {"heartbeat_age_s": heartbeat_ages_s()}
    if not settings.CONFAB_BOT_HOST_IN_PROCESS:
        return Health(True, details)
    runtime = runtime_existing()
    if runtime is None:
        return Health(False, {**details, "error": "the bot host has not started"})
    numbers = runtime.host.load_numbers()
    states = {
        bot_id: numbers.get(bot_id, {}).get("state", "not loaded")
        for bot_id in bots_of_running_studies(None)
    }
    # An unregistered bot is a study's mistake, not this process's; no participant gets it.
    known = {entry.id for entry in bot_entry_list()}
    states = {bot: state if bot in known else "unknown" for bot, state in states.items()}
    # One that could not be loaded is tried again now and then; it keeps its reason until it is ready.
    retried = {
        bot for bot in states if states[bot] == "loading" and numbers.get(bot, {}).get("reason")
    }
    ok = all(
        state in ("ready", "unloaded", "unavailable", "unknown") or bot in retried
        for bot, state in states.items()
    )
    load = runtime.host.totals()
    return Health(
        ok,
        {
            **details,
            "states": dict(Counter(states.values())),
            "load": {**load, "busy": len(load["busy"])},
        },
    )
