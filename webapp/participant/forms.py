"""The rating form, made from a rubric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.studies.models import Dimension, Rubric

# More steps than this do not fit side by side on a phone: such a scale gets a number box.
LIKERT_MAX_STEPS = 11


@dataclass(frozen=True, slots=True)
class LikertOption:
    """One number of a row; `name` is read aloud, with the words at the ends of the scale."""

    value: int
    name: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A dimension as the page shows it: a row of numbers, or a number box for a wide scale."""

    number: int
    dimension: Dimension
    low: float
    high: float
    options: list[LikertOption]
    value: str
    errors: list[str]

    @property
    def anchor(self) -> str:
        """The id of its first control."""
        return f"{self.dimension.key}-1"


class RatingForm(forms.Form):
    """One field per dimension, named by its key, and `comments`.

    Fields only read numbers: whether they are on the scale is the rating service's to say, whose
    errors come back by `refuse`.
    """

    comments = forms.CharField(
        required=False,
        max_length=5000,
        strip=True,
        label=gettext_lazy("Anything else?"),
        widget=forms.Textarea(attrs={"rows": 3, "class": "input", "maxlength": 5000}),
    )

    def __init__(
        self, rubric: Rubric, data: Mapping[str, Any] | None = None, *, show_errors: bool = True
    ) -> None:
        """Make a form for the rubric.

        Args:
            data: what was sent, now or before; None if nothing was.
            show_errors: whether the page says what is wrong with it.
        """
        super().__init__(data)
        self.show_errors = show_errors
        self.dimensions = list(rubric.dimensions.select_related("rubric"))
        for dimension in self.dimensions:
            low, high = dimension.scale
            words = _("Please choose a number from %(low)g to %(high)g.") % {
                "low": low,
                "high": high,
            }
            self.fields[dimension.key] = forms.FloatField(
                label=dimension.question,
                required=dimension.required,
                error_messages={"required": words, "invalid": words},
            )

    @property
    def answers(self) -> dict[str, float]:
        """The numbers given, by dimension."""
        given = {d.key: self.cleaned_data.get(d.key) for d in self.dimensions}
        return {key: value for key, value in given.items() if value is not None}

    @property
    def comment(self) -> str:
        """The text beside them."""
        return self.cleaned_data["comments"]

    @property
    def typed(self) -> dict[str, str]:
        """What was sent of the form's own fields, right or wrong."""
        sent = {name: str(self.data.get(name, "")) for name in self.fields}
        return {name: text for name, text in sent.items() if text}

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Put the rating service's messages beside their questions."""
        for key, message in errors.items():
            self.add_error(key if key in self.fields else None, message)

    def questions(self) -> list[Question]:
        """Return the dimensions as rows of the page, with what was chosen and what is wrong."""
        return [self._question(i, d) for i, d in enumerate(self.dimensions, start=1)]

    def _question(self, number: int, dimension: Dimension) -> Question:
        low, high = dimension.scale
        value = str(self.data.get(dimension.key, "")) if self.is_bound else ""
        errors: Iterable[Any] = self.errors.get(dimension.key, []) if self.show_errors else []
        options = []
        whole = float(low).is_integer() and float(high).is_integer()
        if whole and high - low < LIKERT_MAX_STEPS:
            options = [
                LikertOption(step, _option_name(step, low, high, dimension), value == str(step))
                for step in range(int(low), int(high) + 1)
            ]
        return Question(
            number=number,
            dimension=dimension,
            low=low,
            high=high,
            options=options,
            value=value,
            errors=[str(error) for error in errors],
        )


def _option_name(step: int, low: float, high: float, dimension: Dimension) -> str:
    if step == low and dimension.low_label:
        return f"{step}, {dimension.low_label}"
    if step == high and dimension.high_label:
        return f"{step}, {dimension.high_label}"
    return str(step)
