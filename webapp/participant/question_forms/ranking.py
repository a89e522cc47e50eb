"""Question form that puts replies in order.

Each place is a row of letters, one for each reply on the page. A script shows the replies as a list to sort instead,
and checks the letters that the list implies (`ranking.js`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.participant.question_forms.base import FormContext, ScriptedPage, register_sheet
from webapp.participant.question_forms.pairwise import ChosenRepliesForm
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


class RankingForm(ChosenRepliesForm):
    """One field for each place, with the letter of a reply on the page."""

    choices = RANKS

    def clean(self) -> None:
        """Add the error of an order that is not complete."""
        self.refuse(validate_order(self.answers))

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
