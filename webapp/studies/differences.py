"""Differences between two versions of a study, or a study and a file: one change for each setting."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext as _

from webapp.studies.models import Study, StudyVersion
from webapp.studies.questions import Question
from webapp.studies.rubrics import asked_after
from webapp.studies.values import SECTIONS, StudyValues

_LISTS = {"questions": _("Before the task"), "after": _("After the task")}
_LONG = 80
Line = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        path: path of the setting, as in a study's file: "texts.minutes", "after.fluency.high".
        title: the same in words.
        before, after: old and new value, in words; empty if there was or is none.
        lines: lines of a longer text: each with "-" (removed), "+" (new) or " " (unchanged).
    """

    path: str
    title: str
    before: str
    after: str
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        if self.lines:
            told = "\n".join(f"  {sign} {text}".rstrip() for sign, text in self.lines)
            return f"{self.title}:\n{told}"
        if not self.before:
            return _("{title}: new: {after}").format(title=self.title, after=self.after)
        if not self.after:
            return _("{title}: gone: {before}").format(title=self.title, before=self.before)
        return f"{self.title}: {self.before} → {self.after}"

    def as_dict(self) -> dict[str, str]:
        """Return it as JSON has it."""
        return {"path": self.path, "before": self.before, "after": self.after}


def version_diff(before: StudyVersion, after: StudyVersion) -> list[Change]:
    """Return the differences between two versions of a study."""
    return values_diff(_said(before), _said(after))


def versions_changed(
    study: Study, most: int = 50
) -> list[tuple[StudyVersion, list[Change] | None]]:
    """Return the newest versions, newest first, each with its changes; None for the very first."""
    found = list(study.versions.select_related("rubric").order_by("-number")[: most + 1])
    shown: list[tuple[StudyVersion, list[Change] | None]] = [
        (newer, version_diff(older, newer)) for newer, older in pairwise(found)
    ]
    if found and len(found) <= most:
        shown.append((found[-1], None))
    return shown


def _said(version: StudyVersion) -> StudyValues:
    return version.values.model_copy(update={"after": asked_after(version)})


def values_diff(before: StudyValues, after: StudyValues) -> list[Change]:
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


def names_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the differences between settings outside of all sections, such as the study's name."""
    return [
        change
        for name in before
        for change in _of_value(name, name.capitalize(), before[name], after[name])
    ]


def _of_bots(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    title = _("Bots")
    for bot in after:
        if bot not in before:
            yield Change("bots", title, "", bot)
    for bot in before:
        if bot not in after:
            yield Change("bots", title, bot, "")
    kept = [bot for bot in before if bot in after]
    if kept != [bot for bot in after if bot in before]:
        yield Change("bots", _("Order of the bots"), ", ".join(before), ", ".join(after))


def _of_questions(
    name: str, before: Sequence[Question], after: Sequence[Question]
) -> Iterator[Change]:
    old = {question.key: question for question in before}
    new = {question.key: question for question in after}
    title = _LISTS[name]
    for key, question in new.items():
        if key not in old:
            yield Change(f"{name}.{key}", title, "", question.title)
    for key, question in old.items():
        if key not in new:
            yield Change(f"{name}.{key}", title, question.title, "")
    kept = [key for key in old if key in new]
    moved = [key for key in new if key in old]
    if kept != moved:
        order = _("{title}, order").format(title=title)
        yield Change(name, order, ", ".join(kept), ", ".join(moved))
    for key in moved:
        for field, about in Question.model_fields.items():
            words = f"{title}, {new[key].short}, {about.title or field}"
            values = getattr(old[key], field), getattr(new[key], field)
            yield from _of_value(f"{name}.{key}.{field}", words, *values)


def _of_section(section: str, before: Any, after: Any) -> Iterator[Change]:
    for field, about in SECTIONS[section].model_fields.items():
        title = about.title or field.replace("_", " ").capitalize()
        words = f"{section.capitalize()}, {title}"
        yield from _of_value(
            f"{section}.{field}", words, getattr(before, field), getattr(after, field)
        )


def _of_value(path: str, title: str, before: Any, after: Any) -> Iterator[Change]:
    if before == after:
        return
    old, new = _words(before), _words(after)
    lines: tuple[Line, ...] = ()
    if isinstance(before, str) and isinstance(after, str) and max(len(old), len(new)) > _LONG:
        lines = tuple(_lines(before, after))
    yield Change(path, title, old, new, lines)


def _words(value: Any) -> str:
    match value:
        case None | "" | () | []:
            return _("nothing")
        case bool():
            return _("yes") if value else _("no")
        case float():
            return f"{value:g}"
        case tuple() | list():
            return ", ".join(_words(one) for one in value)
        case dict():
            if not value:
                return _("nothing")
            return ", ".join(f"{key}: {_words(one)}" for key, one in sorted(value.items()))
        case _ if hasattr(value, "model_dump"):
            return _words(value.model_dump(mode="json", exclude_defaults=True))
    return str(value)


def _lines(before: str, after: str) -> Iterator[Line]:
    """Compare line by line; unchanged lines far from any change are left out."""
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    for line in list(found)[2:]:
        if not line.startswith("@@"):
            yield line[:1], line[1:]
