"""Form with a box for each criterion of an item, and one for none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.http import QueryDict

from webapp.participant.question_forms.base import FormContext, ScriptedPage, register_sheet
from webapp.studies.protocols.criteria import CRITERIA, read_ticks
from webapp.studies.reply_marks import NONE

if TYPE_CHECKING:
    from webapp.participant.simulated.answers import ScriptedPerson

_TICKED = 0.5
"""Probability that a criterion is ticked by a scripted participant."""


@dataclass(frozen=True, slots=True)
class CriteriaQuestion:
    """The single question of the page: number, text and state of each criterion."""

    criteria: list[tuple[int, str, bool]]
    is_none: bool
    errors: list[str]
    is_refused: bool
    number: int = 1
    anchor: str = "criteria-0"


class CriteriaForm(forms.Form):
    """Form with `criteria`, sent for every ticked criterion, or for none."""

    comment = ""

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        item, rating = context.judgement.slots[0].item, context.judgement.rating
        assert item is not None, "criteria are of an item"
        if data is None and rating is not None:
            ticks = rating.other_answers.get(CRITERIA, ())
            data = {CRITERIA: [str(number) for number, tick in enumerate(ticks) if tick] or [NONE]}
        super().__init__(data)
        self.texts = [criterion["text"] for criterion in item.criteria]
        self.title = next((question.title for question in context.questions), "")
        self.codes = list((data.getlist(CRITERIA) if isinstance(data, QueryDict) else (data or {}).get(CRITERIA)) or ())
        self.wrong = ""

    def clean(self) -> None:
        """Add an error if nothing is ticked, or “None of these” and a criterion."""
        self.wrong = read_ticks(self.codes, len(self.texts))[1]
        if self.wrong:
            self.add_error(None, self.wrong)

    @property
    def answers(self) -> dict[str, Any]:
        """Numbers of the ticked criteria, as the protocol reads them."""
        return {CRITERIA: self.codes}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error message next to the criteria."""
        self.wrong = next(iter(errors.values()), "")

    def questions(self) -> list[CriteriaQuestion]:
        """Return the criteria as shown on the page."""
        if self.is_bound:
            self.is_valid()
        criteria = [(number, text, str(number) in self.codes) for number, text in enumerate(self.texts)]
        errors = [self.wrong] if self.wrong else []
        return [CriteriaQuestion(criteria, NONE in self.codes, errors, bool(errors and self.codes))]


@register_sheet
class CriteriaSheet:
    """Form with check boxes; “None of these” clears the others."""

    name = "criteria"
    scripted_fields = ()

    def form(self, asked: FormContext, data: Mapping[str, Any] | None = None) -> CriteriaForm:
        return CriteriaForm(asked, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        boxes = [box for box in page.form.boxes[CRITERIA] if box != NONE]
        ticked = [box for box in boxes if person.rng.random() < _TICKED]
        return {**page.answers, CRITERIA: ticked or [NONE]}
