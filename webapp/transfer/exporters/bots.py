"""One row per identity of a bot that the study's conversations were held with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Count

from chatbots.registry import bots as registry
from webapp.bots.models import BotVersion
from webapp.bots.selectors import bot_card, bots_discover
from webapp.conversations.models import Conversation
from webapp.ratings.selectors import study_bots
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, Source, register_exporter, shown

_COLUMNS = (
    ExportColumn("bot_version", "text", "Key of the identity, as in the table conversations."),
    ExportColumn("bot", "text", "Id of the bot."),
    ExportColumn("title", "text", "Its name for people."),
    ExportColumn("kind", "text", "Its family: rules, retrieval, checkpoint, endpoint and so on."),
    ExportColumn("version", "text", "Version of the code that answered."),
    ExportColumn("settings", "json", "All that decides what it says, with digests of what it has learned."),
    ExportColumn("is_control", "boolean", "A deliberately poor bot, left out of rankings."),
    ExportColumn("n_conversations", "integer", "Conversations with this identity."),
    ExportColumn(
        "description",
        "text",
        "What the bot is, in a sentence.",
        missing="A bot of this identity is not registered here now.",
    ),
    ExportColumn("card", "text", "Its model card, as Markdown.", missing="It has none, or is not registered here now."),
)


@register_exporter
class BotsTable:
    name = packaged = "bots"
    title = "Bots"
    description = "One row per bot as it was when people met it: version, settings, digests, card."
    is_small = True
    of_runs = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        held = Conversation.objects.filter(shown(study, options)).order_by()
        counted = dict(held.values_list("bot").annotate(n=Count("pk")))
        bots_discover()
        here = {bot.name: bot for bot in registry}
        marked = {bot for bot, info in study_bots(study).items() if info.is_control} if isinstance(study, Study) else ()
        for row in BotVersion.objects.filter(pk__in=counted).order_by("bot_id", "key"):
            bot = here.get(row.bot_id)
            if bot is not None and bot.identity.key != row.key:
                bot = None  # of the same name, but another
            yield [
                row.key,
                row.bot_id,
                row.title,
                row.kind,
                row.version,
                _sorted(row.params),
                row.is_control or row.bot_id in marked,
                counted[row.pk],
                bot.description if bot else None,
                bot_card(bot) if bot else None,
            ]


def _sorted(value: Any) -> Any:
    """Return JSON values with sorted keys, whose order differs between databases."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value
