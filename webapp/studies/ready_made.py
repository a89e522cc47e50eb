"""Ready-made questions, checks and topics, read from `ready_made.yaml`.

The questions cover the subjects and scales of the papers; the wording is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from chatbots.validation import yaml_read
from webapp.studies.questions import Question

STUDIES = {path.stem: path for path in sorted(Path(__file__).with_name("examples").glob("*.yaml"))}
"""Files of ready-made studies by name, in addition to the example of each protocol."""
READY_MADE: dict[str, Any] = yaml_read(Path(__file__).with_name("ready_made.yaml"))


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions that were asked together.

    Attributes:
        source: publication of the questions; shown with a note if the wording is ours.
        only_in: names of the protocols whose forms they fit; empty: all protocols that ask about the same subject, on
            any scale.
        about: subject of the questions, "chat" or "reply".
    """

    name: str
    title: str
    source: str
    questions: tuple[Question, ...]
    only_in: tuple[str, ...] = ()
    about: Literal["chat", "reply"] = "reply"

    @property
    def credit(self) -> str:
        """Source of the questions, with a note if Confab worded them."""
        return self.source if self.source == "Confab" else f"after {self.source}, wording by Confab"


def _questions(plain_set: Mapping[str, Any]) -> tuple[Question, ...]:
    shared = {"kind": "scale", **plain_set.get("each", {})}
    questions = [{**shared, **question} for question in plain_set["questions"]]
    for question in questions:
        # Points of a comparison of two replies have no good or bad direction.
        if question["kind"] == "scale" and question.get("low", 1) >= 0 and not question.get("expected"):
            question.setdefault("reversed", False)
    return tuple(map(Question.model_validate, questions))


QUESTION_SETS = tuple(
    QuestionSet(
        name,
        plain_set["title"],
        plain_set["source"],
        _questions(plain_set),
        tuple(plain_set.get("only_in", ())),
        plain_set.get("about", "reply"),
    )
    for name, plain_set in READY_MADE["sets"].items()
)


def question_set(name: str) -> QuestionSet | None:
    """Return the set with this name, or None."""
    return next((candidate for candidate in QUESTION_SETS if candidate.name == name), None)


def ready_questions(name: str) -> tuple[Question, ...]:
    """Return the default questions of a protocol, or those of a set.

    Raises:
        KeyError: no such name.
    """
    return _questions(READY_MADE["protocols"].get(name) or READY_MADE["sets"][name])


DEFAULT_QUESTIONS = ready_questions("interactive")
"""The five 7-point questions of Ghandeharioun et al. (2019)."""
