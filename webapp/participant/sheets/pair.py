"""Two replies side by side: for each question the better one, or that they are the same.

The stored answer refers to the stored pair, whichever reply stood on the left: 1 the first is better, 0 neither,
-1 the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from webapp.participant.sheets.base import Asked, register_sheet
from webapp.studies.questions import Question

_A, _SAME, _B = "a", "same", "b"


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """One row; `given` is "a", "same", "b" or empty."""

    number: int
    question: Question
    given: str
    errors: list[str]

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.question.key}-a"


class PairForm(forms.Form):
    """One field per question, named by its key."""

    comment = ""
    sides: tuple[str, ...] = (_A, _SAME, _B)
    missing = gettext_lazy("Please choose A, B or “Same”.")

    def __init__(self, asked: Asked, data: Mapping[str, Any] | None = None) -> None:
        [*slots] = asked.judgement.slots
        # Of two slots the first stands on side A; of one item the order was drawn.
        self.is_flipped = len(slots) == 1 and slots[0].is_flipped
        rating = asked.judgement.rating
        if data is None and rating is not None:
            data = {key: self.shown(number) for key, number in rating.answers.items()}
        super().__init__(data)
        self.asked = list(asked.questions)
        for question in self.asked:
            self.fields[question.key] = forms.ChoiceField(
                choices=[(side, side) for side in self.sides],
                required=question.required,
                error_messages={
                    "required": self.missing,
                    "invalid_choice": self.missing,
                },
            )

    def shown(self, number: float) -> str:
        """Return the page's value for a stored answer."""
        if not number:
            return _SAME
        return _A if (number > 0) != self.is_flipped else _B

    def _stored(self, given: str) -> int:
        if given == _SAME:
            return 0
        return 1 if (given == _A) != self.is_flipped else -1

    @property
    def answers(self) -> dict[str, float]:
        """Answers to store, by the questions' keys."""
        given = {one.key: self.cleaned_data.get(one.key) for one in self.asked}
        return {key: self._stored(side) for key, side in given.items() if side}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error messages next to their questions."""
        for key, message in errors.items():
            self.add_error(key if key in self.fields else None, message)

    def questions(self) -> list[PairQuestion]:
        """Return the rows, with choices and errors."""
        rows = []
        for number, question in enumerate(self.asked, start=1):
            errors: Iterable[Any] = self.errors.get(question.key, [])
            given = str(self.data.get(question.key, "")) if self.is_bound else ""
            rows.append(PairQuestion(number, question, given, [str(error) for error in errors]))
        return rows


@register_sheet
class Pair:
    """A row of A, Same and B for each question."""

    name = "pair"

    def form(self, asked: Asked, data: Mapping[str, Any] | None = None) -> PairForm:
        return PairForm(asked, data)
