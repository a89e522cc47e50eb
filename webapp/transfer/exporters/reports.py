"""One row per report of a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from webapp.conversations.models import Conversation, ReplyReport
from webapp.quality.selectors import left_out
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    CHUNK,
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    register_exporter,
)

_REASONS = tuple((value, str(label)) for value, label in ReplyReport.Reason.choices)
_COLUMNS = (
    ExportColumn("participant", "text", "Random id of who reported it.", is_person=True),
    *STUDY_COLUMNS,
    ExportColumn("conversation", "text", "Id of the reply's conversation; empty for an item's."),
    ExportColumn("turn", "integer", "Number of the reply in it, from 0."),
    ExportColumn("item", "text", "Name of the item; empty for a reply of a conversation."),
    ExportColumn("response", "integer", "Which of the item's replies, from 0."),
    ExportColumn("bot", "text", "Id of the bot, or the item's name for the model."),
    ExportColumn("reason", "text", "What is wrong with it, as chosen.", _REASONS),
    ExportColumn("words", "text", "What the person wrote."),
    ExportColumn("created_at", "time", "When it was first reported."),
    ExportColumn("seen_at", "time", "When staff said that they had seen it; empty so far."),
)


@register_exporter
class Reports:
    name = packaged = "reports"
    title = "Reports of replies"
    description = "One row per reply that somebody reported, with the reason and their words."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for one in _included(study, options).iterator(chunk_size=CHUNK):
            turn, item = one.turn, one.item
            bot = turn.conversation.bot.bot_id if turn else ""
            if item is not None and one.response is not None and one.response < len(item.responses):
                bot = item.responses[one.response].get("model") or ""
            yield [
                str(one.participant_id),
                study.key,
                one.participant.is_synthetic,
                str(turn.conversation_id) if turn else "",
                turn.index if turn else None,
                item.key if item else "",
                one.response,
                bot,
                one.reason,
                one.words,
                one.created_at,
                one.seen_at,
            ]


def _included(study: Study, options: ExportOptions) -> QuerySet[ReplyReport]:
    found = ReplyReport.objects.filter(left_out(study, options.without), participant__study=study)
    found = found.exclude(turn__conversation__state=Conversation.State.WITHDRAWN)
    if not options.include_synthetic:
        found = found.filter(participant__is_synthetic=False)
    return found.select_related("participant", "turn__conversation__bot", "item").order_by("pk")
