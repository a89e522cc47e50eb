"""One row per question about an item that a participant rated twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.ratings.repeats import repeats_answered
from webapp.studies.models import Study
from webapp.transfer.exporters.base import (
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    register_exporter,
)

_COLUMNS = (
    ExportColumn("item", "text", "Name of the item, as in the table ratings."),
    ExportColumn(
        "rater", "text", "The participant's random id, as in the table ratings.", is_person=True
    ),
    *STUDY_COLUMNS,
    ExportColumn("question", "text", "Key of the question."),
    ExportColumn("first", "number", "The answer that counts, as in the table ratings."),
    ExportColumn("second", "number", "The answer when the item came again; it counts nowhere."),
    ExportColumn("same", "boolean", "Both are the same."),
)


@register_exporter
class Repeats:
    name = packaged = "repeats"
    title = "Items judged twice"
    description = "One row per question about an item that somebody judged twice in one go, with both answers."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        found = repeats_answered(
            study, include_synthetic=options.include_synthetic, without=options.without
        )
        for one in found:
            for key in sorted(one.first.keys() & one.second.keys()):
                first, second = one.first[key], one.second[key]
                rater = str(one.person)
                own = [one.item, rater, study.key, one.is_synthetic]
                yield [*own, key, first, second, first == second]
