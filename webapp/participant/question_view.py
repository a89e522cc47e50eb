"""Questions as participants' pages show them: forms, answers and errors.

In an arena, the researchers' question in the middle of a chat is shown in the conversations with both bots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from chatbots import derive_seed
from webapp.conversations.attention_checks import chat_checks_left
from webapp.conversations.models import Conversation
from webapp.ratings.services import COMMENT_MAX_CHARS
from webapp.studies.languages import question_told, text_told
from webapp.studies.models import Participant, StudyVersion
from webapp.studies.questions import BETWEEN_CHOICES, MOST_CHARS, Order, Question, answers_read
from webapp.studies.rubrics import post_task_questions

Given = str | list[str]


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """Point of a scale; `name` is for screen readers and includes its label."""

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
        given: submitted answer, valid or not.
        error: error message; empty if there is none.
    """

    number: int
    question: Question
    name: str
    answer: Given = ""
    error: str = ""

    @property
    def points(self) -> list[ScalePoint]:
        """The points of a row.

        Empty if the scale has too many and gets a number box.
        """
        return [
            ScalePoint(point, words, f"{point}, {words}" if words else str(point), self.answer == str(point))
            for point, words in self.question.points
        ]

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        """The options: stored value, displayed text, and whether chosen."""
        chosen = [self.answer] if isinstance(self.answer, str) else self.answer
        return [(option, words, option in chosen) for option, words in self.question.options_shown]

    @property
    def answer_words(self) -> str:
        """The chosen option as displayed, or the participant's text."""
        return dict(self.question.options_shown).get(str(self.answer), str(self.answer))

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
        """Ids of the elements that describe it: help and error."""
        ids = [f"{self.name}-help"] if self.question.help else []
        return " ".join([*ids, f"{self.name}-error"] if self.error else ids)

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.name}-1"

    @property
    def errors(self) -> list[str]:
        """Errors of the answer, in the form that all templates read."""
        return [self.error] if self.error else []

    @property
    def most_chars(self) -> int:
        """Maximum length of a text answer."""
        return MOST_CHARS


def questions_before_task(participant: Participant, version: StudyVersion) -> list[Question]:
    """Return the questions before a task, in the participant's order."""
    values = version.values
    questions = [question_told(question, version) for question in values.questions]
    return questions_ordered(questions, values.asking.questions_order, participant.pk, "before")


def questions_after_task(participant: Participant, version: StudyVersion) -> list[Question]:
    """Return the questions about a rated object, in the participant's order."""
    order = version.values.asking.after_order
    questions = [question_told(question, version) for question in post_task_questions(version)]
    return questions_ordered(questions, order, participant.pk, "after")


def questions_ordered(questions: Sequence[Question], order: Order, *of_person: object) -> list[Question]:
    """Return the questions in one participant's order.

    It is always the same for that participant.

    Args:
        of_person: value that identifies the person (and list of questions), such as the participant's id.
    """
    if order != "shuffled":
        return list(questions)
    ordered = [question for question in questions if question.show_when is None]
    Random(derive_seed(0, "order of questions", *map(str, of_person))).shuffle(ordered)
    for question in questions:
        if (when := question.show_when) is not None:  # a conditional question follows the one it depends on
            position = next(i for i, earlier in enumerate(ordered, start=1) if earlier.key == when.key)
            while position < len(ordered) and ordered[position].show_when is not None:
                position += 1
            ordered.insert(position, question)
    return ordered


def get_passing_answers(participant: Participant, questions: Sequence[QuestionShown]) -> list[tuple[str, str]]:
    """Return the answers that pass checks and screening, by field.

    Empty unless the participant is scripted.
    """
    if not participant.is_synthetic:
        return []
    return [
        (question.name, BETWEEN_CHOICES.join(right) if question.question.kind == "choices" else right[0])
        for question in questions
        if (right := question.question.expected or question.question.admits[:1])
    ]


def questions_shown(questions: Sequence[QuestionShown]) -> dict[str, Any]:
    """Return the context of `_likert.html`: the questions, and those with an error."""
    wrong = [question for question in questions if question.error]
    return {"questions": questions, "wrong": wrong, "some_refused": any(question.answer for question in wrong)}


def read_answer(sent: Mapping[str, Any], question: Question, name: str) -> Given:
    """Return the answer to a question by its form field.

    It comes from a form or stored answers.
    """
    if question.kind == "choices":
        options = sent.getlist(name) if isinstance(sent, QueryDict) else sent.get(name) or []
        return [options] if isinstance(options, str) else list(options)
    answer = sent.get(name, "")
    return "" if answer is None else str(answer)


def mid_chat_question(chats: Sequence[Conversation], version: StudyVersion) -> dict[str, Any]:
    """Return the due question, and the positions of the next ones.

    Positions are numbers of messages.

    Args:
        chats: the chat; or both of an arena, the first of which stores the answers. A message counts once both bots
            have replied to it.
    """
    first, n_answered = chats[0], min(chat.n_exchanges for chat in chats)
    remaining = chat_checks_left(first, version)
    due = next((check for check in remaining if check.after <= n_answered), None)
    return {
        "aside": due,
        "aside_question": text_told(due.question, version) if due else "",
        "aside_options": [(option, text_told(option, version)) for option in due.options] if due else [],
        # Only scripted participants get right answers.
        "aside_right": due.expected[0] if due and first.is_synthetic else "",
        "asks_after": [check.after for check in remaining if check != due],
    }


class RatingForm(forms.Form):
    """Form with one field per question, named by its key, and `comments`.

    Errors of the rating service are added by `refuse`.
    """

    comments = forms.CharField(
        required=False,
        max_length=COMMENT_MAX_CHARS,
        strip=True,
        label=gettext_lazy("Anything else?"),
        widget=forms.Textarea(attrs={"rows": 3, "class": "input", "maxlength": COMMENT_MAX_CHARS}),
    )

    def __init__(
        self,
        questions: Sequence[Question],
        data: Mapping[str, Any] | None = None,
        *,
        show_errors: bool = True,
        first_number: int = 1,
    ) -> None:
        """Build a form for the questions, in display order.

        Args:
            data: submitted values, new or old; None if there are none.
            show_errors: True if the page shows errors.
            first_number: number of the first question; others may be above it.
        """
        super().__init__(data)
        self.first_number = first_number
        self.shown_questions = list(questions)
        self.show_errors = show_errors
        self.answers: dict[str, Any] = {}
        for question in self.shown_questions:
            self.fields[question.key] = forms.Field(required=False)

    def clean(self) -> None:
        """Parse the answers, and store the error of each invalid one."""
        self.answers, wrong = answers_read(self.shown_questions, self._sent_answers)
        self.refuse(wrong)

    @property
    def _sent_answers(self) -> dict[str, Given]:
        return {question.key: read_answer(self.data, question, question.key) for question in self.shown_questions}

    @property
    def comment(self) -> str:
        """The comment text."""
        return self.cleaned_data["comments"]

    @property
    def typed(self) -> dict[str, Given]:
        """Submitted values of the form's own fields, valid or not."""
        sent: dict[str, Given] = {**self._sent_answers, "comments": str(self.data.get("comments", ""))}
        return {name: answer for name, answer in sent.items() if answer}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions."""
        for key, message in errors.items():
            self.add_error(key if key in self.fields else None, message)

    def questions(self) -> list[QuestionShown]:
        """Return the questions as shown, with answers and errors."""
        sent_answers = self._sent_answers if self.is_bound else {}
        errors = self.errors if self.show_errors else {}
        return [
            QuestionShown(
                number=number,
                question=question,
                name=question.key,
                answer=sent_answers.get(question.key, ""),
                error=str(errors[question.key][0]) if question.key in errors else "",
            )
            for number, question in enumerate(self.shown_questions, start=self.first_number)
        ]
