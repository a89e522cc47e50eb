"""One row per item to rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.studies.models import Study
from webapp.studies.selectors import items_judged
from webapp.transfer.exporters.base import CHUNK, ExportColumn, ExportOptions, register_exporter
from webapp.transfer.exporters.for_raters import item_code, reply_codes

_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn(
        "bot", "text", "Model of its reply; of several replies that of each, in their order."
    ),
    ExportColumn("context", "json", "What was said before, oldest first."),
    ExportColumn("responses", "json", "The replies that are judged."),
    ExportColumn("reference", "text", "A reply that a person wrote, if there is one."),
    ExportColumn("reference_score", "number", "How the reference was rated before."),
    ExportColumn("task", "text", "What kind of talk it is from."),
    ExportColumn("panel", "json", "What is shown beside it: persona, emotion, topic."),
    ExportColumn("code", "text", "Stands for the item in the table for_raters."),
    ExportColumn("reply_codes", "json", "Stand for its replies there, in their order here."),
)


@register_exporter
class Items:
    name = packaged = "items"
    title = "Items"
    description = "One row per item that people judge, with its context and replies."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for item in items_judged(study).order_by("pk").iterator(chunk_size=CHUNK):
            yield [
                item.key,
                " ".join(one.get("model") or "" for one in item.responses).strip(),
                item.context,
                [one["text"] for one in item.responses],
                item.reference,
                item.reference_score,
                item.task,
                item.panel,
                item_code(study, item.key),
                reply_codes(study, item.key, len(item.responses)),
            ]
