"""Languages of a study: participants read every text in their language.

Confab translates its default texts; a study translates its own (`texts.translations`). A line without a translation is
shown as written. Options are shown translated and stored as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from webapp.studies.conditions import TEXT_NAMES, Conditions, Level
from webapp.studies.models import Participant, StudyVersion
from webapp.studies.participant_texts import TEXTS, each_text, texts_in, texts_said
from webapp.studies.questions import Question
from webapp.studies.ready_made import QUESTION_SETS
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import SECTIONS, StudyValues
from webapp.studies.study_file import default_lines

LEVEL_TEXTS = tuple(name for name in TEXT_NAMES if name != "bot_prompt")
"""Condition texts for participants; the bot's prompt is not translated."""


def translate_values(values: StudyValues, before: str) -> StudyValues:
    """Return the values with all default texts translated into the study's language.

    Args:
        before: the previous language.
    """
    translations = _translations(before, values.texts.language)
    return StudyValues.model_validate(each_text(values.to_json(), lambda line: translations.get(line, line)))


def values_in(values: StudyValues, language: str) -> StudyValues:
    """Return the values in a participant's language.

    Unchanged if the study does not offer it.
    """
    if language == values.texts.language or language not in values.texts.languages:
        return values
    translations = _lines_told(values, language)
    changed = {}
    for section, texts in _section_texts(values).items():
        translated = {name: _translated(text, translations) for name, text in texts.items()}
        changed[section] = getattr(values, section).model_copy(update=translated)
    changed["texts"] = changed["texts"].model_copy(update={"language": language})
    changed["conditions"] = _conditions_in(values.conditions, translations)
    return values.model_copy(update=changed)


def _section_texts(values: StudyValues) -> dict[str, dict[str, str]]:
    """Return the texts for participants by their section and name."""
    texts_by_section: dict[str, dict[str, str]] = {}
    for section, kind in SECTIONS.items():
        texts = {name: getattr(getattr(values, section), name) for name in kind.model_fields if name in TEXTS}
        texts_by_section[section] = {name: text for name, text in texts.items() if isinstance(text, str)}
    return texts_by_section


def _conditions_in(conditions: Conditions, translations: Mapping[str, str]) -> Conditions:
    def level_in(level: Level) -> Level:
        return level.model_copy(update={name: _translated(getattr(level, name), translations) for name in LEVEL_TEXTS})

    factors = [
        factor.model_copy(update={"levels": tuple(map(level_in, factor.levels))}) for factor in conditions.factors
    ]
    return conditions.model_copy(update={"factors": tuple(factors)})


def own_lines(version: StudyVersion) -> list[str]:
    """Return the study's own lines for participants, without duplicates, in order."""
    values = version.values
    texts = [text for section in _section_texts(values).values() for text in section.values()]
    levels = [level for factor in values.conditions.factors for level in factor.levels]
    texts += [getattr(level, name) for level in levels for name in LEVEL_TEXTS]
    for question in [*values.questions, *post_task_questions(version)]:
        texts += [question.title, question.help, *question.labels.values(), *question.options]
    texts += [text for checks in values.check_lists for check in checks.entries for text in check.texts]
    if values.step_marking.label_steps:
        texts += values.step_marking.step_labels
    lines = dict.fromkeys(" ".join(line.split()) for text in texts for line in text.split("\n"))
    ready = _lines_in(values.texts.language)
    return [line for line in lines if any(map(str.isalpha, line)) and line not in ready]


def lines_untranslated(version: StudyVersion) -> dict[str, list[str]]:
    """Return the missing translations of the study's own lines by offered language."""
    study_lines, texts = own_lines(version), version.values.texts
    lacking = {
        language: [line for line in study_lines if line not in texts.translations.get(language, {})]
        for language in texts.offered[1:]
    }
    return {language: lines for language, lines in lacking.items() if lines}


def version_speak(version: StudyVersion, language: str) -> None:
    """Set this unsaved version to a participant's language.

    Nothing changes if the study does not offer it.

    The study offers it.
    """
    before = version.values
    version.values = values_in(before, language)
    if version.values is not before:
        version.lines_told = _lines_told(before, language)


def text_told(text: str, version: StudyVersion) -> str:
    """Return a text in the version's current language."""
    return _translated(text, version.lines_told)


def question_told(question: Question, version: StudyVersion) -> Question:
    """Return a question in the version's current language.

    Title, help and labels are translated.
    """
    translations = version.lines_told
    if not translations:
        return question
    labels = {point: _translated(words, translations) for point, words in question.labels.items()}
    texts = {name: _translated(getattr(question, name), translations) for name in ("title", "help")}
    translated = question.model_copy(update={**texts, "labels": labels})
    translated._options_shown = {option: _translated(option, translations) for option in question.options}
    return translated


def language_store(*, participant: Participant, language: str) -> None:
    """Store the language that a participant reads.

    The language of their consent does not change.
    """
    if Participant.objects.filter(pk=participant.pk, consented_at=None).update(language=language):
        participant.language = language


def _translated(text: str, translations: Mapping[str, str]) -> str:
    changed: str = each_text(text, lambda line: translations.get(" ".join(line.split()), line), is_text=True)
    return changed


def _lines_told(values: StudyValues, language: str) -> Mapping[str, str]:
    """Return the translations into a language; the study's own override Confab's."""
    study_translations = values.texts.translations.get(language, {})
    return {**_translations(values.texts.language, language), **study_translations}


@cache
def _translations(before: str, after: str) -> Mapping[str, str]:
    return dict(zip(_lines_in(before), _lines_in(after), strict=True))


@cache
def _lines_in(language: str) -> tuple[str, ...]:
    """Return Confab's default lines in a language.

    The order is the same in all languages. The lines include the defaults of new studies and the ready-made sets of
    questions.
    """
    ready = [question.to_plain() for question_set in QUESTION_SETS for question in question_set.questions]
    lines = default_lines() | set(texts_said(ready))
    return tuple(texts_in({"title": line}, language)["title"] for line in sorted(lines))
