"""Versions of a study: freezing, edits, and differences.

The first participant who agrees to a version freezes it. New tasks have the study's newest version, and open tasks keep
theirs, so the exact texts, rules and questions of every participant are stored. A version without consent changes in
place while one researcher edits it; a save by another researcher creates the next version.

Differences between two versions, or a study and a file, have one change per setting.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from pydantic import ValidationError as WrongValues

from chatbots.text import quote
from chatbots.validation import mistakes_of
from webapp.core.audit_trail import STUDY_CHANGE, STUDY_CREATE, record
from webapp.core.clock import database_now
from webapp.core.project_scope import active_project
from webapp.studies.helped_draws import helper_freeze
from webapp.studies.items import question_item_ensure
from webapp.studies.languages import translate_values
from webapp.studies.models import Rubric, Study, StudyVersion
from webapp.studies.plans import plan_freeze
from webapp.studies.protocols.base import protocol_asks, protocols
from webapp.studies.questions import Question, translate_questions
from webapp.studies.ready_made import DEFAULT_QUESTIONS
from webapp.studies.rubrics import DEFAULT_RUBRIC_NAME, post_task_questions, rubric_default, rubric_store
from webapp.studies.settings import NAMES, SECTION_OF, SECTIONS, StudyValues
from webapp.studies.validation import study_errors

OWN_SETTINGS = ("key", "name", "protocol", "rule", "seed")
"""Settings outside of `StudyValues`."""
_LISTS = {"questions": "Before the task", "after": "After the task"}
_LONG = 80
DiffLine = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One difference.

    Attributes:
        path: path of the setting, as in a study's file: "texts.minutes", "after.fluency.high".
        title: the same in words.
        before, after: old and new value, in words; empty without one.
        lines: lines of a longer text: each with "-" (removed), "+" (new) or " " (unchanged).
    """

    path: str
    title: str
    before: str
    after: str
    lines: tuple[DiffLine, ...] = ()

    def __str__(self) -> str:
        if self.lines:
            diff_text = "\n".join(f"  {sign} {text}".rstrip() for sign, text in self.lines)
            return f"{self.title}:\n{diff_text}"
        if not self.before:
            return f"{self.title}: new: {self.after}"
        if not self.after:
            return f"{self.title}: gone: {self.before}"
        return f"{self.title}: {self.before} → {self.after}"

    def as_dict(self) -> dict[str, str]:
        """Return it as JSON."""
        return {"path": self.path, "before": self.before, "after": self.after}


def version_diff(before: StudyVersion, after: StudyVersion) -> list[SettingChange]:
    """Return the differences between two versions of a study."""
    return values_diff(_with_post_task_questions(before), _with_post_task_questions(after))


def versions_changed(study: Study, limit: int = 50) -> list[tuple[StudyVersion, list[SettingChange] | None]]:
    """Return the newest versions, newest first, each with its changes.

    The very first version has None.
    """
    versions = list(study.versions.select_related("rubric").order_by("-number")[: limit + 1])
    changes: list[tuple[StudyVersion, list[SettingChange] | None]] = [
        (newer, version_diff(older, newer)) for newer, older in pairwise(versions)
    ]
    if versions and len(versions) <= limit:
        changes.append((versions[-1], None))
    return changes


def _with_post_task_questions(version: StudyVersion) -> StudyValues:
    return version.values.model_copy(update={"after": post_task_questions(version)})


def values_diff(before: StudyValues, after: StudyValues) -> list[SettingChange]:
    """Return the differences between two studies' values."""
    return [
        *_of_bots(before.bots, after.bots),
        *_of_questions("questions", before.questions, after.questions),
        *_of_questions("after", before.after, after.after),
        *(
            change
            for section in SECTIONS
            for change in _of_section(section, getattr(before, section), getattr(after, section))
        ),
    ]


def names_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SettingChange]:
    """Return the differences in settings outside of all sections.

    An example is the study's name.
    """
    return [change for name in before for change in _of_value(name, name.capitalize(), before[name], after[name])]


def _of_bots(before: Sequence[str], after: Sequence[str]) -> Iterator[SettingChange]:
    title = "Bots"
    for bot in after:
        if bot not in before:
            yield SettingChange("bots", title, "", bot)
    for bot in before:
        if bot not in after:
            yield SettingChange("bots", title, bot, "")
    kept_bots = [bot for bot in before if bot in after]
    if kept_bots != [bot for bot in after if bot in before]:
        yield SettingChange("bots", "Order of the bots", ", ".join(before), ", ".join(after))


def _of_questions(name: str, before: Sequence[Question], after: Sequence[Question]) -> Iterator[SettingChange]:
    old = {question.key: question for question in before}
    new = {question.key: question for question in after}
    title = _LISTS[name]
    for key, question in new.items():
        if key not in old:
            yield SettingChange(f"{name}.{key}", title, "", question.title)
    for key, question in old.items():
        if key not in new:
            yield SettingChange(f"{name}.{key}", title, question.title, "")
    kept_keys = [key for key in old if key in new]
    moved = [key for key in new if key in old]
    if kept_keys != moved:
        order = f"{title}, order"
        yield SettingChange(name, order, ", ".join(kept_keys), ", ".join(moved))
    for key in moved:
        for field, about in Question.model_fields.items():
            words = f"{title}, {new[key].short}, {about.title or field}"
            values = getattr(old[key], field), getattr(new[key], field)
            yield from _of_value(f"{name}.{key}.{field}", words, *values)


def _of_section(section: str, before: Any, after: Any) -> Iterator[SettingChange]:
    for field, about in SECTIONS[section].model_fields.items():
        title = about.title or field.replace("_", " ").capitalize()
        words = f"{section.capitalize()}, {title}"
        yield from _of_value(f"{section}.{field}", words, getattr(before, field), getattr(after, field))


def _of_value(path: str, title: str, before: Any, after: Any) -> Iterator[SettingChange]:
    if before == after:
        return
    old, new = _words(before), _words(after)
    lines: tuple[DiffLine, ...] = ()
    if isinstance(before, str) and isinstance(after, str) and max(len(old), len(new)) > _LONG:
        lines = tuple(_lines(before, after))
    yield SettingChange(path, title, old, new, lines)


def _words(value: Any) -> str:
    match value:
        case None | "" | () | []:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple() | list():
            return ", ".join(_words(part) for part in value)
        case dict():
            if not value:
                return "nothing"
            return ", ".join(f"{key}: {_words(part)}" for key, part in sorted(value.items()))
        case _ if hasattr(value, "model_dump"):
            return _words(value.model_dump(mode="json", exclude_defaults=True))
    return str(value)


def _lines(before: str, after: str) -> Iterator[DiffLine]:
    """Compare line by line, without unchanged lines far from a change."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    for line in list(diff)[2:]:
        if not line.startswith("@@"):
            yield line[:1], line[1:]


class EditedMeanwhile(Exception):
    """Raised if another user has changed the same fields meanwhile.

    `study` is the study as it is stored now.
    """

    def __init__(self, study: Study) -> None:
        super().__init__(f"version {study.version.number} was saved meanwhile")
        self.study = study


def study_revise(*, study: Study, changes: Mapping[str, Any], author: str, seen: str | None = None) -> Study:
    """Change some fields of a study, keeping other users' edits.

    Changes that other users made to other fields stay.

    Args:
        changes: as the fields of `study_edit`.
        author: name of the user who saves.
        seen: the `state_of` these fields when they were read; None to overwrite any change.

    Raises:
        ValidationError: as `study_edit`.
        EditedMeanwhile: if the fields have changed since they were read.
    """
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        # Load it again: the version may have changed while this waited for the row.
        current = Study.objects.get(pk=study.pk)
        if seen is not None and seen != state_of(current, changes):
            raise EditedMeanwhile(current)
        return study_edit(study=current, author=author, **changes)


def state_of(study: Study, names: Collection[str]) -> str:
    """Return a digest of some fields, of the model and of `StudyValues` alike."""
    flat = study.values.flat()
    field_values = {name: flat[name] if name in flat else getattr(study, name) for name in names}
    return _digest_of({name: str(field_values[name]) for name in sorted(field_values)})


def study_edit(*, study: Study, rubric: Rubric | None = None, author: str = "", **fields: Any) -> Study:
    """Change some fields of a study.

    If participants have agreed to it, this creates a new version.

    Args:
        rubric: rubric whose questions replace those of `after`.
        author: name of the user who saves; empty for a program.
        fields: fields of the model (`state`, `rule`, …) and of `StudyValues`, by their names without a section.
            Questions (`questions` before the task, `after` it) may be `Question` values or JSON.

    Raises:
        ValidationError: with a sentence for each field that is invalid or can no longer change.
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
    """Return the values with unedited texts in their language.

    Questions about chats are included.
    """
    if not values.after and (rubric or study.rubric).name == DEFAULT_RUBRIC_NAME:
        values = values.model_copy(update={"after": DEFAULT_QUESTIONS})
    return translate_values(values, study.values.texts.language)


def questions_first(protocol: str, language: str) -> tuple[Question, ...]:
    """Return a new study's questions after its tasks.

    Empty if the English chat rubric asks them.
    """
    protocol_questions = protocol_asks(protocol)
    return (
        protocol_questions
        if language == "en"
        else translate_questions(protocol_questions or DEFAULT_QUESTIONS, language)
    )


def _other_questions(study: Study, protocol: str, of_values: dict[str, Any]) -> Rubric | None:
    """Replace unedited questions by those of another protocol.

    Returns the rubric about chats, if the other protocol asks it.
    """
    language = study.values.texts.language
    before, after = (questions_first(name, language) for name in (study.protocol, protocol))
    has_own = study.values.after == before and (before or study.rubric.name == DEFAULT_RUBRIC_NAME)
    if protocol == study.protocol or before == after or not has_own:
        return None
    if not after:
        return rubric_default()
    of_values["after"] = after
    return None


def study_store(*, study: Study, values: StudyValues, rubric: Rubric | None = None, author: str = "") -> Study:
    """Store a new or changed study with these values.

    Returns the study with its version.

    Args:
        rubric: the questions after a task if the values have none; if they have, it is used if it is equal.
            None: the study's current rubric.

    Raises:
        ValidationError: as `study_edit`.
    """
    with transaction.atomic():
        # Users who edit at the same time create two versions, one after the other.
        rows = Study.objects.select_for_update(of=("self",), no_key=True)
        before = rows.filter(pk=study.pk).first() if study.pk else None
        current = _current(before)
        separate_rubric = _choose_separate_rubric(values, rubric, current)
        study.full_clean(exclude=["version"])
        is_in_project = before is None and active_project() is not None
        if is_in_project and Study.everywhere.filter(key=study.key).exists():  # else `full_clean` has seen all projects
            raise ValidationError({"key": f"The key {quote(study.key)} is not available. Choose another key."})
        if errors := study_errors(before=before, study=study, values=values, rubric=separate_rubric):
            raise ValidationError(errors)  # type: ignore[arg-type]
        if study.state != Study.State.ENDED:
            study.ended_at, study.closed_by = None, ""
        elif before is None or before.state != Study.State.ENDED:
            study.ended_at = database_now()
        if before is not None and before.state == Study.State.COLLECTING:
            plan_freeze(study=before)  # an earlier release opened it without a plan
        study.is_sequential |= study.state == Study.State.COLLECTING
        study.version = current  # type: ignore[assignment]  # none only while it is made
        study.save()
        if study.protocol in protocols and protocols.get(study.protocol).has_one_item:
            question_item_ensure(study=study)
        version = _version(study, values, _rubric(study, values, separate_rubric, current), author)
        if study.version_id != version.pk:
            Study.objects.filter(pk=study.pk).update(version=version)
        study.version = version
        plan_freeze(study=study)
        was_open = before is not None and before.state == Study.State.COLLECTING
        is_helped_as_before = current is not None and current.values.helping == values.helping
        if study.state == Study.State.COLLECTING and not (was_open and is_helped_as_before):
            helper_freeze(study=study)
        _record_change(before, current, study)
    return study


def _record_change(before: Study | None, earlier: StudyVersion | None, study: Study) -> None:
    """Record a new study, and the names of the settings in which one changed that is or was open."""
    if before is None or earlier is None:
        record(STUDY_CREATE, study, state=study.state)
        return
    old, new = earlier.values.flat(), study.values.flat()
    settings = {name for name in new if old[name] != new[name]}
    settings |= {name for name in OWN_SETTINGS if getattr(before, name) != getattr(study, name)}
    if earlier.rubric_id != study.version.rubric_id:
        settings.add("after")
    if {before.state, study.state} != {Study.State.DRAFT} and (settings or before.state != study.state):
        record(STUDY_CHANGE, study, settings=settings, before=before.state, state=study.state)


def _current(before: Study | None) -> StudyVersion | None:
    """Return the stored study's newest version.

    No participant can agree to it before this transaction ends.
    """
    if before is None or before.version_id is None:
        return None
    rows = StudyVersion.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("rubric").get(pk=before.version_id)


def _choose_separate_rubric(values: StudyValues, rubric: Rubric | None, current: StudyVersion | None) -> Rubric | None:
    """Return the rubric with the questions if the values have none.

    None if nothing is asked then.
    """
    if rubric is not None or values.after:
        return rubric
    if current is None:
        return rubric_default()
    return None if current.values.after else current.rubric  # the last question was removed


def _rubric(study: Study, values: StudyValues, separate_rubric: Rubric | None, current: StudyVersion | None) -> Rubric:
    if separate_rubric is not None and not values.after:
        return separate_rubric
    known = separate_rubric or (current.rubric if current else None)
    scores = protocols.get(study.protocol).scores(values) if study.protocol in protocols else ()
    return rubric_store(study=study, questions=[*scores, *values.after], known=known)


def values_made(known: dict[str, Any], changed: dict[str, Any]) -> StudyValues:
    """Return validated values from names without sections.

    Raises:
        ValidationError: with a sentence for each invalid value.
    """
    try:
        return StudyValues.model_validate(values_nested({**known, **changed}))
    except WrongValues as error:
        wrong: dict[str, list[str]] = {}
        for mistake in mistakes_of(error, StudyValues):
            wrong.setdefault(field_of(mistake.path), []).append(mistake.message)
        raise ValidationError(wrong) from None  # type: ignore[arg-type]


def field_of(path: str) -> str:
    """Return the form field of a path in a study's values."""
    first, *rest = path.split(".")
    name = rest[0] if first in SECTIONS and rest else first
    return name.split("[")[0]


def _version(study: Study, values: StudyValues, rubric: Rubric, author: str) -> StudyVersion:
    """Return the study's version with these values.

    It is the current version, unchanged or changed, or a new one.
    """
    digest = _digest(values, rubric)
    fields: dict[str, Any] = {
        "values": values,
        "rubric": rubric,
        "digest": digest,
        "author": author,
        "saved_at": database_now(),
    }
    current = study.version
    if current is not None:
        # Do not compare digests: they lack values that were added in later releases.
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


def _digest_of(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def version_freeze(*, version: StudyVersion) -> StudyVersion:
    """Mark that a person has agreed to the version.

    Returns the frozen version; idempotent.
    """
    if version.frozen_at is not None:
        return version
    StudyVersion.objects.filter(pk=version.pk, frozen_at=None).update(frozen_at=database_now())
    return StudyVersion.objects.select_related("rubric").get(pk=version.pk)


def values_nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values nested in sections as in a study's file.

    Bots and questions have no section.
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        if name in SECTION_OF:
            nested.setdefault(SECTION_OF[name], {})[name] = value
        else:
            nested[name] = value
    return nested
