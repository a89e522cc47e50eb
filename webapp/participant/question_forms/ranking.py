"""Question form that puts replies in order.

Each place is a row of letters, one for each reply on the page. A script shows the replies as a list to sort instead,
and checks the letters that the list implies (`ranking.js`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms

from webapp.participant.question_forms.base import FormContext, ScriptedPage, register_sheet
from webapp.participant.rating_view import replies_shown
from webapp.studies.protocols.rank_three import RANKS, validate_order

if TYPE_CHECKING:
    from webapp.participant.simulated.answers import ScriptedPerson


@dataclass(frozen=True, slots=True)
class PlaceShown:
    """One place of the order; `answer` is the letter of a reply or empty."""

    number: int
    name: str
    answer: str


@dataclass(frozen=True, slots=True)
class OrderShown:
    """The one question of the page, with its places."""

    places: list[PlaceShown]
    errors: list[str]
    number: int = 1
    anchor: str = "ranking"

    @property
    def is_refused(self) -> bool:
        """True if there is an answer, but a wrong one."""
        return bool(self.errors) and all(place.answer for place in self.places)


class RankingForm(forms.Form):
    """One field for each place, with the letter of a reply on the page."""

    comment = ""

    def __init__(self, context: FormContext, data: Mapping[str, Any] | None = None) -> None:
        [slot] = context.judgement.slots
        assert slot.item is not None, "replies of an item are put in order"
        self.numbers = replies_shown(slot, slot.item)
        self.sides = [chr(ord("a") + place) for place in range(len(self.numbers))]
        rating = context.judgement.rating
        if data is None and rating is not None:
            side_of = dict(zip(self.numbers, self.sides, strict=True))
            data = {name: side_of.get(int(rating.answers[name]), "") for name in RANKS}
        super().__init__(data)
        self.title = next((question.title for question in context.questions), "")
        for name in RANKS:
            self.fields[name] = forms.CharField(required=False)

    def clean(self) -> None:
        """Add the error of an order that is not complete."""
        self.refuse(validate_order(self.answers))

    @property
    def answers(self) -> dict[str, float]:
        """Numbers of the replies in their item, by place."""
        number_of = dict(zip(self.sides, self.numbers, strict=True))
        sent = {name: self.cleaned_data.get(name, "") for name in RANKS}
        return {name: number_of[side] for name, side in sent.items() if side in number_of}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show the rating service's error messages next to the question, each once."""
        for name, message in errors.items():
            if name not in self.errors:
                self.add_error(name if name in self.fields else None, message)

    def questions(self) -> list[OrderShown]:
        """Return the question as the page shows it."""
        sent = self.data if self.is_bound else {}
        places = [PlaceShown(number, name, str(sent.get(name, ""))) for number, name in enumerate(RANKS, start=1)]
        errors = [str(error) for of_field in self.errors.values() for error in of_field]
        return [OrderShown(places, errors)]


@register_sheet
class RankingSheet:
    """Replies to sort; without a script, a row of letters for each place."""

    name = "ranking"
    scripted_fields = RANKS

    def form(self, context: FormContext, data: Mapping[str, Any] | None = None) -> RankingForm:
        return RankingForm(context, data)

    def scripted_answers(self, person: ScriptedPerson, page: ScriptedPage) -> dict[str, str | list[str]]:
        ranked = person.ranked(page.message, page.heard, page.form.choices[RANKS[0]])
        return {**page.answers, **dict(zip(RANKS, ranked, strict=True))}
