"""Check boxes of which exactly so many are ticked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from webapp.participant.sheets.base import Asked, register_sheet
from webapp.studies.questions import Question


@dataclass(frozen=True, slots=True)
class ChoiceShown:
    """The one question of the page: its options, and which are ticked."""

    options: list[tuple[Question, bool]]
    wanted: int
    errors: list[str]
    number: int = 1
    anchor: str = "chosen-1"

    @property
    def n_chosen(self) -> int:
        """Number of ticked options."""
        return sum(is_chosen for _option, is_chosen in self.options)


class ChooseForm(forms.Form):
    """One field, `chosen`, sent once for every option that is ticked."""

    comment = ""

    def __init__(self, asked: Asked, data: Mapping[str, Any] | None = None) -> None:
        rating = asked.judgement.rating
        if data is None and rating is not None:
            data = {"chosen": [key for key, chosen in rating.answers.items() if chosen]}
        super().__init__(data)
        self.asked = list(asked.questions)
        self.wanted = asked.version.values.choosing.n_choose
        self.question = asked.version.values.choosing.choose_question
        sent = data.getlist("chosen") if isinstance(data, QueryDict) else (data or {}).get("chosen")
        self.chosen = set(sent or ())
        self.wrong = ""

    @property
    def answers(self) -> dict[str, float]:
        """1 for what is ticked, 0 for the rest."""
        return {one.key: int(one.key in self.chosen) for one in self.asked}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error message next to the question."""
        self.wrong = next(iter(errors.values()), "")

    def questions(self) -> list[ChoiceShown]:
        """Return the question as the page shows it."""
        options = [(one, one.key in self.chosen) for one in self.asked]
        return [ChoiceShown(options, self.wanted, [self.wrong] if self.wrong else [])]


@register_sheet
class Choose:
    """Things to choose from, in one list."""

    name = "choose"

    def form(self, asked: Asked, data: Mapping[str, Any] | None = None) -> ChooseForm:
        return ChooseForm(asked, data)
