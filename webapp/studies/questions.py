"""What a study asks about a person before the chat: its questions as values, and which answers fit them.

Researchers write the questions as a list in YAML or JSON:

    - key: age
      title: How old are you?
      kind: choice
      options: [18 to 29, 30 to 59, 60 or older]
    - key: languages
      title: Which of these languages do you speak?
      kind: choices
      options: [English, Danish]
      required: false
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import yaml
from django.utils.translation import gettext as _
from pydantic import AfterValidator, Field, model_validator

from chatbots.outside import Many, Mistake, Values, ValuesError
from chatbots.outside_types import Wanted
from chatbots.storable import is_blank, storable

MOST_CHARS = 1000
"""The longest text that is taken as an answer."""
BETWEEN_CHOICES = "; "
"""Stands between several choices in exports, and so in no option."""

Answers = dict[str, str | list[str]]


def _one_line(text: str) -> str:
    if text != " ".join(text.split()) or BETWEEN_CHOICES in text:
        raise ValueError("it must be one line without “; ” in it and without blanks around it")
    return text


Key = Annotated[
    str,
    Field(max_length=50, pattern="^[a-z][a-z0-9_]*$"),
    Wanted("lower-case letters, digits and _ (at most 50), with a letter first"),
]
Option = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]


class Question(Values):
    """One question.

    Attributes:
        key: names its column in exports, `question_<key>`.
        kind: what is answered: a text, one of the options, or any number of them.
        required: whether it must be answered; of `choices`, by one at least.
    """

    key: Key
    title: str = Field(min_length=1, max_length=300)
    kind: Literal["text", "choice", "choices"]
    options: Annotated[Many[Option], Field(max_length=200)] = ()
    required: bool = True

    @model_validator(mode="after")
    def _options_fit(self) -> Question:
        if self.kind == "text" and self.options:
            raise ValueError("options must be left out: to a text people write what they like")
        if self.kind != "text" and len(self.options) < 2:
            raise ValueError(f"options must be two or more, as {self.kind!r} needs them")
        if twice := _twice(self.options):
            raise ValueError(f"options has {twice!r} twice; each must stand there once")
        return self

    @property
    def column(self) -> str:
        """The name of its column in exports and of its field in the form."""
        return f"question_{self.key}"


def _twice(names: Sequence[str]) -> str:
    return next((name for i, name in enumerate(names) if name in names[:i]), "")


def keys_check(questions: Sequence[Question]) -> None:
    """Check that no two questions have one key.

    Raises:
        ValuesError: with each key that was used before, whose path begins at the study's values.
    """
    first: dict[str, int] = {}
    mistakes = []
    for i, question in enumerate(questions):
        before = first.setdefault(question.key, i)
        if before != i:
            path = f"questions[{i}].key"
            message = f"{path} is {question.key!r}, as questions[{before}].key is; each must be another one"
            mistakes.append(Mistake(path, message))
    if mistakes:
        raise ValuesError(mistakes)


def questions_text(questions: Sequence[Question]) -> str:
    """Return the questions as YAML, for people to edit; empty without any."""
    plain = [question.model_dump(mode="json", exclude_defaults=True) for question in questions]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True) if plain else ""


def questions_from_text(text: str) -> Any:
    """Return what YAML or JSON says, not checked yet; an empty list for an empty text.

    Raises:
        ValueError: it is neither; the message says where it goes wrong.
    """
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    return [] if found is None else found


def answers_read(
    questions: Sequence[Question], answers: Mapping[str, Any]
) -> tuple[Answers, dict[str, str]]:
    """Return the answers that fit, and for each question whose answer does not a sentence, both by key.

    Args:
        answers: a text or a list of options by key; what answers no question is left out.
    """
    found: Answers = {}
    wrong: dict[str, str] = {}
    for question in questions:
        given = answers.get(question.key) or ""
        if question.kind == "choices":
            given = [given] if isinstance(given, str) and given else list(given)
            if not set(given) <= set(question.options):
                wrong[question.key] = _("Choose among the answers that are shown.")
                continue
            given = [option for option in question.options if option in given]
        elif question.kind == "choice" and given and given not in question.options:
            wrong[question.key] = _("Choose one of the answers that are shown.")
            continue
        elif question.kind == "text":
            given = storable(str(given)).strip()
            given = "" if is_blank(given) else given
            if len(given) > MOST_CHARS:
                words = _("Write at most %(most)d characters; these are %(n)d.")
                wrong[question.key] = words % {"most": MOST_CHARS, "n": len(given)}
                continue
        if given:
            found[question.key] = given
        elif question.required:
            wrong[question.key] = _("Please answer this question.")
    return found, wrong
