"""The data dictionary: what every column of every table means, taken from the tables themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    ExportColumn,
    ExportOptions,
    exporter_list,
    register_exporter,
)

_COLUMNS = (
    ExportColumn("table", "text", "The exported table."),
    ExportColumn("column", "text", "Its column."),
    ExportColumn("type", "text", "text, integer, number, boolean, time (UTC) or json."),
    ExportColumn("description", "text", "What the column means."),
)


@register_exporter
class Dictionary:
    name = "dictionary"
    title = "Data dictionary"
    description = "One row per column of all tables, with its meaning."
    is_small = True

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for exporter in exporter_list():
            for column in exporter.columns(study, options):
                yield [exporter.name, column.name, column.type, column.description]
