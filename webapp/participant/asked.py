"""Questions as pages show them: their options or text box, the answers, and errors of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from webapp.studies.models import Participant, StudyVersion
from webapp.studies.questions import BETWEEN_CHOICES, MOST_CHARS, Question, questions_ordered
from webapp.studies.rubrics import asked_after

Given = str | list[str]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scale; `name` is read aloud, with the words at it."""

    value: int
    words: str
    name: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class QuestionShown:
    """A question on a page.

    Attributes:
        number: its number on the page.
        name: name of its form field, and the prefix of the ids in it.
        given: answer sent before or just now, valid or not.
        error: error message; empty if there is none.
    """

    number: int
    question: Question
    name: str
    given: Given = ""
    error: str = ""

    @property
    def points(self) -> list[Point]:
        """The points of a row; none where the scale has too many and gets a number box."""
        return [
            Point(
                point, words, f"{point}, {words}" if words else str(point), self.given == str(point)
            )
            for point, words in self.question.points
        ]

    @property
    def options(self) -> list[tuple[str, bool]]:
        """The options, and whether each is chosen."""
        chosen = [self.given] if isinstance(self.given, str) else self.given
        return [(option, option in chosen) for option in self.question.options]

    @property
    def low_words(self) -> str:
        """Label of the lowest point."""
        return self.question.labels.get(self.question.low, "")

    @property
    def high_words(self) -> str:
        """Label of the highest point."""
        return self.question.labels.get(self.question.high, "")

    @property
    def described_by(self) -> str:
        """Ids of the elements that describe it: its help and its error."""
        ids = [f"{self.name}-help"] if self.question.help else []
        return " ".join([*ids, f"{self.name}-error"] if self.error else ids)

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.name}-1"

    @property
    def errors(self) -> list[str]:
        """Errors of the answer, in the form that templates read for every sheet's questions."""
        return [self.error] if self.error else []

    @property
    def most_chars(self) -> int:
        """The longest text that is taken."""
        return MOST_CHARS


def asked_before_of(participant: Participant, version: StudyVersion) -> list[Question]:
    """Return the version's questions before a task, in the participant's order."""
    values = version.values
    return questions_ordered(
        values.questions, values.asking.questions_order, participant.pk, "before"
    )


def asked_after_of(participant: Participant, version: StudyVersion) -> list[Question]:
    """Return the version's questions about what was rated, in the participant's order."""
    order = version.values.asking.after_order
    return questions_ordered(asked_after(version), order, participant.pk, "after")


def right_of(participant: Participant, asked: Sequence[QuestionShown]) -> list[tuple[str, str]]:
    """Return the answers that pass the attention checks, by field; empty unless the participant is scripted."""
    if not participant.is_synthetic:
        return []
    checks = [one for one in asked if one.question.is_check]
    return [
        (
            one.name,
            BETWEEN_CHOICES.join(one.question.expected)
            if one.question.kind == "choices"
            else one.question.expected[0],
        )
        for one in checks
    ]


def asked_shown(asked: Sequence[QuestionShown]) -> dict[str, Any]:
    """Return the context of `_likert.html`: the questions, and those with an error."""
    wrong = [one for one in asked if one.error]
    return {
        "questions": asked,
        "wrong": wrong,
        "some_refused": any(one.given for one in wrong),
    }


def given_in(sent: Mapping[str, Any], question: Question, name: str) -> Given:
    """Return the answer to a question from a form or stored answers, by the name of its field."""
    if question.kind == "choices":
        found = sent.getlist(name) if isinstance(sent, QueryDict) else sent.get(name) or []
        return [found] if isinstance(found, str) else list(found)
    given = sent.get(name, "")
    return "" if given is None else str(given)
