"""Settings of attention checks and of the quiz about instructions.

Attention checks among items are replies that state the answer to give, hidden among the items that participants judge.
A check is a value of the study. When it is drawn into a task, it is stored as an item that is excluded from all
results.

The quiz and attention checks in a chat work with every protocol. Attention checks among questions are questions with
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
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from chatbots.text import quote
from chatbots.validation import InputModel, Many
from webapp.studies.questions import Key, Option, Question, first_duplicate, is_same_text


@dataclass(frozen=True, slots=True)
class CheckCard:
    """Place and appearance of one kind of check on the builder's page of checks.

    Attributes:
        group: group of the page.
        step: step of participants that asks it.
        named_by: field that is the title of a folded card.
        add: label of the button that adds one.
        is_step: True if the step asks nothing else, so that studies without such checks skip it.
        in_chats: True if only protocols with chats can have it.
        new_answer: initial right answer to the first question.
        by_question: the field with answers by question; empty for none.
        of_sides: whether these answers are sides of a comparison; otherwise numbers.
        long: fields with several lines.
    """

    group: Literal["quiz", "practice", "attention"]
    step: str
    named_by: str
    add: str
    is_step: bool = False
    in_chats: bool = False
    new_answer: str = ""
    by_question: str = ""
    of_sides: bool = False
    long: tuple[str, ...] = ()


class CheckEntry(InputModel):
    """Base class of the checks that a list in the settings contains.

    A list with such entries in a section of `CHECK_SECTIONS` appears in the builder, in translations and in the
    datasheet. `webapp/ratings/check_kinds.py` reads its answers.
    """

    card: ClassVar[CheckCard]

    @property
    def texts(self) -> Sequence[str]:
        """Texts that participants read and that a study can translate."""
        return ()

    @classmethod
    def describe(cls, n: int, section: Any) -> str:
        """Return a phrase for the datasheet.

        Args:
            n: number of entries, at least 1.
            section: settings next to the list.
        """
        raise NotImplementedError


def check_lists(section: type[InputModel]) -> dict[str, type[CheckEntry]]:
    """Return the lists of checks in a section of the settings, with the class of their entries."""
    kinds = {name: next(iter(get_args(info.annotation)), None) for name, info in section.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, CheckEntry)}


class AttentionCheck(CheckEntry):
    """One check: its text, and the answers that pass."""

    card = CheckCard(
        "attention",
        "judge",
        "response",
        "Attention check among the items",
        new_answer="2",
        by_question="expected",
        long=("response", "second_response", "reference"),
    )
    context: Many[str] = Field(default=(), title="Context", description="Utterances, oldest first.")
    response: str = Field(
        min_length=1,
        max_length=2000,
        title="Reply",
        description="Says which answer to choose, in the middle of an ordinary reply.",
    )
    second_response: str = Field(
        default="",
        max_length=2000,
        title="Second reply",
        description="Only if two replies are compared; otherwise empty.",
    )
    reference: str = Field(
        default="",
        max_length=2000,
        title="Reference reply",
        description="Only if replies are rated next to a reference reply; otherwise empty.",
    )
    reference_score: float | None = Field(default=None, title="Reference score", description="On the study's scale.")
    expected: dict[Key, Annotated[Many[int], Field(min_length=1)]] = Field(
        min_length=1,
        title="Answers that pass",
        description="By question key. For two replies, 1 is the first, 0 the same and -1 the second. Other questions "
        "accept any answer.",
    )

    @property
    def key(self) -> str:
        """Name of the item that represents the check.

        Equal checks have the same name in every version.
        """
        plain = self.model_dump(mode="json")
        for name in ("second_response", "reference", "reference_score"):
            if not plain[name]:
                del plain[name]  # attention checks written before there was a second reply
        text = json.dumps(plain, sort_keys=True)
        return f"check/{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @classmethod
    def describe(cls, n: int, section: Attention) -> str:
        return f"{section.n_checks} attention checks per task" if section.n_checks else ""


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
        title="Checks per task",
        description="Number of checks placed at random positions among the items.",
    )
    n_gold: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold items per task",
        description="Number of items with a known right answer among the others. They are excluded from all results.",
    )
    gold_misses_allowed: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Gold misses allowed",
        description="Per task. A participant who misses more is told so at the end, and their work is excluded.",
    )
    n_repeated: int = Field(
        default=0,
        ge=0,
        le=50,
        title="Items shown twice",
        description="Number of items that come again later in a task, to measure how far participants agree with "
        "themselves. The second answer is excluded from all results.",
    )


def answers_beyond(expected: Mapping[str, Sequence[float]], scales: Mapping[str, tuple[float, float]]) -> str:
    """Return an error about expected answers that do not fit the questions.

    Empty if they fit.

    Args:
        expected: the answers by the question's key.
        scales: lowest and highest answer by the question's key.
    """
    for key, passing in expected.items():
        if key not in scales:
            return f"“{key}” has an expected answer but is not a question; the questions are {', '.join(scales)}."
        low, high = scales[key]
        beyond = [answer for answer in passing if not low <= answer <= high]
        if beyond:
            return f"{beyond[0]:g} is expected for “{key}”, but its scale is {low:g} to {high:g}."
    return ""


MOST_QUIZ_ATTEMPTS = 2
"""Maximum number of quiz attempts; a miss in the last one screens the participant out."""


class QuizQuestion(CheckEntry):
    """One question about the instructions, whose right answer is known."""

    card = CheckCard("quiz", "quiz", "question", "Question about the instructions", is_step=True)
    question: str = Field(min_length=1, max_length=300, title="Question")
    options: Annotated[Many[Option], Field(max_length=20)] = Field(
        default=(), title="Answers to choose from", description="One per line."
    )
    right: Option = Field(title="Right answer", description="Exactly as written among the answers.")
    point: int = Field(
        default=0,
        ge=0,
        le=100,
        title="Point of the instructions",
        description="Number of the point that explains it; it is highlighted after a wrong answer. 0 for none.",
    )
    why: str = Field(
        default="",
        max_length=500,
        title="Explanation",
        description="Shown after a wrong answer. Optional if the instructions already explain it.",
    )

    @model_validator(mode="after")
    def _can_be_answered(self) -> QuizQuestion:
        if len(self.options) < 2:
            raise ValueError("options must be two or more answers to choose from")
        if again := first_duplicate(self.options):
            raise ValueError(f"options has {quote(again)} twice; list each answer once")
        if self.right not in self.options:
            raise ValueError(f"right is {quote(self.right)}; it must be one of the options")
        if not self.point and not self.why:
            raise ValueError(
                "why is empty and point is 0; participants who give a wrong answer need an explanation or a point of "
                "the instructions"
            )
        return self

    @property
    def texts(self) -> Sequence[str]:
        return [self.question, *self.options, self.why]

    @classmethod
    def describe(cls, n: int, section: Any) -> str:
        return "questions about the instructions"

    def to_question(self, number: int) -> Question:
        """Return it as pages show questions.

        `number` from 1 makes its key.
        """
        return Question(key=f"quiz_{number}", title=self.question, kind="choice", options=self.options)


def quiz_digest(questions: Sequence[QuizQuestion]) -> str:
    """Return a digest of a quiz.

    Equal questions have the same digest in all versions of a study.
    """
    parts = [[question.question, list(question.options), question.right] for question in questions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class ChatCheck(CheckEntry):
    """Short question that the researchers ask in the middle of a chat."""

    card = CheckCard("attention", "chat", "question", "Attention check in the chat", in_chats=True)
    after: int = Field(
        default=3,
        ge=1,
        le=1000,
        title="Messages before the check",
        description="The check is shown after this many replies.",
    )
    question: str = Field(
        min_length=1,
        max_length=300,
        title="Question",
        description="Tells participants what to answer: “please choose Blue”, “please write the word yes”.",
    )
    options: Annotated[Many[Option], Field(max_length=20)] = Field(
        default=(),
        title="Answers to choose from",
        description="One per line. Leave empty to let participants write their answer.",
    )
    expected: Annotated[Many[Option], Field(min_length=1, max_length=20)] = Field(
        title="Answers that pass",
        description="One per line. In written answers, case and punctuation at the ends are ignored.",
    )

    @model_validator(mode="after")
    def _can_be_passed(self) -> ChatCheck:
        if len(self.options) == 1:
            raise ValueError("options must be two or more answers, or none for a written answer")
        if again := first_duplicate(self.options):
            raise ValueError(f"options has {quote(again)} twice; list each answer once")
        beyond = [answer for answer in self.expected if self.options and answer not in self.options]
        if beyond:
            raise ValueError(f"expected has {quote(beyond[0])}; it must be one of the options")
        if self.options and set(self.options) <= set(self.expected):
            raise ValueError("expected must leave out at least one option; otherwise every answer would pass")
        return self

    @property
    def digest(self) -> str:
        """Digest of the check.

        It is the same in every version of the study that has the check.
        """
        parts = [self.question, list(self.options), list(self.expected)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    @property
    def texts(self) -> Sequence[str]:
        return [self.question, *self.options]

    @classmethod
    def describe(cls, n: int, section: Any) -> str:
        return f"{n} attention checks per chat"

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
        description="Participants must get all of them right at the first or second try; otherwise they are screened "
        "out.",
    )
    screened_out_pay: str = Field(
        default="",
        max_length=60,
        title="Pay if screened out, in words",
        description="Used only if *Pay if screened out* is empty. Confab can send it only if it is an amount in the "
        "study's currency.",
    )
    misses_allowed: int = Field(
        default=0,
        ge=0,
        le=20,
        title="Attention-check misses allowed",
        description="Per task. A participant who misses more is told so at the end, and their work is excluded. "
        "(Prolific lets you reject those who missed two.)",
    )
    chat_checks: Annotated[Many[ChatCheck], Field(max_length=10)] = Field(
        default=(), title="Attention checks in the chat", description="Each is asked once in every chat."
    )


def quiz_rows(questions: Sequence[QuizQuestion], answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return a participant's quiz answers as stored.

    Each row has the question, the answer, and whether it is right.
    """
    return [
        {"question": question.question, "answer": answer, "is_right": answer == question.right}
        for question, answer in zip(questions, answers, strict=True)
    ]
