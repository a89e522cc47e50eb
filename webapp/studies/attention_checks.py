"""Settings of attention checks and of the quiz about the instructions.

Attention checks among items are replies that state the answer to give, hidden among the items that participants
judge. A check is a value of the study. Drawn into a task it is stored as an item that no result counts.

The quiz, and attention checks in a chat, are for every protocol. Attention checks among questions are questions with
the answers that pass (`webapp.studies.questions`). In a study's file:

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
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, model_validator

from chatbots.text import quote
from chatbots.validation import InputModel, Many
from webapp.studies.questions import Key, Option, Question, first_duplicate, is_same_text


class AttentionCheck(InputModel):
    """One check: its text, and the answers that pass."""

    context: Many[str] = Field(default=(), title="The talk before", description="Oldest first.")
    response: str = Field(
        min_length=1,
        max_length=2000,
        title="The reply",
        description="It says which answer to choose, in the middle of an ordinary reply.",
    )
    second_response: str = Field(
        default="",
        max_length=2000,
        title="The second reply",
        description="Where two replies are compared; else it stays empty.",
    )
    reference: str = Field(
        default="",
        max_length=2000,
        title="The reference reply",
        description="For replies that are rated next to a reference reply; else it stays empty.",
    )
    reference_score: float | None = Field(default=None, title="Its score", description="As the study's scale has it.")
    expected: dict[Key, Annotated[Many[int], Field(min_length=1)]] = Field(
        min_length=1,
        title="Answers that pass",
        description="By the key of a question; of two replies 1 is the first, 0 the same and -1 the second. Other "
        "questions may be answered in any way.",
    )

    @property
    def key(self) -> str:
        """Name of the item that represents it: equal checks have the same name in every version."""
        plain = self.model_dump(mode="json")
        for name in ("second_response", "reference", "reference_score"):
            if not plain[name]:
                del plain[name]  # as checks were known before there was one
        text = json.dumps(plain, sort_keys=True)
        return f"check/{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class Attention(InputModel):
    """Settings for checking that participants read what they judge."""

    attention_checks: Annotated[Many[AttentionCheck], Field(max_length=50)] = Field(
        default=(),
        title="Attention checks",
        description="A participant who misses more than allowed is told so at the end, and their work is excluded.",
    )
    n_checks: int = Field(
        default=1,
        ge=0,
        le=5,
        title="Checks a task",
        description="So many of them stand at drawn places among the items.",
    )
    n_gold: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold items a task",
        description="So many items whose right answer is known stand among the others. No result counts them.",
    )
    gold_misses_allowed: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold items that may be missed",
        description="In one task. A participant who misses more is told so at the end, and their work is excluded.",
    )
    n_repeated: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Items shown twice",
        description="So many items of a task come again later in it: how far people agree with themselves. The second "
        "answer counts in no result.",
    )


def answers_beyond(expected: Mapping[str, Sequence[float]], scales: Mapping[str, tuple[float, float]]) -> str:
    """Return an error message if expected answers do not fit the study's questions; else an empty string.

    Args:
        expected: the answers by the question's key.
        scales: lowest and highest answer by the question's key.
    """
    for key, passing in expected.items():
        if key not in scales:
            return f"an answer to “{key}” is expected, which is none of {', '.join(scales)}."
        low, high = scales[key]
        beyond = [answer for answer in passing if not low <= answer <= high]
        if beyond:
            return f"{beyond[0]:g} is expected for “{key}”, whose scale is {low:g} to {high:g}."
    return ""


MOST_QUIZ_ATTEMPTS = 2
"""Of the quiz; who misses a question in the last one is screened out."""


class QuizQuestion(InputModel):
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
        if again := first_duplicate(self.options):
            raise ValueError(f"options has {quote(again)} twice; each must stand there once")
        if self.right not in self.options:
            raise ValueError(f"right is {quote(self.right)}; it must be one of the options")
        if not self.point and not self.why:
            raise ValueError(
                "why is empty, and no point of the instructions is named; a participant who misses the question "
                "must be told one of them"
            )
        return self

    def to_question(self, number: int) -> Question:
        """Return it as pages show questions; `number` from 1 makes its key."""
        return Question(key=f"quiz_{number}", title=self.question, kind="choice", options=self.options)


def quiz_digest(questions: Sequence[QuizQuestion]) -> str:
    """Return a digest of a quiz: equal questions have an equal digest in every version of a study."""
    parts = [[question.question, list(question.options), question.right] for question in questions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class ChatCheck(InputModel):
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
        default=(), title="Answers to choose from", description="One a line. None: people write their answer."
    )
    expected: Annotated[Many[Option], Field(min_length=1, max_length=20)] = Field(
        title="Answers that pass",
        description="One a line. Of what people write, capitals and signs at its ends do not count.",
    )

    @model_validator(mode="after")
    def _can_be_passed(self) -> ChatCheck:
        if len(self.options) == 1:
            raise ValueError("options must be two or more answers, or none where people write")
        if again := first_duplicate(self.options):
            raise ValueError(f"options has {quote(again)} twice; each must stand there once")
        beyond = [answer for answer in self.expected if self.options and answer not in self.options]
        if beyond:
            raise ValueError(f"expected has {quote(beyond[0])}; it must be one of the options")
        if self.options and set(self.options) <= set(self.expected):
            raise ValueError("expected must leave an option out: every answer would pass")
        return self

    @property
    def digest(self) -> str:
        """Digest of the check: equal in every version of the study that has it."""
        parts = [self.question, list(self.options), list(self.expected)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def passes(self, answer: str) -> bool:
        """Return True if the answer is among those that pass."""
        if self.options:
            return answer in self.expected
        return any(is_same_text(answer, expected) for expected in self.expected)


class Checking(InputModel):
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
        description="Used only if *Pay for the screened out* is empty. Confab cannot send it unless it is an "
        "amount in the study's currency.",
    )
    misses_allowed: int = Field(
        default=0,
        ge=0,
        le=20,
        title="Attention checks that may be missed",
        description="In one task. A participant who misses more is told so at the end, and their work is excluded. "
        "(Prolific lets you reject those who missed two.)",
    )
    chat_checks: Annotated[Many[ChatCheck], Field(max_length=10)] = Field(
        default=(), title="Attention checks in the chat", description="Each is asked once in every chat."
    )


def quiz_rows(questions: Sequence[QuizQuestion], answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return a participant's quiz answers as stored: question, answer, and whether it is right."""
    return [
        {"question": question.question, "answer": answer, "is_right": answer == question.right}
        for question, answer in zip(questions, answers, strict=True)
    ]
