"""One row per utterance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.conversations.models import Turn
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    CHUNK,
    ExportColumn,
    ExportOptions,
    included,
    register_exporter,
)

_COLUMNS = (
    ExportColumn("conversation", "text", "Id of the conversation."),
    ExportColumn("state", "text", "Of the conversation: open, completed or failed."),
    ExportColumn("bot", "text", "Id of the bot in the conversation."),
    ExportColumn("turn", "integer", "Number of the utterance in its conversation, from 0."),
    ExportColumn("speaker", "text", "human or bot."),
    ExportColumn("text", "text", "What was said."),
    ExportColumn("vote", "integer", "The participant's vote on a bot turn: -1, 0 or 1."),
    ExportColumn(
        "latency_ms", "integer", "Milliseconds from storing the message to storing this reply."
    ),
    ExportColumn("created_at", "time", "When the utterance was stored."),
)


@register_exporter
class Messages:
    name = "messages"
    title = "Messages"
    description = "One row per utterance, with votes and the time a reply took."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        turns = Turn.objects.filter(included(study, options, prefix="conversation__"))
        for conversation_id, *rest in (
            turns.order_by("conversation_id", "index")
            .values_list(
                "conversation_id",
                "conversation__state",
                "conversation__bot__bot_id",
                "index",
                "speaker",
                "text",
                "vote",
                "latency_ms",
                "created_at",
            )
            .iterator(chunk_size=CHUNK)
        ):
            yield [str(conversation_id), *rest]
