"""Interface of a question form, and the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from chatbots.registry import C, Registry
from webapp.ratings.rating_tasks import RequestedRating
from webapp.studies.models import Rubric, StudyVersion
from webapp.studies.questions import Question

if TYPE_CHECKING:
    from webapp.participant.simulated.answers import ScriptedPerson
    from webapp.participant.simulated.client import PageForm


@dataclass(frozen=True, slots=True)
class FormContext:
    """Context of the questions of a form.

    Attributes:
        rubric: the scales, as rows.
        questions: the same scales as the study's questions, in the participant's order. Other questions of the study
            are below the form and not part of it.
        judgement: the rated object, with its stored rating, if any.
        version: version of the study.
    """

    rubric: Rubric
    questions: Sequence[Question]
    judgement: RequestedRating
    version: StudyVersion


class FormQuestion(Protocol):
    """One question as a template shows it. Sheets and their partials can share more attributes.

    An attribute `is_refused` is True if there is an answer, but a wrong one; without it, errors are missing answers.
    """

    @property
    def number(self) -> int:
        """Its number on the page, from 1."""
        ...

    @property
    def anchor(self) -> str:
        """The id of its first control.

        The summary of missing answers links to it.
        """
        ...

    @property
    def errors(self) -> Sequence[str]:
        """Errors of its answer."""
        ...


class SheetForm(Protocol):
    """Form with submitted or stored answers.

    A Django form with the properties below is one.
    """

    def is_valid(self) -> bool:
        """Return True if the answers could be parsed.

        The rating service checks them.
        """
        ...

    @property
    def answers(self) -> dict[str, float]:
        """The answers as stored: numbers by name."""
        ...

    @property
    def comment(self) -> str:
        """The comment text."""
        ...

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error messages next to their questions."""
        ...

    def questions(self) -> Sequence[FormQuestion]:
        """Return the questions as shown on the page."""
        ...


class Sheet(Protocol):
    """Question form about one rated object."""

    name: str

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> SheetForm:
        """Return the form with submitted answers.

        Otherwise with stored ones, or empty.
        """
        ...


@dataclass(frozen=True, slots=True)
class ScriptedPage:
    """Page of the step `judge`, as a scripted participant reads it.

    Attributes:
        form: fields of the page's form.
        html: the page.
        message: the last utterance before the judged texts; heard: the texts, in their order.
        answers: answers so far, by field: radio buttons, numbers and texts.
    """

    form: PageForm
    html: str
    message: str
    heard: list[str]
    answers: dict[str, str | list[str]]


@runtime_checkable
class ScriptedSheet(Protocol):
    """Sheet with a script of its own; those without one are answered field by field.

    Attributes:
        scripted_fields: fields that only the script answers.
    """

    scripted_fields: tuple[str, ...]

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        """Return a scripted participant's answers: those so far, with the sheet's own."""
        ...


sheets: Registry[Sheet] = Registry("sheet", "webapp.participant.question_forms")


def register_sheet(cls: C) -> C:
    """Make one sheet of the decorated class and list it."""
    sheets.register(cls)
    return cls
