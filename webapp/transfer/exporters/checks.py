"""One row per attention check that somebody answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from webapp.quality.selectors import left_out
from webapp.ratings.checks import checks_of
from webapp.ratings.models import Rating
from webapp.studies.models import Item, Outcome, Study
from webapp.transfer.exporters.base import (
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    register_exporter,
)

_COLUMNS = (
    ExportColumn("check", "text", "Name of the attention check."),
    ExportColumn(
        "rater", "text", "The participant's random id, as in the table ratings.", is_person=True
    ),
    *STUDY_COLUMNS,
    ExportColumn("expected", "json", "Answers that pass, by question."),
    ExportColumn("answers", "json", "Answers that were given, by question."),
    ExportColumn("passed", "boolean", "Every answer was among those that pass."),
    ExportColumn(
        "outcome",
        "text",
        "How the task ended; failed_check: its ratings are left out unless asked for.",
    ),
    ExportColumn("submitted_at", "time", "When it was answered."),
)


@register_exporter
class Checks:
    name = packaged = "checks"
    title = "Attention checks"
    description = "One row per attention check that somebody answered, with whether it was passed."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        return _COLUMNS

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        for checked in checks_of(_included(study, options).select_related("participant")):
            rating = checked.rating
            assert rating.item is not None
            assert rating.participant is not None
            yield [
                rating.item.key,
                str(rating.participant_id),
                study.key,
                rating.participant.is_synthetic,
                checked.expected,
                rating.answers,
                checked.passed,
                rating.task.outcome if rating.task else "",
                rating.submitted_at,
            ]


def _included(study: Study, options: ExportOptions) -> QuerySet[Rating]:
    found = Rating.objects.filter(
        left_out(study, options.without), item__study=study, item__purpose=Item.Purpose.CHECK
    )
    found = found.exclude(task__outcome=Outcome.WITHDRAWN)
    return found if options.include_synthetic else found.filter(participant__is_synthetic=False)
