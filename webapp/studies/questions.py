"""Questions before and after a task: settings, validation, default texts.

Researchers write the questions as a list in YAML or JSON:

    - key: age
      title: How old are you?
      kind: choice
      options: [18 to 29, 30 to 59, 60 or older]
    - key: fluency
      title: How fluent were the replies?
      kind: scale
      low: 1
      high: 7
      labels: {1: not at all, 7: extremely}

Default texts are English in protocols and values; catalogues have each of their lines, which `texts_said` lists for
translators. Researchers' own texts stay unchanged unless they equal a default text.

Bots are rated on the scales asked after a task: `webapp.studies.rubrics` makes the rows of the version's rubric from
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from django.utils.translation import gettext as _
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from chatbots.text import is_blank, quote, sanitise_input
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake
from webapp.studies.participant_texts import texts_in

MOST_CHARS = 1000
"""Maximum length of a written answer."""
BETWEEN_CHOICES = "; "
"""Separator of several choices in exports; not allowed in options."""
MOST_POINTS_IN_A_ROW = 11
"""Maximum number of points that fit side by side on a phone; longer scales get a number box."""
TAKEN_KEYS = ("comments", "csrfmiddlewaretoken")
"""Names that the rating form uses itself."""

Kind = Literal["scale", "choice", "choices", "text"]
Order = Literal["fixed", "shuffled"]
Answer = str | int | list[str] | list[int] | list[dict[str, Any]]
Answers = dict[str, Answer]


def _one_line(text: str) -> str:
    if text != " ".join(text.split()) or BETWEEN_CHOICES in text:
        raise ValueError("it must be one line without “; ” and without spaces at the ends")
    return text


def _point(key: Any) -> Any:
    """Parse a scale point, since JSON stores keys as strings."""
    try:
        return int(key) if isinstance(key, str) else key
    except ValueError:
        return key


Key = Annotated[
    str,
    Field(max_length=50, pattern="^[a-z][a-z0-9_]*$"),
    TypeDescription("lower-case letters, digits and _ (at most 50), with a letter first"),
]
Option = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
DEFAULT_SCALE = (1, 7)
"""Lowest and highest point of a new scale; `ready_made.yaml` labels them."""
Point = Annotated[int, BeforeValidator(_point), Field(ge=-1000, le=1000)]
Passing = Annotated[
    str,
    BeforeValidator(lambda answer: str(answer) if isinstance(answer, int) else answer),
    Field(min_length=1, max_length=200),
]
"""Answer that passes an attention check; points of a scale are digits."""
Words = Annotated[str, Field(min_length=1, max_length=60)]


class ShowWhen(InputModel):
    """Condition for showing a question: certain answers to an earlier one."""

    key: Key = Field(title="Key of the other question")
    answers: Annotated[Many[Passing], Field(min_length=1, max_length=200)] = Field(title="Its answers")


DIRECTIONS = {"higher": False, "lower": True, "unknown": None}
"""Directions of a scale, with `Question.reversed` of each."""


class Question(InputModel):
    """One question."""

    key: Key = Field(
        title="Key", description="Name of its column in exports. It stays the same when the wording changes."
    )
    title: str = Field(min_length=1, max_length=300, title="Question")
    name: str = Field(default="", max_length=100, title="Short name", description="Used in tables and plots.")
    kind: Kind = Field(title="Kind")
    help: str = Field(default="", max_length=500, title="Help", description="Shown below the question.")
    required: bool = Field(default=True, title="Required")
    options: Annotated[Many[Option], Field(max_length=200)] = Field(default=(), title="Answers to choose from")
    low: Point = Field(default=DEFAULT_SCALE[0], title="Lowest point")
    high: Point = Field(default=DEFAULT_SCALE[1], title="Highest point")
    labels: dict[Point, Words] = Field(
        default_factory=dict, title="Point labels", description="At the two ends, at all points or at some."
    )
    reversed: bool | None = Field(
        default=None,
        title="Direction",
        description="In a file: true if lower is better, false if higher is better; the same as `direction: lower`, "
        "`higher` or `unknown`. Analyses reverse scales on which lower is better; exports keep answers as given.",
    )

    expected: Annotated[Many[Passing], Field(max_length=50)] = Field(
        default=(),
        title="Attention check: answers that pass",
        description="Leave empty if this is not an attention check. Bots are not rated on a check. A participant who "
        "misses it is told so at the end.",
    )
    admits: Annotated[Many[Passing], Field(max_length=200)] = Field(
        default=(),
        title="Screening: answers that admit",
        description="Any other answer ends the study as screened out, and the participant is told so immediately. "
        "Only before the task. Leave empty to admit every answer.",
    )

    show_when: ShowWhen | None = Field(
        default=None,
        title="Shown only after an answer",
        description="The key of an earlier question, and the answers after which this one is shown. A hidden "
        "question needs no answer, and none is stored. Leave empty to show it always.",
    )

    only_with_goal: bool = Field(
        default=False,
        title="Shown only if the condition has a goal",
        description="Not asked in conditions without a goal.",
    )

    _options_shown: dict[str, str] = PrivateAttr(default_factory=dict)
    """Translated options (`languages.question_told`)."""

    @model_validator(mode="before")
    @classmethod
    def _read_direction(cls, data: Any) -> Any:
        """Read `direction`, the readable form of `reversed`."""
        if not isinstance(data, dict) or "direction" not in data:
            return data
        data = dict(data)
        direction = data.pop("direction")
        if direction not in DIRECTIONS:
            raise ValueError(f"direction is {quote(direction)}; it must be one of {', '.join(DIRECTIONS)}")
        if data.setdefault("reversed", DIRECTIONS[direction]) != DIRECTIONS[direction]:
            raise ValueError("direction and reversed contradict each other; leave one out")
        return data

    @property
    def options_shown(self) -> list[tuple[str, str]]:
        """Return the stored options, each with the words shown to the participant."""
        return [(option, self._options_shown.get(option, option)) for option in self.options]

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Question:
        has_options = self.kind in ("choice", "choices")
        if self.options and not has_options:
            reason = "participants write a text themselves" if self.kind == "text" else "a scale has points"
            raise ValueError(f"options must be left out: {reason}")
        if has_options and len(self.options) < 2:
            raise ValueError(f"options must be two or more for kind {quote(self.kind)}")
        if again := first_duplicate(self.options):
            raise ValueError(f"options has {quote(again)} twice; list each answer once")
        if self.kind != "scale":
            scale_fields = [name for name in _OF_SCALES if getattr(self, name) != _OF_SCALES[name]]
            if scale_fields:
                raise ValueError(f"{scale_fields[0]} must be left out: only a 'scale' has it")
        elif self.low >= self.high:
            raise ValueError(f"low is {self.low}; it must be below high, which is {self.high}")
        elif beyond := [point for point in self.labels if not self.low <= point <= self.high]:
            points = f"from {self.low} to {self.high}"
            raise ValueError(f"labels has words at {beyond[0]}; the scale has points {points}")
        if wrong := self._expected_wrong() or self._admits_wrong():
            raise ValueError(wrong)
        return self

    @property
    def possible(self) -> list[str]:
        """Return the answers that can be chosen."""
        if self.kind == "scale":
            return [str(point) for point in range(self.low, self.high + 1)]
        return list(self.options)

    def _admits_wrong(self) -> str:
        """Return an error about the admitting answers.

        Empty if they are valid.
        """
        if not self.admits:
            return ""
        if self.kind == "text":
            return "admits must be left out: participants write a text themselves"
        if self.expected:
            return "admits must be left out: an attention check does not screen participants"
        if not self.required:
            return "required must be true: a screening question must be answered"
        possible = self.possible
        if beyond := [answer for answer in self.admits if answer not in possible]:
            return f"admits has {quote(beyond[0])}; it must be one of {', '.join(possible)}"
        if set(possible) <= set(self.admits):
            return "admits must leave out at least one answer; otherwise every answer would admit"
        return ""

    def _expected_wrong(self) -> str:
        """Return an error about the passing answers.

        Empty if they are valid or this is not an attention check.
        """
        if not self.expected:
            return ""
        if not self.required:
            return "required must be true: an attention check must be answered"
        if self.reversed:
            return "reversed must be left out: bots are not rated on an attention check"
        if self.show_when:
            return "show_when must be left out: every participant gets the attention check"
        possible = self.possible
        beyond = [answer for answer in self.expected if answer not in possible]
        if beyond and self.kind != "text":
            return f"expected has {quote(beyond[0])}; it must be one of {', '.join(possible)}"
        if self.kind in ("scale", "choice") and set(possible) <= set(self.expected):
            return "expected must leave out at least one answer; otherwise every answer would pass"
        return ""

    @property
    def is_check(self) -> bool:
        """Return True if the question only checks attention."""
        return bool(self.expected)

    @property
    def is_rated(self) -> bool:
        """Return True if bots are rated on the question's scale."""
        return self.kind == "scale" and not self.expected

    @property
    def is_background(self) -> bool:
        """Return True if the answers, asked before a task, group participants."""
        return not self.expected and self.kind in ("choice", "scale")

    def passes(self, answer: Any) -> bool:
        """Return True if an answer passes the check.

        If several options can be selected, it must be exactly the expected ones.
        """
        if self.kind == "choices":
            return set(answer or ()) == set(self.expected)
        text = "" if answer is None else str(answer)
        if self.kind == "text":
            return any(is_same_text(text, expected) for expected in self.expected)
        return text in self.expected

    def lets_in(self, answer: Any) -> bool:
        """Return True if an answer admits the participant.

        If several options are selected, one admitting option is enough.
        """
        chosen = answer if isinstance(answer, list) else [answer]
        return not self.admits or any(str(option) in self.admits for option in chosen)

    @property
    def column(self) -> str:
        """Name of the column in exports and of the form field.

        The form field is the one before the task.
        """
        return f"question_{self.key}"

    @property
    def short(self) -> str:
        """Short name for tables and plots."""
        return self.name or self.key.replace("_", " ").capitalize()

    @property
    def is_row(self) -> bool:
        """True if the question is shown as a row of points.

        This needs a scale with few enough points.
        """
        return self.kind == "scale" and self.high - self.low < MOST_POINTS_IN_A_ROW

    @property
    def points(self) -> list[tuple[int, str]]:
        """Points of a row with their labels, which may be empty."""
        if not self.is_row:
            return []
        return [(point, self.labels.get(point, "")) for point in range(self.low, self.high + 1)]

    @property
    def has_words_between(self) -> bool:
        """True if points other than the two ends have labels."""
        return bool(self.labels.keys() - {self.low, self.high})

    def to_plain(self) -> dict[str, Any]:
        """Return the question as in a file.

        Defaults are left out, except for the ends of a scale.
        """
        plain = self.model_dump(mode="python", exclude_defaults=True)
        if self.kind == "scale":
            plain |= {"low": self.low, "high": self.high}
        plain_fields = {name: plain[name] for name in type(self).model_fields if name in plain}
        if self.reversed is False:
            plain_fields = {
                ("direction" if name == "reversed" else name): value for name, value in plain_fields.items()
            }
            plain_fields["direction"] = "higher"
        if "options" in plain_fields:
            plain_fields["options"] = list(plain_fields["options"])
        if self.show_when:
            plain_fields["show_when"] = {"key": self.show_when.key, "answers": list(self.show_when.answers)}
        for name in ("expected", "admits"):
            if name in plain_fields:
                plain_fields[name] = [int(answer) if self.kind == "scale" else answer for answer in getattr(self, name)]
        if "labels" in plain_fields:
            plain_fields["labels"] = dict(sorted(plain_fields["labels"].items()))
        return plain_fields


_OF_SCALES: dict[str, Any] = {"low": DEFAULT_SCALE[0], "high": DEFAULT_SCALE[1], "labels": {}, "reversed": None}


def first_duplicate(names: Sequence[str]) -> str:
    """Return the first name that is repeated; empty if there is none."""
    return next((name for i, name in enumerate(names) if name in names[:i]), "")


def is_same_text(first: str, second: str) -> bool:
    """Return True if two texts differ at most in case and punctuation.

    Spaces, and signs at the ends, are ignored too.
    """
    plain = [" ".join(text.split()).strip(" .,;:!?\"'“”‘’").casefold() for text in (first, second)]
    return plain[0] == plain[1]


def translate_questions(questions: Sequence[Question], language: str) -> tuple[Question, ...]:
    """Translate Confab's default questions; their keys and scales do not change."""
    plain = texts_in([question.to_plain() for question in questions], language)
    return tuple(Question.model_validate(plain_question) for plain_question in plain)


def validate_keys(questions: Sequence[Question], list_path: str, reserved: Sequence[str] = ()) -> list[Mistake]:
    """Return mistakes for keys that are duplicated or reserved.

    Args:
        list_path: path of the list.
        reserved: keys that no question may have.
    """
    first: dict[str, int] = {}
    mistakes = []
    for i, question in enumerate(questions):
        path = f"{list_path}[{i}].key"
        before = first.setdefault(question.key, i)
        if before != i:
            as_before = f"the same as {list_path}[{before}].key; choose another key"
            mistakes.append(Mistake(path, f"{path} is {quote(question.key)}, {as_before}"))
        elif question.key in reserved:
            message = f"{path} is {quote(question.key)}, a name that the form itself uses; choose another"
            mistakes.append(Mistake(path, message))
    return mistakes


def validate_no_screening(questions: Sequence[Question], list_path: str) -> list[Mistake]:
    """Return a mistake for each screening question after the task."""
    paths = [f"{list_path}[{i}].admits" for i, question in enumerate(questions) if question.admits]
    return [
        Mistake(path, f"{path} must be left out: only questions before the task can screen participants")
        for path in paths
    ]


def validate_show_when(questions: Sequence[Question], list_path: str) -> list[Mistake]:
    """Return a mistake for each invalid condition of a question.

    A condition needs an earlier question with these answers.
    """
    before: dict[str, Question] = {}
    mistakes = []
    for i, question in enumerate(questions):
        path = f"{list_path}[{i}].show_when"
        if (when := question.show_when) is not None:
            condition_question = before.get(when.key)
            beyond = (
                []
                if condition_question is None
                else [answer for answer in when.answers if answer not in condition_question.possible]
            )
            if condition_question is None or condition_question.kind == "text":
                known = ", ".join(key for key, earlier in before.items() if earlier.kind != "text") or "none"
                message = f"{path}.key is {quote(when.key)}; it must be an earlier question with answers to choose from"
                mistakes.append(Mistake(f"{path}.key", f"{message} ({known})"))
            elif beyond:
                message = (
                    f"{path}.answers has {quote(beyond[0])}; it must be one of {', '.join(condition_question.possible)}"
                )
                mistakes.append(Mistake(f"{path}.answers", message))
        before[question.key] = question
    return mistakes


def _is_shown(question: Question, questions: Mapping[str, Question], answers: Mapping[str, Any]) -> bool:
    """Return True if a question's condition holds.

    The question that it depends on must be shown too.
    """
    if (when := question.show_when) is None:
        return True
    condition_question, answer = questions.get(when.key), answers.get(when.key)
    chosen = answer if isinstance(answer, list | tuple) else [answer]
    return (
        condition_question is not None
        and _is_shown(condition_question, questions, answers)
        and any(str(option) in when.answers for option in chosen)
    )


def answers_read(questions: Sequence[Question], answers: Mapping[str, Any]) -> tuple[Answers, dict[str, str]]:
    """Return the valid answers, and errors about the invalid ones, by key.

    Hidden questions are not required, and answers to them are dropped.

    Args:
        answers: a text, a number or a list of options by key; unknown keys are ignored.
    """
    valid: Answers = {}
    wrong: dict[str, str] = {}
    by_key = {question.key: question for question in questions}
    for question in questions:
        if not _is_shown(question, by_key, answers):
            continue
        answer, error = _READERS[question.kind](question, answers.get(question.key))
        if error:
            wrong[question.key] = error
        elif answer not in (None, "", []):
            valid[question.key] = answer
        elif question.required:
            wrong[question.key] = _missing(question)
    return valid, wrong


def _missing(question: Question) -> str:
    if question.kind != "scale":
        return _("Please answer this question.")
    words = _("Please choose a number from %(low)g to %(high)g.")
    return words % {"low": question.low, "high": question.high}


def _scale(question: Question, answer: Any) -> tuple[Any, str]:
    if answer is None or is_blank(str(answer)):
        return None, ""
    try:
        value = float(answer)
    except (TypeError, ValueError):
        return None, _missing(question)
    if question.low <= value <= question.high and value.is_integer():
        return int(value), ""
    words = _("%(value)s is not on the scale from %(low)g to %(high)g.")
    value_text = f"{value:g}" if abs(value) < 1e6 else str(answer)[:20]
    return None, words % {"value": value_text, "low": question.low, "high": question.high}


def _choice(question: Question, answer: Any) -> tuple[Any, str]:
    if answer and answer not in question.options:
        return None, _("Choose one of the answers shown.")
    return answer, ""


def _choices(question: Question, answer: Any) -> tuple[Any, str]:
    chosen = [answer] if isinstance(answer, str) and answer else list(answer or ())
    if not set(chosen) <= set(question.options):
        return None, _("Choose from the answers shown.")
    return [option for option in question.options if option in chosen], ""


def _text(question: Question, answer: Any) -> tuple[Any, str]:
    text = sanitise_input(str(answer or ""))
    if len(text) > MOST_CHARS:
        words = _("Write up to %(most)d characters; your text has %(n)d.")
        return None, words % {"most": MOST_CHARS, "n": len(text)}
    return text, ""


_READERS = {"scale": _scale, "choice": _choice, "choices": _choices, "text": _text}
