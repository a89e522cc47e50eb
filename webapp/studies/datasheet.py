"""The write of what researchers answer in the datasheet of their study."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from webapp.studies.models import Study

MOST_CHARS = 5000


def datasheet_keep(*, study: Study, answers: Mapping[str, str]) -> Study:
    """Keep answers, each under what it answers; an empty one takes the former away. Others stay as they are."""
    with transaction.atomic():
        current = Study.objects.select_for_update(of=("self",)).get(pk=study.pk)
        kept = {
            **current.datasheet,
            **{key: text.strip()[:MOST_CHARS] for key, text in answers.items()},
        }
        kept = {key: kept[key] for key in sorted(kept) if kept[key]}
        # Not by save(): the data are as they were, so no result is made anew.
        Study.objects.filter(pk=study.pk).update(datasheet=kept)
    study.datasheet = kept
    return study
