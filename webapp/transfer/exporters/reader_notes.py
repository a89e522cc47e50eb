"""One row per star, tag or note that readers left at a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.reading.models import Note
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

_KINDS = (("star", "A star"), ("tag", "A tag"), ("note", "A note"))
_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("kind", "text", "What was left.", _KINDS),
    ExportColumn("text", "text", "The tag or the note.", missing="It is a star."),
    ExportColumn(
        "author",
        "text",
        "User name of the member of staff who left it.",
        missing="The account is gone.",
        is_private=True,
    ),
    ExportColumn("created_at", "time", "When it was left."),
)


@register_exporter
class ReaderNotes:
    name = packaged = "reader_notes"
    title = "Readers’ notes"
    description = "One row per star, tag or note that readers left at a conversation."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        rows = Note.objects.filter(shown(study, options, prefix="conversation__"))
        for conversation_id, bot, is_synthetic, *rest in (
            rows.order_by("conversation_id", "pk")
            .values_list(
                "conversation_id",
                "conversation__bot__bot_id",
                "conversation__is_synthetic",
                "kind",
                "text",
                "author__username",
                "created_at",
            )
            .iterator(chunk_size=CHUNK)
        ):
            yield [str(conversation_id), bot, study_key(study), is_synthetic, *rest]
