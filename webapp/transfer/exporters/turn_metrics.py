"""One row per utterance with what the metrics found in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from webapp.conversations.models import Turn
from webapp.runs.models import MetricResult
from webapp.transfer.exporters.base import (
    CONVERSATION_COLUMNS,
    SPEAKERS,
    ExportColumn,
    ExportOptions,
    Source,
    conversations_included,
    register_exporter,
    study_key,
)
from webapp.transfer.exporters.metrics import measured

CHUNK = 200
_BEFORE = (
    *CONVERSATION_COLUMNS,
    ExportColumn("turn", "integer", "Number of the utterance in its conversation, from 0."),
    ExportColumn("speaker", "text", "human or bot.", SPEAKERS),
)


@register_exporter
class TurnMetrics:
    name = packaged = "turn_metrics"
    title = "Metrics per message"
    description = (
        "One row per utterance of measured conversations, with a column per metric column."
    )
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return [*_BEFORE, *(column for _, columns in measured(study, "turn") for column in columns)]

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        chosen = measured(study, "turn")
        names = [column.name for _, columns in chosen for column in columns]
        versions = [version.pk for version, _ in chosen]
        conversations = (
            conversations_included(study, options)
            .values_list("pk", "bot__bot_id", "is_synthetic")
            .iterator(chunk_size=CHUNK)
        )
        while chunk := {pk: rest for pk, *rest in islice(conversations, CHUNK)}:
            results = MetricResult.objects.filter(conversation__in=list(chunk), metric__in=versions)
            values: dict[Any, dict[str, list[Any]]] = {}
            for pk, found in results.values_list("conversation_id", "turns"):
                values.setdefault(pk, {}).update(found)
            turns = Turn.objects.filter(conversation__in=list(values))
            for pk, index, speaker in turns.order_by("conversation_id", "index").values_list(
                "conversation_id", "index", "speaker"
            ):
                of = values[pk]
                bot, is_synthetic = chunk[pk]
                yield [
                    str(pk),
                    bot,
                    study_key(study),
                    is_synthetic,
                    index,
                    speaker,
                    *(
                        of[name][index] if name in of and index < len(of[name]) else None
                        for name in names
                    ),
                ]
