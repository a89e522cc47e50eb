"""Writes of studies: what people have agreed to is frozen, and an edit of it makes a new version.

A version is frozen by the first person who agrees to it. New tasks carry the study's newest version; who is
under way stays on theirs, and so the exact texts, rules and questions of everybody are kept.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError as WrongValues

from chatbots.outside import mistakes_of
from webapp.studies.checks import study_errors
from webapp.studies.models import Rubric, Study, StudyVersion
from webapp.studies.values import NAMES, StudyValues, values_nested


def study_edit(*, study: Study, rubric: Rubric | None = None, **fields: Any) -> Study:
    """Change some fields of a study; what people have agreed to gets a new version.

    Args:
        fields: of the model (`state`, `rule`, …) and of `StudyValues`, by their names alone.

    Raises:
        ValidationError: with a sentence for each field that is wrong, or cannot change any more.
    """
    of_values = {name: fields.pop(name) for name in list(fields) if name in NAMES}
    for name, value in fields.items():
        setattr(study, name, value)
    values = values_made(study.values.flat(), of_values)
    return study_store(study=study, values=values, rubric=rubric or study.rubric)


def study_store(*, study: Study, values: StudyValues, rubric: Rubric) -> Study:
    """Store a new or changed study with these values. Returns it with its version.

    Raises:
        ValidationError: as `study_edit`.
    """
    with transaction.atomic():
        # Two who edit at once make two versions, one after the other.
        rows = Study.objects.select_for_update(of=("self",), no_key=True)
        before = rows.filter(pk=study.pk).first() if study.pk else None
        study.full_clean(exclude=["version"])
        if errors := study_errors(before=before, study=study, values=values, rubric=rubric):
            raise ValidationError(errors)  # type: ignore[arg-type]
        study.version_id = before.version_id if before else None
        study.save()
        version = _version(study, values, rubric)
        if study.version_id != version.pk:
            Study.objects.filter(pk=study.pk).update(version=version)
        study.version = version
    return study


def values_made(known: dict[str, Any], changed: dict[str, Any]) -> StudyValues:
    """Return values by their names alone, checked.

    Raises:
        ValidationError: with a sentence for each that is wrong.
    """
    try:
        return StudyValues.model_validate(values_nested({**known, **changed}))
    except WrongValues as error:
        wrong: dict[str, Any] = {
            _field_of(e): _said(e) for e in error.errors() if _is_of_section(e)
        }
        if told := [m.message for m in mistakes_of(error, StudyValues) if _is_asked(m.path)]:
            wrong["questions"] = told
        raise ValidationError(wrong) from None  # type: ignore[arg-type]


def _is_of_section(error: Any) -> bool:
    return bool(error["loc"]) and error["loc"][0] != "questions"


def _field_of(error: Any) -> str:
    """Return the field of its section that the error is in, however deep."""
    place = error["loc"]
    return str(place[1] if len(place) > 1 else place[0])


def _is_asked(path: str) -> bool:
    return path.startswith("questions")


def _said(error: Any) -> str:
    raised = error.get("ctx", {}).get("error")
    return str(raised or error["msg"])


def _version(study: Study, values: StudyValues, rubric: Rubric) -> StudyVersion:
    """Return the study's version with these values: the one it has, that one changed, or a new one."""
    digest = _digest(values, rubric)
    fields: dict[str, Any] = {"values": values, "rubric": rubric, "digest": digest}
    current = study.version
    if current is not None:
        # Not by the digest, which knows no values that came with a later release.
        if current.values == values and current.rubric_id == rubric.pk:
            return current
        if StudyVersion.objects.filter(pk=current.pk, frozen_at=None).update(**fields):
            return StudyVersion.objects.select_related("rubric").get(pk=current.pk)
    number = current.number + 1 if current else 1
    return StudyVersion.objects.create(study=study, number=number, **fields)


def _digest(values: StudyValues, rubric: Rubric) -> str:
    said = {"values": values.to_json(), "rubric": str(rubric)}
    text = json.dumps(said, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def version_freeze(*, version: StudyVersion) -> StudyVersion:
    """Mark that a person has agreed to the version. Returns it as it stays; safe to repeat."""
    if version.frozen_at is not None:
        return version
    StudyVersion.objects.filter(pk=version.pk, frozen_at=None).update(frozen_at=timezone.now())
    return StudyVersion.objects.select_related("rubric").get(pk=version.pk)
