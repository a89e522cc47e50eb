"""The bots of a study, each with the place that fixes its mark on every page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.studies.bot_columns import BotColumns
from webapp.studies.models import Study
from webapp.studies.selectors import (
    conversations_given,
    items_given,
    judges_conversations,
    judges_items,
)

MODEL = "item__responses__0__model"
"""The way from a rating to the model whose reply an item holds."""
NO_MODEL = "(no model named)"


@dataclass(frozen=True, slots=True)
class BotInfo:
    """A bot of a study with its slot: the place that fixes its mark on every page, from 1."""

    bot_id: str
    title: str
    slot: int
    is_control: bool


def study_bots(study: Study) -> dict[str, BotInfo]:
    """Return every bot of the study, of its conversations and of items that are judged, with its slot.

    The study's own order comes first; bots met only in the data follow by name. Controls are those
    registered so, those that the study's own table of bots calls so, and those marked on their pages or by an import.
    """
    seen = _talked(Conversation.objects.filter(study=study))
    if judges_conversations(study):
        seen |= _talked(conversations_given(study))
    known = {*seen, *_models(study)} if judges_items(study) else set(seen)
    ids = list(dict.fromkeys([*study.bots, *sorted(known)]))
    registered = _registered(set(ids) - set(seen))
    columns = BotColumns.from_json(study.bot_columns)
    marked = columns.control | columns.marked
    bots = {}
    for slot, bot_id in enumerate(ids, start=1):
        row = seen.get(bot_id)
        title, control = registered.get(bot_id, (bot_id, False))
        if row is not None:
            title, control = row["title"], row["is_control"]
        bots[bot_id] = BotInfo(bot_id, title or bot_id, slot, control or bot_id in marked)
    return bots


def _talked(conversations: QuerySet[Conversation]) -> dict[str, Any]:
    """Return the bots of these conversations, by id."""
    own = conversations.filter(bot=OuterRef("pk")).order_by()
    rows = BotVersion.objects.filter(Exists(own)).order_by("bot_id", "pk")
    return {row["bot_id"]: row for row in rows.values("bot_id", "title", "is_control")}


def _models(study: Study) -> set[str]:
    """Return the models that gave the replies of the study's items."""
    items = items_given(study).order_by()
    first = items.values_list("responses__0__model", flat=True).distinct()
    others = items.filter(responses__1__isnull=False).values_list("responses__1__model", flat=True)
    return {model or NO_MODEL for model in [*first, *others.distinct()]}


def _registered(ids: set[str]) -> dict[str, tuple[str, bool]]:
    if not ids:
        return {}
    from chatbots.registry import bots as registry
    from webapp.bots.selectors import bots_discover

    bots_discover()
    return {bot.name: (bot.title, bot.is_control) for bot in registry if bot.name in ids}
