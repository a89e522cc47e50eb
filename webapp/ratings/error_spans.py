"""Stored errors in replies, and the steps of a reply that are labelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evaluation.analysis.error_spans import ErrorSpan
from webapp.conversations.models import Turn
from webapp.conversations.selectors import shown_trace
from webapp.ratings.models import Rating
from webapp.studies.models import Task
from webapp.studies.protocols.base import get_protocol
from webapp.studies.reply_marks import NONE, SPANS, STEPS


def spans_stored(rating: Rating) -> list[ErrorSpan]:
    """Return the errors of a stored rating."""
    return [ErrorSpan(**fields) for fields in rating.other_answers.get(SPANS, ())]


def steps_of(task: Task, turn: Turn) -> list[dict[str, Any]]:
    """Return the steps to label: those of the shown trace, if requested."""
    if not task.version.values.step_marking.label_steps:
        return []
    can_label = get_protocol(task.participant.study).can_label_steps
    return shown_trace(turn.conversation, turn) if can_label else []


def step_codes(rating: Rating) -> Iterator[str]:
    """Yield a stored rating's step labels in page format, or `NONE`."""
    steps = rating.other_answers.get(STEPS, [])
    yield from (f"{number}:{label}" for number, labels in enumerate(steps) for label in labels)
    if not any(steps):
        yield NONE
