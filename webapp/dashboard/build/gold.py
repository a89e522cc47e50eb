"""The form that says which answers to one item are right, so that it checks people and is not rated."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _

from webapp.studies.items import gold_store
from webapp.studies.models import Item, Study
from webapp.studies.questions import Question


class GoldForm(forms.Form):
    """An item of the study by its name, and the answers that are right for each question."""

    item = forms.CharField(label=_("Name of the item"), max_length=200)

    def __init__(self, data: Any = None, *, study: Study, questions: list[Question]) -> None:
        super().__init__(data, auto_id="c-gold-%s")
        self.study, self.questions, self.label_suffix = study, questions, ""
        for question in questions:
            words = __("Right answers to “%(question)s”") % {"question": question.title}
            told = __("Numbers from %(low)d to %(high)d, with commas between them.")
            self.fields[f"by_{question.key}"] = forms.CharField(
                label=words,
                required=False,
                max_length=100,
                help_text=told % {"low": question.low, "high": question.high},
            )
        for field in self.fields.values():
            field.widget.attrs["class"] = "input"

    def clean(self) -> None:
        """Read the answers; every one must be on its question's scale."""
        self.expected: dict[str, list[int]] = {}
        for question in self.questions:
            parts = self.cleaned_data.get(f"by_{question.key}", "").replace(",", " ").split()
            wrong = [part for part in parts if part not in _points(question)]
            if wrong:
                words = __("%(part)s is no number from %(low)d to %(high)d.")
                told = {"part": wrong[0], "low": question.low, "high": question.high}
                self.add_error(f"by_{question.key}", words % told)
            elif parts:
                self.expected[question.key] = [int(part) for part in parts]

    def store(self) -> None:
        """Store what the form says; without any answer the item is one like the others again.

        Raises:
            ValidationError: there is no such item, or people have been given it.
        """
        name = self.cleaned_data["item"]
        kinds = (Item.Purpose.JUDGED, Item.Purpose.GOLD)
        item = Item.objects.filter(study=self.study, key=name, purpose__in=kinds).first()
        if item is None:
            raise ValidationError(__("The study has no item “%(name)s”.") % {"name": name})
        gold_store(item=item, expected=self.expected)


def _points(question: Question) -> set[str]:
    return {str(point) for point in range(question.low, question.high + 1)}
