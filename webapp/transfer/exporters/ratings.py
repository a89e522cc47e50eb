"""One row per rating, a column per rubric dimension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Q

from webapp.ratings.models import Rating
from webapp.studies.completion import completion_shown
from webapp.studies.models import Dimension, Outcome, Study
from webapp.transfer.exporters.base import (
    CHUNK,
    STUDY_COLUMNS,
    ExportColumn,
    ExportOptions,
    included,
    rater_of,
    register_exporter,
)

_BEFORE = (
    ExportColumn("rating", "integer", "Number of the rating."),
    ExportColumn("conversation", "text", "Id of the conversation that was rated."),
    ExportColumn("bot", "text", "Id of the bot in the conversation."),
    ExportColumn("bot_version", "text", "Key of the bot's identity: name, version, parameters."),
    ExportColumn(
        "rater", "text", "Who rated: the name in imported data, else the participant's random id."
    ),
    ExportColumn(
        "n_exchanges", "integer", "Human turns that the bot answered in the conversation."
    ),
    *STUDY_COLUMNS,
)
_AFTER = (
    ExportColumn("comment", "text", "The rater's free comment."),
    ExportColumn("submitted_at", "time", "When the rating was submitted, or imported."),
)
_PRIVATE = (
    ExportColumn("platform", "text", "Recruitment platform of the participant."),
    ExportColumn("external_id", "text", "The participant's id on that platform. Private."),
    ExportColumn("completion_code", "text", "The code the participant was shown. Private."),
)


@register_exporter
class Ratings:
    name = "ratings"
    title = "Ratings"
    description = "One row per rating, with a column per question of the rubric."

    def columns(self, study: Study, options: ExportOptions) -> Sequence[ExportColumn]:
        dimensions = [column for _, column in self._dimensions(study)]
        return [*_BEFORE, *dimensions, *_AFTER, *(_PRIVATE if options.include_private else ())]

    def count(self, study: Study, options: ExportOptions) -> int:
        return Rating.objects.filter(included(study, options, prefix="conversation__")).count()

    def rows(self, study: Study, options: ExportOptions) -> Iterator[Sequence[Any]]:
        keys = [key for key, _ in self._dimensions(study)]
        ratings = Rating.objects.filter(included(study, options, prefix="conversation__"))
        fields = [
            "id",
            "conversation_id",
            "conversation__bot__bot_id",
            "conversation__bot__key",
            "rater",
            "participant_id",
            "conversation__n_exchanges",
            "conversation__is_synthetic",
            "answers",
            "comment",
            "submitted_at",
        ]
        if options.include_private:
            fields += [
                "participant__platform",
                "participant__external_id",
                "conversation__slot__task__completion_code",
            ]
        found = ratings.order_by("id").values_list(*fields)
        for (
            number,
            conversation_id,
            bot,
            bot_version,
            rater,
            participant_id,
            n_exchanges,
            is_synthetic,
            answers,
            comment,
            submitted_at,
            *private,
        ) in found.iterator(chunk_size=CHUNK):
            yield [
                number,
                str(conversation_id),
                bot,
                bot_version,
                rater_of(rater, participant_id),
                n_exchanges,
                study.key,
                is_synthetic,
                *(answers.get(key) for key in keys),
                comment,
                submitted_at,
                *(_private_cells(study, *private) if private else ()),
            ]

    def _dimensions(self, study: Study) -> list[tuple[str, ExportColumn]]:
        taken = {column.name for column in (*_BEFORE, *_AFTER, *_PRIVATE)}
        found = []
        seen: set[str] = set()
        for dimension in _dimensions_of(study):
            if dimension.key in seen:
                continue
            seen.add(dimension.key)
            low, high = dimension.scale
            name = f"answer_{dimension.key}" if dimension.key in taken else dimension.key
            inferred = ", read off the data" if dimension.rubric.scale_inferred else ""
            ends = " – ".join(filter(None, [dimension.low_label, dimension.high_label]))
            text = (
                f"{dimension.question} {low:g} to {high:g}{inferred}{f' ({ends})' if ends else ''}."
            )
            found.append((dimension.key, ExportColumn(name, "number", text)))
        return found


def _dimensions_of(study: Study) -> list[Dimension]:
    """Return the questions of the study's rubric, then those of versions that were answered before."""
    answered = Rating.objects.filter(conversation__study=study).values("rubric")
    found = Dimension.objects.filter(Q(rubric__in=answered) | Q(rubric=study.rubric_id))
    return sorted(
        found.select_related("rubric"),
        key=lambda d: (d.rubric_id != study.rubric_id, -d.rubric_id, d.position, d.pk),
    )


def _private_cells(
    study: Study, platform: str | None, external_id: str | None, own_code: str | None
) -> tuple[str | None, str | None, str | None]:
    """Return the person's ids on the platform that sent them, and the code they were shown after rating."""
    shown = completion_shown(
        study=study, platform=platform or "", outcome=Outcome.RATED, own_code=own_code or ""
    )
    return platform, external_id, shown.code if own_code else None
