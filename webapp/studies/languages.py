"""Languages of one study: what participants read follows the one they chose, where Confab worded it.

A study's own texts stay as they are written. Answers to choose from stay, too: they are stored as they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from webapp.studies.models import Participant, Study, StudyVersion
from webapp.studies.questions import TEXTS, Question, each_text, texts_in, texts_said
from webapp.studies.ready_made import QUESTION_SETS
from webapp.studies.settings import SECTIONS, StudyValues
from webapp.studies.study_file import default_lines


def translate_values(values: StudyValues, before: str) -> StudyValues:
    """Return the values with every line that Confab worded in the language that they name.

    Args:
        before: the language that they were in.
    """
    told = _translations(before, values.texts.language)
    return StudyValues.model_validate(each_text(values.to_json(), lambda line: told.get(line, line)))


def values_in(values: StudyValues, language: str) -> StudyValues:
    """Return the values as participants of this language read them; unchanged if the study does not offer it."""
    if language == values.texts.language or language not in values.texts.languages:
        return values
    told = _translations(values.texts.language, language)
    changed = {}
    for section, kind in SECTIONS.items():
        texts = {name: getattr(getattr(values, section), name) for name in kind.model_fields if name in TEXTS}
        own = {name: _translated(text, told) for name, text in texts.items() if isinstance(text, str)}
        changed[section] = getattr(values, section).model_copy(update=own)
    changed["texts"] = changed["texts"].model_copy(update={"language": language})
    return values.model_copy(update=changed)


def texts_kept(values: StudyValues) -> list[str]:
    """Return the names of the study's own texts, which all participants read in one language."""
    if len(values.texts.offered) < 2:
        return []
    told = values_in(values, values.texts.offered[1])
    own, after = values.flat(), told.flat()
    return [
        name for name in own if name in TEXTS and isinstance(own[name], str) and own[name] and own[name] == after[name]
    ]


def version_speak(version: StudyVersion, language: str) -> None:
    """Make this instance of a version, which is not saved, speak a participant's language if the study offers it."""
    before = version.values
    version.values = values_in(before, language)
    if version.values is not before:
        version.lines_told = _translations(before.texts.language, language)


def question_told(question: Question, version: StudyVersion) -> Question:
    """Return a question with title, help and labels in the language that the version speaks."""
    told = version.lines_told
    if not told:
        return question
    labels = {point: _translated(words, told) for point, words in question.labels.items()}
    texts = {name: _translated(getattr(question, name), told) for name in ("title", "help")}
    return question.model_copy(update={**texts, "labels": labels})


def languages_read(study: Study) -> set[str]:
    """Return the languages in which participants read the study; its own one before there are any."""
    own, people = study.values.texts.language, study.participants.filter(consented_at__isnull=False)
    return {code or own for code in people.order_by().values_list("language", flat=True).distinct()} or {own}


def language_store(*, participant: Participant, language: str) -> None:
    """Store the language that a participant reads; the one in which they agreed stays."""
    if Participant.objects.filter(pk=participant.pk, consented_at=None).update(language=language):
        participant.language = language


def _translated(text: str, told: Mapping[str, str]) -> str:
    changed: str = each_text(text, lambda line: told.get(line, line), is_text=True)
    return changed


@cache
def _translations(before: str, after: str) -> Mapping[str, str]:
    return dict(zip(_lines_in(before), _lines_in(after), strict=True))


@cache
def _lines_in(language: str) -> tuple[str, ...]:
    """Return the lines that Confab brings in a language, in an order that is the same for all.

    They are those that a new study may begin with, and those of the ready-made sets of questions.
    """
    ready = [question.to_plain() for asked in QUESTION_SETS for question in asked.questions]
    lines = default_lines() | set(texts_said(ready))
    return tuple(texts_in({"title": line}, language)["title"] for line in sorted(lines))
