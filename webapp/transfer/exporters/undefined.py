"""One row per metric value that is undefined, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.languages import other_language
from webapp.runs.models import MetricResult
from webapp.transfer.exporters.base import (
    CHUNK,
    CONVERSATION_COLUMNS,
    ExportColumn,
    ExportOptions,
    Source,
    included,
    register_exporter,
    study_key,
)
from webapp.transfer.exporters.metrics import measured

_COLUMNS = (
    *CONVERSATION_COLUMNS,
    ExportColumn("metric", "text", "The empty column of the table metrics."),
    ExportColumn("reason", "text", "Why it has no value there."),
    ExportColumn(
        "code",
        "text",
        "The same for programs, where the reason has a code: other_language for a metric that does not hold for the "
        "language of the conversation.",
    ),
    ExportColumn(
        "details",
        "json",
        "The code with what belongs to it: the conversation's language, and those that the metric holds for.",
    ),
)


def _told(found: str | Mapping[str, Any]) -> tuple[str, str]:
    """Return a reason in words, and its code where it has one: as yet a metric is left out for its languages alone."""
    if isinstance(found, str):
        return found, ""
    return str(other_language(found["language"], found["holds"])), found["code"]


@register_exporter
class Undefined:
    name = packaged = "undefined"
    title = "Undefined metrics"
    description = "One row per metric value that is undefined, with the reason."
    of_runs = True
    is_searched = True

    def columns(self, study: Source, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Source, options: ExportOptions) -> Iterator[Sequence[Any]]:
        found = MetricResult.objects.filter(
            included(study, options, prefix="conversation__"),
            metric__in=[version.pk for version, _ in measured(study, "conversation")],
        ).exclude(reasons={})
        rows = found.order_by("conversation__created_at", "conversation_id", "metric__name")
        for chat, bot, is_synthetic, values, reasons in rows.values_list(
            "conversation_id",
            "conversation__bot__bot_id",
            "conversation__is_synthetic",
            "values",
            "reasons",
        ).iterator(chunk_size=CHUNK):
            for name in sorted(reasons):
                if values.get(name) is None:
                    told = _told(reasons[name])
                    details = None if isinstance(reasons[name], str) else reasons[name]
                    yield [str(chat), bot, study_key(study), is_synthetic, name, *told, details]
