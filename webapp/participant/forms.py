"""Rating form: a version's questions after a task, and a box for comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from webapp.participant.asked import Given, QuestionShown, given_in
from webapp.studies.questions import Question, answers_read


class RatingForm(forms.Form):
    """One field per question, named by its key, and `comments`.

    Errors of the rating service are added by `refuse`.
    """

    comments = forms.CharField(
        required=False,
        max_length=5000,
        strip=True,
        label=gettext_lazy("Anything else?"),
        widget=forms.Textarea(attrs={"rows": 3, "class": "input", "maxlength": 5000}),
    )

    def __init__(
        self,
        questions: Sequence[Question],
        data: Mapping[str, Any] | None = None,
        *,
        show_errors: bool = True,
        first_number: int = 1,
    ) -> None:
        """Make a form for the questions, in the order in which they are shown.

        Args:
            data: values sent now or before; None if there are none.
            show_errors: True if the page shows errors.
            first_number: number of the first question; others may stand above.
        """
        super().__init__(data)
        self.first_number = first_number
        self.asked = list(questions)
        self.show_errors = show_errors
        self.answers: dict[str, Any] = {}
        for question in self.asked:
            self.fields[question.key] = forms.Field(required=False)

    def clean(self) -> None:
        """Read the answers, and set the error of each question with an invalid answer."""
        self.answers, wrong = answers_read(self.asked, self._given)
        self.refuse(wrong)

    @property
    def _given(self) -> dict[str, Given]:
        return {
            question.key: given_in(self.data, question, question.key) for question in self.asked
        }

    @property
    def comment(self) -> str:
        """The text beside them."""
        return self.cleaned_data["comments"]

    @property
    def typed(self) -> dict[str, Given]:
        """Values sent for the form's own fields, valid or not."""
        sent: dict[str, Given] = {**self._given, "comments": str(self.data.get("comments", ""))}
        return {name: given for name, given in sent.items() if given}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions."""
        for key, message in errors.items():
            self.add_error(key if key in self.fields else None, message)

    def questions(self) -> list[QuestionShown]:
        """Return the questions as the page shows them, with answers and errors."""
        given = self._given if self.is_bound else {}
        wrong = self.errors if self.show_errors else {}
        return [
            QuestionShown(
                number=number,
                question=question,
                name=question.key,
                given=given.get(question.key, ""),
                error=str(wrong[question.key][0]) if question.key in wrong else "",
            )
            for number, question in enumerate(self.asked, start=self.first_number)
        ]
