"""One row per reply that was rated by itself, as files of rated items have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.ratings.judged import study_judged
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportColumn, ExportOptions, register_exporter

_COLUMNS = (
    ExportColumn(
        "id", "text", "Name of the item, or the conversation and the number of the reply."
    ),
    ExportColumn("source", "text", "Key of the study."),
    ExportColumn("context", "json", "What was said before, oldest first."),
    ExportColumn("response", "text", "The reply that was judged."),
    ExportColumn("reference", "text", "A reply that a person wrote, if there is one."),
    ExportColumn("model", "text", "What gave the reply."),
    ExportColumn("reference_score", "number", "How the reference was rated before."),
    ExportColumn("task", "text", "What kind of talk it is from."),
    ExportColumn("persona", "json", "Lines of a persona that were shown beside it."),
    ExportColumn("emotion", "text", "An emotion that was shown beside it."),
    ExportColumn("topic", "text", "A topic that was shown beside it."),
    ExportColumn(
        "ratings",
        "json",
        "Of each person the answers as they were given, by question, and `rater`: a pseudonym, the same in all "
        "files of the study. `vote` is 1 for a thumb up and -1 for one down.",
    ),
    ExportColumn("scale", "json", "Lowest and highest answer, where all questions share them."),
    ExportColumn("scales", "json", "Otherwise these by question."),
    ExportColumn("reversed", "json", "Questions on which a high answer is a bad one."),
)


@register_exporter
class Judged:
    name = packaged = "judged"
    title = "Judged replies"
    description = (
        "One row per reply that people judged by itself: items, marked replies and votes, for `evaluate_metrics "
        "--data`."
    )

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for item in study_judged(
            study,
            include_synthetic=options.include_synthetic,
            include_failed=options.include_failed,
            without=options.without,
        ):
            found = item.model_dump(mode="json")
            yield [found[column.name] for column in _COLUMNS]
