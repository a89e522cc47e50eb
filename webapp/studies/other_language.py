"""Change of a study's language: its default texts are translated, researchers' own texts stay."""

from __future__ import annotations

from functools import cache

from webapp.studies.default_texts import each_text, texts_in, texts_said
from webapp.studies.examples import default_lines
from webapp.studies.question_sets import QUESTION_SETS
from webapp.studies.values import StudyValues


def values_retold(values: StudyValues, before: str) -> StudyValues:
    """Return the values with every line that Confab worded in the language that they name.

    Args:
        before: the language that they were in.
    """
    told = dict(zip(_lines_in(before), _lines_in(values.texts.language), strict=True))
    return StudyValues.model_validate(
        each_text(values.to_json(), lambda line: told.get(line, line))
    )


@cache
def _lines_in(language: str) -> tuple[str, ...]:
    """Return the lines that Confab brings in a language, in an order that is the same for all.

    They are those that a new study may begin with, and those of the ready-made sets of questions.
    """
    ready = [question.to_plain() for asked in QUESTION_SETS for question in asked.questions]
    lines = default_lines() | set(texts_said(ready))
    return tuple(texts_in({"title": line}, language)["title"] for line in sorted(lines))
