"""The state of a bot in words: by the registry, by the bot hosts, and by its replies to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from webapp.bots.selectors import BotEntry


@dataclass(frozen=True, slots=True)
class BotState:
    """Words, colour, what is wrong (empty if nothing is), and whether people are given the bot."""

    words: str
    tone: str
    reason: str
    is_offered: bool

    @property
    def is_well(self) -> bool:
        """Whether people are given it and its latest reply worked, as far as is known."""
        return self.is_offered and not self.reason


def bot_state(entry: BotEntry, reports: Mapping[str, Mapping[str, Any]]) -> BotState:
    """Return the worst that is known of the bot.

    Args:
        reports: what the living bot hosts report, by bot.
    """
    report = reports.get(entry.id, {})
    if entry.reason:
        return BotState(_("Unavailable"), "bad", entry.reason, is_offered=False)
    if report.get("state") == "unavailable":
        reason = report.get("reason") or _("the bot host could not load it")
        return BotState(_("Unavailable"), "bad", reason, is_offered=False)
    if entry.is_set_aside:
        return BotState(_("Set aside"), "bad", entry.trouble, is_offered=False)
    if entry.trouble:
        return BotState(_("Failing"), "warn", entry.trouble, is_offered=True)
    if report.get("state") in ("loaded", "ready"):
        return BotState(_("Loaded"), "good", "", is_offered=True)
    return BotState(_("Ready to load"), "", "", is_offered=True)
