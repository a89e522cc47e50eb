"""Storage of researchers' answers in the datasheet of their study."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from webapp.studies.models import Study

MOST_CHARS = 5000


def datasheet_keep(*, study: Study, answers: Mapping[str, str]) -> Study:
    """Store answers by question; an empty one deletes the former answer. Others stay unchanged."""
    with transaction.atomic():
        current = Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        kept = {
            **current.datasheet,
            **{key: text.strip()[:MOST_CHARS] for key, text in answers.items()},
        }
        kept = {key: kept[key] for key in sorted(kept) if kept[key]}
        # Not by save(): the data are unchanged, so no result is computed again.
        Study.objects.filter(pk=study.pk).update(datasheet=kept)
    study.datasheet = kept
    return study
