"""Texts in ratings: comments and written answers, present ones and those before a change."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from webapp.ratings.models import Rating, RatingRevision
from webapp.studies.models import Study
from webapp.studies.retention import (
    TextsKind,
    answers_without,
    having_keys,
    texts_kind,
    written_keys,
)


def ratings_of(study: Study) -> QuerySet[Rating]:
    """Return all ratings given in the study, and those of its conversations and items."""
    return Rating.objects.filter(
        Q(participant__study=study)
        | Q(conversation__study=study)
        | Q(turn__conversation__study=study)
        | Q(item__study=study)
    )


def connect() -> None:
    """Add the places of this app where texts are kept."""
    texts_kind("ratings", _kind(ratings_of))
    texts_kind(
        "rating_revisions",
        _kind(lambda study: RatingRevision.objects.filter(rating__in=ratings_of(study))),
    )


def _kind(of: Any) -> TextsKind:
    def rows(study: Study) -> QuerySet[Any]:
        found = of(study)
        written = having_keys(found, "other_answers", written_keys(study))
        return found.filter(~Q(comment="") | Q(pk__in=written.values("pk")))

    def blank(study: Study, found: QuerySet[Any]) -> None:
        keys = written_keys(study)
        for row in found.order_by("pk").iterator(chunk_size=500):
            row.comment = ""
            row.other_answers = answers_without(row.other_answers, keys)
            row.save(update_fields=["comment", "other_answers"])

    return TextsKind(rows, blank)
