"""Answers to a study's questions as columns of exported tables."""

from __future__ import annotations

from typing import Any

from webapp.studies.questions import BETWEEN_CHOICES, Question
from webapp.transfer.exporters.base import ExportColumn


def answer_column(question: Question, name: str, when: str) -> ExportColumn:
    """Return the column of a question.

    Args:
        when: it is asked, such as "before the task".
    """
    words = f"Answer {when} to “{question.title}”"
    if question.kind == "scale":
        words += f", {question.low} to {question.high}"
        if question.labels:
            labels = (f"{point} {words}" for point, words in sorted(question.labels.items()))
            words += f" ({', '.join(labels)})"
    elif question.options:
        words += (
            f"; {'one' if question.kind == 'choice' else 'any'} of: {', '.join(question.options)}"
        )
    if question.kind == "choices":
        words += ". Several are joined by “; ”"
    is_number = question.kind == "scale"
    return ExportColumn(name, "number" if is_number else "text", f"{words}. Empty if not answered.")


def answer_cell(question: Question, given: Any) -> Any:
    """Return an answer as its cell has it."""
    if question.kind == "scale":
        return given
    return BETWEEN_CHOICES.join(given) if isinstance(given, list) else given or ""
