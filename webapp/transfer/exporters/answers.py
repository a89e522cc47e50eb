"""Answers to a study's questions as columns of exported tables."""

from __future__ import annotations

from typing import Any, Literal

from webapp.studies.questions import BETWEEN_CHOICES, Question
from webapp.transfer.exporters.base import Asked, ExportColumn

NOT_ANSWERED = "Not answered, or not asked by the version of the study that the person saw."


def answer_column(question: Question, name: str, when: Literal["before", "after"]) -> ExportColumn:
    """Return the column of a question.

    Args:
        when: it is asked: before the task or after it.
    """
    words = f"Answer {when} the task to “{question.title}”"
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
    is_scale = question.kind == "scale"
    pairs: tuple[tuple[Any, str], ...] = tuple(sorted(question.labels.items()))
    if question.kind == "choice":
        pairs = tuple((option, option) for option in question.options)
    return ExportColumn(
        name,
        "number" if is_scale else "text",
        f"{words}. Empty if not answered.",
        pairs,
        missing=NOT_ANSWERED,
        asked=Asked(
            question.key,
            question.title,
            when,
            question.low if is_scale else None,
            question.high if is_scale else None,
            question.reversed,
        ),
    )


def answer_cell(question: Question, given: Any) -> Any:
    """Return an answer as its cell has it."""
    if question.kind == "scale":
        return given
    return BETWEEN_CHOICES.join(given) if isinstance(given, list) else given or ""
