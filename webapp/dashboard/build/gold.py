"""The form that says which answers to one item are right, so that it checks people and is not rated."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from webapp.dashboard.build.entry_cards import answers_field
from webapp.studies.items import gold_store
from webapp.studies.models import Item, Study
from webapp.studies.questions import Question


class GoldForm(forms.Form):
    """An item of the study by its name, and the answers that are right for each question."""

    item = forms.CharField(label="Name of the item", max_length=200)

    def __init__(self, data: Any = None, *, study: Study, questions: list[Question]) -> None:
        super().__init__(data, auto_id="c-gold-%s")
        self.study, self.questions, self.label_suffix = study, questions, ""
        for question in questions:
            words = f"Right answers to “{question.title}”"
            self.fields[f"by_{question.key}"] = answers_field(question, words, "")
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxSelectMultiple):
                field.widget.attrs["class"] = "input"

    def store(self) -> None:
        """Store what the form says; without any answer the item is one like the others again.

        Raises:
            ValidationError: there is no such item, or people have been given it.
        """
        name = self.cleaned_data["item"]
        kinds = (Item.Purpose.JUDGED, Item.Purpose.GOLD)
        item = Item.objects.filter(study=self.study, key=name, purpose__in=kinds).first()
        if item is None:
            raise ValidationError(f"The study has no item “{name}”.")
        given = {one.key: self.cleaned_data[f"by_{one.key}"] for one in self.questions}
        gold_store(item=item, expected={key: answers for key, answers in given.items() if answers})
