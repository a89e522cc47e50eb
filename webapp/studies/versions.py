"""Writes of studies: a version that participants have agreed to is frozen, and an edit makes a new version.

The first participant who agrees to a version freezes it. New tasks have the study's newest version, and open tasks
keep theirs, so the exact texts, rules and questions of every participant are stored. A version without consent
changes in place while one researcher edits it; another researcher's save makes the next version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError as WrongValues

from chatbots.outside import mistakes_of
from webapp.studies.checks import study_errors
from webapp.studies.items import question_item_ensure
from webapp.studies.models import Rubric, Study, StudyVersion
from webapp.studies.other_language import values_retold
from webapp.studies.protocols.base import protocol_asks, protocols
from webapp.studies.questions import Question, questions_told
from webapp.studies.rubrics import CHAT_QUESTIONS, OF_CHATS, rubric_default, rubric_store
from webapp.studies.values import NAMES, SECTIONS, StudyValues, values_nested


class EditedMeanwhile(Exception):
    """Another user has changed the same fields since they were read; `study` is as it is stored now."""

    def __init__(self, study: Study) -> None:
        super().__init__(f"version {study.version.number} was saved meanwhile")
        self.study = study


def study_revise(
    *, study: Study, changes: Mapping[str, Any], author: str, seen: str | None = None
) -> Study:
    """Change some fields of a study as it is stored now; other users' changes of other fields stay.

    Args:
        changes: as the fields of `study_edit`.
        author: name of the user who saves.
        seen: the `state_of` these fields when they were read; None to save over any change.

    Raises:
        ValidationError: as `study_edit`.
        EditedMeanwhile: if the fields have changed since they were read.
    """
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        # Read once more: while it waited for the row, the version may have changed.
        current = Study.objects.get(pk=study.pk)
        if seen is not None and seen != state_of(current, changes):
            raise EditedMeanwhile(current)
        return study_edit(study=current, author=author, **changes)


def state_of(study: Study, names: Collection[str]) -> str:
    """Return a digest of some fields of a study, of the model's and of `StudyValues` alike."""
    flat = study.values.flat()
    found = {name: flat[name] if name in flat else getattr(study, name) for name in names}
    return _digest_of({name: str(found[name]) for name in sorted(found)})


def study_edit(
    *, study: Study, rubric: Rubric | None = None, author: str = "", **fields: Any
) -> Study:
    """Change some fields of a study; if participants have agreed to it, this makes a new version.

    Args:
        rubric: rubric whose questions replace those of `after`.
        author: name of the user who saves; empty for a program.
        fields: fields of the model (`state`, `rule`, …) and of `StudyValues`, by their names without a section.
            Questions (`questions` before the task, `after` it) may be `Question` values or JSON.

    Raises:
        ValidationError: with a sentence for each field that is invalid, or cannot change any more.
    """
    of_values = {name: fields.pop(name) for name in list(fields) if name in NAMES}
    if rubric is None and "after" not in of_values:
        rubric = _other_questions(study, fields.get("protocol", study.protocol), of_values)
    for name, value in fields.items():
        setattr(study, name, value)
    if rubric is not None:
        of_values.setdefault("after", ())
    values = values_made(study.values.flat(), of_values)
    if values.texts.language != study.values.texts.language:
        values = _in_other_language(study, values, rubric)
    return study_store(study=study, values=values, rubric=rubric, author=author)


def _in_other_language(study: Study, values: StudyValues, rubric: Rubric | None) -> StudyValues:
    """Return the values with the texts that nobody has changed in their language, questions about chats among them."""
    if not values.after and (rubric or study.rubric).name == OF_CHATS:
        values = values.model_copy(update={"after": CHAT_QUESTIONS})
    return values_retold(values, study.values.texts.language)


def questions_first(protocol: str, language: str) -> tuple[Question, ...]:
    """Return a new study's questions after its tasks; empty if the English chat rubric asks them."""
    asked = protocol_asks(protocol)
    return asked if language == "en" else questions_told(asked or CHAT_QUESTIONS, language)


def _other_questions(study: Study, protocol: str, of_values: dict[str, Any]) -> Rubric | None:
    """Put the questions of another protocol among the values, where the study still asks those of its own.

    Returns:
        The rubric about chats, if it is that which the other protocol asks.
    """
    language = study.values.texts.language
    before, after = (questions_first(name, language) for name in (study.protocol, protocol))
    has_own = study.values.after == before and (before or study.rubric.name == OF_CHATS)
    if protocol == study.protocol or before == after or not has_own:
        return None
    if not after:
        return rubric_default()
    of_values["after"] = after
    return None


def study_store(
    *, study: Study, values: StudyValues, rubric: Rubric | None = None, author: str = ""
) -> Study:
    """Store a new or changed study with these values. Returns it with its version.

    Args:
        rubric: the questions after a task if the values have none; if they have, it is used if it is equal.
            None: the study's current rubric.

    Raises:
        ValidationError: as `study_edit`.
    """
    with transaction.atomic():
        # Two who edit at once make two versions, one after the other.
        rows = Study.objects.select_for_update(of=("self",), no_key=True)
        before = rows.filter(pk=study.pk).first() if study.pk else None
        current = _current(before)
        beside = _rubric_beside(values, rubric, current)
        study.full_clean(exclude=["version"])
        if errors := study_errors(before=before, study=study, values=values, rubric=beside):
            raise ValidationError(errors)  # type: ignore[arg-type]
        if study.state != Study.State.ENDED:
            study.ended_at = None
        elif before is None or before.state != Study.State.ENDED:
            study.ended_at = timezone.now()
        study.version = current  # type: ignore[assignment]  # none only while it is made
        study.save()
        if study.protocol in protocols and protocols.get(study.protocol).has_one_item:
            question_item_ensure(study=study)
        version = _version(study, values, _rubric(study, values, beside, current), author)
        if study.version_id != version.pk:
            Study.objects.filter(pk=study.pk).update(version=version)
        study.version = version
    return study


def _current(before: Study | None) -> StudyVersion | None:
    """Return the stored study's newest version; no participant can agree to it before this transaction ends."""
    if before is None or before.version_id is None:
        return None
    rows = StudyVersion.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("rubric").get(pk=before.version_id)


def _rubric_beside(
    values: StudyValues, rubric: Rubric | None, current: StudyVersion | None
) -> Rubric | None:
    """Return the rubric with the questions if the values have none; None if nothing is asked then."""
    if rubric is not None or values.after:
        return rubric
    if current is None:
        return rubric_default()
    return None if current.values.after else current.rubric  # the last question was taken out


def _rubric(
    study: Study, values: StudyValues, beside: Rubric | None, current: StudyVersion | None
) -> Rubric:
    if beside is not None and not values.after:
        return beside
    known = beside or (current.rubric if current else None)
    return rubric_store(study=study, questions=values.after, known=known)


def values_made(known: dict[str, Any], changed: dict[str, Any]) -> StudyValues:
    """Return values by their names alone, checked.

    Raises:
        ValidationError: with a sentence for each that is wrong.
    """
    try:
        return StudyValues.model_validate(values_nested({**known, **changed}))
    except WrongValues as error:
        wrong: dict[str, list[str]] = {}
        for mistake in mistakes_of(error, StudyValues):
            wrong.setdefault(field_of(mistake.path), []).append(mistake.message)
        raise ValidationError(wrong) from None  # type: ignore[arg-type]


def field_of(path: str) -> str:
    """Return the name of the value that a path of a study's values is in, as forms call it."""
    first, *rest = path.split(".")
    name = rest[0] if first in SECTIONS and rest else first
    return name.split("[")[0]


def _version(study: Study, values: StudyValues, rubric: Rubric, author: str) -> StudyVersion:
    """Return the study's version with these values: the one it has, that one changed, or a new one."""
    digest = _digest(values, rubric)
    fields: dict[str, Any] = {
        "values": values,
        "rubric": rubric,
        "digest": digest,
        "author": author,
        "saved_at": timezone.now(),
    }
    current = study.version
    if current is not None:
        # Not by the digest, which knows no values that came with a later release.
        if current.values == values and current.rubric_id == rubric.pk:
            return current
        in_place = StudyVersion.objects.filter(pk=current.pk, frozen_at=None)
        is_own = author in (current.author, "") or not current.author
        if is_own and in_place.update(**fields):
            return StudyVersion.objects.select_related("rubric").get(pk=current.pk)
    number = current.number + 1 if current else 1
    return StudyVersion.objects.create(study=study, number=number, **fields)


def _digest(values: StudyValues, rubric: Rubric) -> str:
    return _digest_of({"values": values.to_json(), "rubric": str(rubric)})


def _digest_of(said: dict[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def version_freeze(*, version: StudyVersion) -> StudyVersion:
    """Mark that a person has agreed to the version. Returns it as it stays; safe to repeat."""
    if version.frozen_at is not None:
        return version
    StudyVersion.objects.filter(pk=version.pk, frozen_at=None).update(frozen_at=timezone.now())
    return StudyVersion.objects.select_related("rubric").get(pk=version.pk)
