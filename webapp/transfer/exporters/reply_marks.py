"""One row per mark that a filter left on a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.conversations.models import ReplyMark
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    ExportColumn,
    ExportOptions,
    Source,
    register_exporter,
    shown,
    study_key,
)

_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the reply in its conversation, from 0."),
    ExportColumn("filter", "text", "Name of the filter that found something."),
    ExportColumn("identity", "json", "The filter's name, version and settings."),
    ExportColumn("found", "json", "The words that it found, if it names any."),
    ExportColumn("reason", "text", "What it says of the reply."),
    ExportColumn("withheld", "boolean", "Whether the reply was therefore withheld."),
    ExportColumn("withheld_text", "text", "What the bot said, where its reply was withheld."),
    ExportColumn("created_at", "time", "When it was found."),
)


@register_exporter
class ReplyMarks:
    name = packaged = "reply_marks"
    title = "Marks of filters"
    description = "One row per filter and reply in which it found something, with the words found."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        inside = shown(study, options, prefix="turn__conversation__")
        for conversation_id, bot, is_synthetic, *rest in (
            ReplyMark.objects.filter(inside)
            .order_by("turn__conversation_id", "turn__index", "pk")
            .values_list(
                "turn__conversation_id",
                "turn__conversation__bot__bot_id",
                "turn__conversation__is_synthetic",
                "turn__index",
                "filter",
                "identity",
                "found",
                "reason",
                "is_withheld",
                "turn__withheld_text",
                "created_at",
            )
            .iterator(chunk_size=CHUNK)
        ):
            yield [str(conversation_id), bot, study_key(study), is_synthetic, *rest]
