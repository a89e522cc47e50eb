"""Checks for every protocol: a quiz about the instructions, and attention checks in a chat.

Attention checks among questions are questions with the answers that pass (`webapp.studies.questions`), those among
items are in `webapp.studies.attention`. In a study's file:

    checking:
      quiz_questions:
        - question: Who is answering you?
          options: [A person in another country, A computer program]
          right: A computer program
          point: 2
      chat_checks:
        - after: 4
          question: To show that you are reading, please choose Blue.
          options: [Red, Blue, Green]
          expected: [Blue]
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from chatbots.outside import Many, Values
from chatbots.storable import quote
from webapp.studies.questions import Option, Question, said_alike, twice

MOST_ATTEMPTS = 2
"""Of the quiz; who misses a question in the last one is screened out."""


class QuizQuestion(Values):
    """One question about the instructions, whose right answer is known."""

    question: str = Field(min_length=1, max_length=300, title="Question")
    options: Annotated[Many[Option], Field(max_length=20)] = Field(
        default=(), title="Answers to choose from", description="One a line."
    )
    right: Option = Field(title="The right one", description="As it stands among the answers.")
    point: int = Field(
        default=0,
        ge=0,
        le=100,
        title="Point of the instructions",
        description="The number of the point that says it; it is marked after a miss. 0: none.",
    )
    why: str = Field(
        default="",
        max_length=500,
        title="Why",
        description="Told after a miss. May stay empty where a point of the instructions says it.",
    )

    @model_validator(mode="after")
    def _can_be_answered(self) -> QuizQuestion:
        if len(self.options) < 2:
            raise ValueError("options must be two or more answers to choose from")
        if again := twice(self.options):
            raise ValueError(f"options has {quote(again)} twice; each must stand there once")
        if self.right not in self.options:
            raise ValueError(f"right is {quote(self.right)}; it must be one of the options")
        if not self.point and not self.why:
            raise ValueError(
                "why is empty, and no point of the instructions is named; whoever misses it must be told one of them"
            )
        return self

    def asked(self, number: int) -> Question:
        """Return it as pages show questions; `number` from 1 makes its key."""
        return Question(
            key=f"quiz_{number}", title=self.question, kind="choice", options=self.options
        )


def quiz_digest(questions: Sequence[QuizQuestion]) -> str:
    """Return a digest of a quiz: equal questions have an equal digest in every version of a study."""
    said = [[one.question, list(one.options), one.right] for one in questions]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


class ChatCheck(Values):
    """A short question that is asked in the middle of a chat, by the researchers and not by the chatbot."""

    after: int = Field(
        default=3,
        ge=1,
        le=1000,
        title="After how many messages",
        description="It is asked once so many have been answered.",
    )
    question: str = Field(
        min_length=1,
        max_length=300,
        title="Question",
        description="It says what to answer: “please choose Blue”, “please write the word yes”.",
    )
    options: Annotated[Many[Option], Field(max_length=20)] = Field(
        default=(),
        title="Answers to choose from",
        description="One a line. None: people write their answer.",
    )
    expected: Annotated[Many[Option], Field(min_length=1, max_length=20)] = Field(
        title="Answers that pass",
        description="One a line. Of what people write, capitals and signs at its ends do not count.",
    )

    @model_validator(mode="after")
    def _can_be_passed(self) -> ChatCheck:
        if len(self.options) == 1:
            raise ValueError("options must be two or more answers, or none where people write")
        if again := twice(self.options):
            raise ValueError(f"options has {quote(again)} twice; each must stand there once")
        beyond = [one for one in self.expected if self.options and one not in self.options]
        if beyond:
            raise ValueError(f"expected has {quote(beyond[0])}; it must be one of the options")
        if self.options and set(self.options) <= set(self.expected):
            raise ValueError("expected must leave an option out: every answer would pass")
        return self

    @property
    def digest(self) -> str:
        """Digest of the check: equal in every version of the study that has it."""
        said = [self.question, list(self.options), list(self.expected)]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]

    def passes(self, answer: str) -> bool:
        """Return True if the answer is among those that pass."""
        if self.options:
            return answer in self.expected
        return any(said_alike(answer, one) for one in self.expected)


class Checking(Values):
    """Settings for checking that participants understood the instructions and pay attention."""

    quiz_questions: Annotated[Many[QuizQuestion], Field(max_length=20)] = Field(
        default=(),
        title="Questions about the instructions",
        description="All must be right, at the first or the second try; else the person is screened out.",
    )
    screened_out_pay: str = Field(
        default="",
        max_length=60,
        title="Pay of those who are screened out, in words",
        description="For example “£0.14”; stands beside the second try.",
    )
    misses_allowed: int = Field(
        default=0,
        ge=0,
        le=20,
        title="Attention checks that may be missed",
        description="In one go. Whoever misses more is told so at the end, and their work is set apart. "
        "(Prolific lets you reject those who missed two.)",
    )
    chat_checks: Annotated[Many[ChatCheck], Field(max_length=10)] = Field(
        default=(),
        title="Attention checks in the chat",
        description="Each is asked once in every chat.",
    )


def quiz_told(questions: Sequence[QuizQuestion], answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return a participant's quiz answers as stored: question, answer, and whether it is right."""
    return [
        {"question": one.question, "answer": answer, "is_right": answer == one.right}
        for one, answer in zip(questions, answers, strict=True)
    ]
