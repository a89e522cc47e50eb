"""Two conversations side by side: for each question the one that is chosen, and the reason.

As `pair`, without “the same”; the reason is stored as the rating's comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from webapp.participant.sheets.base import Asked, SheetQuestion, register_sheet
from webapp.participant.sheets.pair import PairForm, PairQuestion
from webapp.ratings.services import COMMENT_MAX_CHARS
from webapp.studies.protocols.dialogues import reason_wrong


@dataclass(frozen=True, slots=True)
class ReasonShown:
    """The box for the reason, below the questions."""

    number: int
    given: str
    errors: list[str]
    anchor: str = "reason"
    most_chars: int = COMMENT_MAX_CHARS


class ChoiceForm(PairForm):
    """One field per question, A or B, and `comments` with the reason."""

    sides = ("a", "b")
    missing = gettext_lazy("Please choose A or B.")

    def __init__(self, asked: Asked, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(asked, data)
        rating = asked.judgement.rating
        if data is None and rating is not None:
            self.data = {**self.data, "comments": rating.comment}
        self.fields["comments"] = forms.CharField(
            required=False, strip=True, max_length=COMMENT_MAX_CHARS
        )

    def clean(self) -> None:
        """Add errors of the reason to errors of the choices."""
        if "comments" not in self.errors:
            self.refuse(reason_wrong(self.comment))

    @property
    def comment(self) -> str:  # type: ignore[override]
        """The reason."""
        return str(self.cleaned_data.get("comments", ""))

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions, each once."""
        super().refuse(
            {k: text for k, text in errors.items() if text not in self.errors.get(k, [])}
        )

    @property
    def choices(self) -> list[PairQuestion]:
        """The questions with A and B."""
        return super().questions()

    @property
    def reason(self) -> ReasonShown:
        """The reason as the page shows it."""
        given = str(self.data.get("comments", "")) if self.is_bound else ""
        errors = [str(error) for error in self.errors.get("comments", [])]
        return ReasonShown(len(self.asked) + 1, given, errors)

    def questions(self) -> list[SheetQuestion]:  # type: ignore[override]
        """Return the questions in order."""
        return [*self.choices, self.reason]


@register_sheet
class Choice:
    """A row of A and B for each question, and a box for the reason."""

    name = "choice"

    def form(self, asked: Asked, data: Mapping[str, Any] | None = None) -> ChoiceForm:
        return ChoiceForm(asked, data)
