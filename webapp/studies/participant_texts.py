"""Texts for participants within a study's values, by language.

Default texts are English in protocols and values; catalogues have each of their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.utils import translation
from django.utils.translation import gettext

from webapp.core.language import locale_of

TEXTS = frozenset(
    {
        *("title", "name", "help", "labels", "options"),
        *("consent_points", "consent_text", "instructions_text", "thanks_text"),
        *(
            "content_notice",
            "typing_notice",
            "focus_notice",
            "people_notice",
            "people_afterwards",
            "choose_question",
            "question",
        ),
        "step_labels",
        "helpline_text",
        *("context", "response", "second_response"),
        *("first", "second", "right", "expected", "admits", "why"),
    }
)
"""Names of the texts for participants, in a study's values as JSON."""


def texts_in(plain: Any, language: str) -> Any:
    """Return a study's values (or part of them) as JSON, translated.

    A line without a translation stays unchanged.
    """
    with translation.override(locale_of(language)):
        return each_text(plain, gettext)


def texts_said(plain: Any) -> Iterator[str]:
    """Yield the lines of all texts in a study's values."""
    lines: list[str] = []

    def keep(line: str) -> str:
        lines.append(line)
        return line

    each_text(plain, keep)
    yield from lines


def each_text(plain: Any, change: Callable[[str], str], *, is_text: bool = False) -> Any:
    """Return a study's values with `change` applied to every line."""
    match plain:
        case dict():
            return {name: each_text(value, change, is_text=is_text or name in TEXTS) for name, value in plain.items()}
        case list() | tuple():
            return [each_text(part, change, is_text=is_text) for part in plain]
        case str() if is_text:
            return "\n".join(change(line) if line.strip() else line for line in plain.split("\n"))
    return plain
