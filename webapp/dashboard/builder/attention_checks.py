"""Builder's step of the quiz, attention checks, and gold items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict

from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.cards import MOVING_WORDS, CardsForm, Drafts, Fields, deleted_just_now
from webapp.dashboard.builder.entry_cards import KINDS, EntryCard, answers_field, entry_new
from webapp.dashboard.builder.forms import SettingsForm, section_fields
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


class ChecksForm(CardsForm):
    """Lists of checks, each entry a card, and the settings next to them."""

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        fields: Mapping[str, forms.Field],
        lists: Sequence[str],
        initial: Mapping[str, Any],
        questions: list[Question],
        leave_out: tuple[str, ...] = (),
    ) -> None:
        """Make the form.

        Args:
            fields: the settings beside the lists.
            lists: names of the lists that the study's protocol has.
            questions: the scales that it asks.
            leave_out: fields of entries that it has no use for.
        """
        self.of_cards: dict[str, Any] = {"questions": questions, "leave_out": leave_out}
        self.language = initial["language"]
        entries = {name: initial[name] for name in lists}
        super().__init__(data, fields=fields, entries=entries, initial=initial)

    def card(
        self, name: str, token: str, *, entry: Any = None, data: QueryDict | None = None, new: Fields | None = None
    ) -> EntryCard:
        return EntryCard(data, kind=KINDS[name], prefix=f"{name}-{token}", entry=entry, new=new, **self.of_cards)

    def _new(self, name: str) -> Fields:
        return entry_new(KINDS[name], self.of_cards["questions"], self.language)

    def added(self, drafts: Drafts, verb: str, name: str, what: str) -> list[Fields]:
        return [self._new(name)] if verb == "add" else []

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return the context of each list of checks, by its name."""
        return {
            name: {
                "name": name,
                "cards": self.cards[name],
                "add": KINDS[name].add,
                "new_card": self.card(name, "NEWCARD", new=self._new(name)),
                "errors": self.list_errors(name),
            }
            for name in self.lists
        }


CHECKED = ("attention", "training")
"""Sections of a protocol's settings that stand on this page."""


class ChecksStep(BuildStep):
    """Belongs to the step of the questions, from which it is opened."""

    name = "checks"
    within = "questions"
    title = "Checks"
    template = "checks.html"
    heading = "How do you check that people read?"

    def state(self, plan: Plan) -> StepState:
        return StepState("")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> ChecksForm:
        fields: dict[str, forms.Field] = section_fields("checking")
        lists = ["quiz_questions"]
        if plan.protocol and plan.protocol.gives == "bots":
            lists.append("chat_checks")
        settings = plan.protocol.settings if plan.protocol else ()
        if "training" in settings:
            lists.append("training_pairs")
        if "attention" in settings:
            fields |= section_fields("attention")
            lists.append("attention_checks")
        is_pair = plan.protocol is not None and plan.protocol.n_replies == 2
        has_reference = plan.protocol is not None and plan.protocol.needs_reference
        without = () if is_pair else ("second_response",)
        return ChecksForm(
            data,
            fields={name: field for name, field in fields.items() if name not in KINDS},
            lists=lists,
            initial=plan.study.values.flat(),
            questions=scales_asked(plan),
            leave_out=without if has_reference else (*without, "reference", "reference_score"),
        )

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the checks among the questions, the check that was deleted just now, and the gold items."""
        found: dict[str, Any] = {
            "asks_checks": checks_asked(plan),
            "moving_words": MOVING_WORDS,
            **deleted_just_now(request, {name: kind.named_by for name, kind in KINDS.items()}),
        }
        if plan.protocol and "attention" in plan.protocol.settings:
            found |= {
                "n_gold_items": gold_items(plan.study).count(),
                "below_template": "dashboard/builder/_gold.html",
                "gold_form": GoldForm(study=plan.study, questions=scales_asked(plan)),
            }
        return found

    def onward(self, form: SettingsForm) -> str:
        """Lead back to the list whose button was pressed, with what it deleted."""
        assert isinstance(form, ChecksForm)
        if form.undo:
            return f"?deleted={form.undo.sign()}#deleted"
        verb, _colon, rest = form.data.get("_do", "").partition(":")
        name = rest.partition(":")[0]
        return f"#list-{name}" if verb and name in KINDS else ""


def scales_asked(plan: Plan) -> list[Question]:
    """Return the scales that are asked after the task."""
    return [question for question in plan.asked_after if question.is_rated]


def checks_asked(plan: Plan) -> list[Question]:
    """Return the attention checks among the questions before and after the task."""
    asked = [*plan.study.values.questions, *plan.asked_after]
    return [question for question in asked if question.is_check]


def gold_items(study: Study) -> Any:
    """Return the items of the study whose right answer is known."""
    return Item.objects.filter(study=study, purpose=Item.Purpose.GOLD)
