"""The state of a bot in words: by the registry, by the bot hosts, and by its replies to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef

from webapp.bots.models import BotVersion
from webapp.bots.selectors import BotEntry
from webapp.conversations.models import Conversation
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study


@dataclass(frozen=True, slots=True)
class BotState:
    """Words, colour, what is wrong (empty if nothing is), and whether people are given the bot."""

    words: str
    tone: str
    reason: str
    is_offered: bool

    @property
    def is_well(self) -> bool:
        """True if participants can get the bot and its latest known reply did not fail."""
        return self.is_offered and not self.reason


def bot_state(entry: BotEntry, reports: Mapping[str, Mapping[str, Any]]) -> BotState:
    """Return the worst that is known of the bot.

    Args:
        reports: what the living bot hosts report, by bot.
    """
    report = reports.get(entry.id, {})
    if entry.reason:
        return BotState("Unavailable", "bad", entry.reason, is_offered=False)
    if report.get("state") == "unavailable":
        reason = report.get("reason") or "the bot host could not load it"
        return BotState("Unavailable", "bad", reason, is_offered=False)
    if entry.is_set_aside:
        return BotState("Set aside", "bad", entry.trouble, is_offered=False)
    if entry.trouble:
        return BotState("Failing", "warn", entry.trouble, is_offered=True)
    if report.get("state") in ("loaded", "ready"):
        return BotState("Loaded", "good", "", is_offered=True)
    return BotState("Ready to load", "", "", is_offered=True)


@dataclass(frozen=True, slots=True)
class BotRole:
    """Role of a bot in a study: control or not.

    Attributes:
        is_marked: marked as a control on the bot's page, or by an import.
        otherwise: other places that name it a control, in words; empty without any.
    """

    study: Study
    is_marked: bool
    otherwise: str


def roles_of_bot(bot_id: str) -> list[BotRole]:
    """Return the bot's role in every study with conversations of it."""
    versions = BotVersion.objects.filter(bot_id=bot_id)
    own = Conversation.objects.filter(study=OuterRef("pk"), bot__in=versions).order_by()
    by_code = "in the bot’s own code" if versions.filter(is_control=True).exists() else ""
    found = []
    for study in Study.objects.filter(Exists(own)).order_by("name"):
        columns = BotColumns.from_json(study.bot_columns)
        by_table = "in the study’s table of bots" if bot_id in columns.control else ""
        found.append(BotRole(study, bot_id in columns.marked, by_code or by_table))
    return found
