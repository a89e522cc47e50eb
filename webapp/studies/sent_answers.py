"""Answers about one rated object, as they were sent and as they are stored."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext as _

from webapp.studies.models import Item, StudyVersion
from webapp.studies.questions import Answers, answers_read
from webapp.studies.rubrics import post_task_questions


@dataclass(frozen=True, slots=True)
class LabelledReply:
    """Reply of a chatbot that is labelled: its text, and the number of steps of its trace to label."""

    text: str
    n_steps: int = 0


@dataclass(frozen=True, slots=True)
class SentAnswers:
    """Answers that a participant sent about one object.

    Attributes:
        answers: values by name, unchecked.
        hidden_keys: keys of questions that are not asked here.
        item, reply: the object, if it is one of these.
    """

    version: StudyVersion
    answers: Mapping[str, Any]
    comment: str = ""
    hidden_keys: Collection[str] = ()
    item: Item | None = None
    reply: LabelledReply | None = None


def check_answers(
    *,
    version: StudyVersion,
    answers: Mapping[str, Any],
    extra_ranges: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    hidden_keys: Collection[str] = (),
) -> tuple[Answers, dict[str, str]]:
    """Return the valid answers, and error messages for the others.

    Args:
        extra_ranges: additional numeric answers, with minimum and maximum.
        hidden_keys: keys of questions that are not asked here.

    Returns:
        answers and sentences, both by the question's key.
    """
    questions = [question for question in post_task_questions(version) if question.key not in hidden_keys]
    accepted, wrong = answers_read(questions, answers)
    for key in answers.keys() - {question.key for question in questions}:
        if key not in extra_ranges:
            wrong[key] = _("There is no question called %(key)s.") % {"key": key}
        elif not _is_on_scale(answers[key], *extra_ranges[key]):
            wrong[key] = _off_scale(answers[key], *extra_ranges[key])
        else:
            accepted[key] = int(answers[key])
    # Attention checks are no ratings, so their answers are stored as text next to the ratings.
    checks = {question.key for question in questions if question.is_check}
    accepted |= {key: str(accepted[key]) for key in checks if isinstance(accepted.get(key), int)}
    return accepted, wrong


def _is_on_scale(value: float, low: float, high: float) -> bool:
    return math.isfinite(value) and low <= value <= high and float(value).is_integer()


def _off_scale(value: float, low: float, high: float) -> str:
    words = _("%(value)s is not on the scale from %(low)g to %(high)g.")
    return words % {"value": value, "low": low, "high": high}


def select_numbers(answers: Answers) -> dict[str, int]:
    """Return the answers that are stored as numbers."""
    return {key: value for key, value in answers.items() if isinstance(value, int)}
