"""Builder page of quiz, attention checks, gold items and practice.

Each entry is a card with fields made from its value. An entry with answers by question has a field for each question,
so keys need not be typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict

from chatbots.validation import InputModel
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.cards import MOVING_WORDS, Card, CardsForm, Drafts, Fields, deleted_just_now
from webapp.dashboard.builder.forms import SettingsForm, field_made, section_fields
from webapp.studies.attention_checks import CheckEntry, check_lists
from webapp.studies.items import gold_store
from webapp.studies.models import Item, Study
from webapp.studies.questions import MOST_POINTS_IN_A_ROW, Question, texts_in
from webapp.studies.ready_made import READY_MADE
from webapp.studies.settings import CHECK_SECTIONS, SECTIONS

_SIDES = (("", "not checked"), ("first", "first"), ("same", "same"), ("second", "second"))


KINDS: dict[str, type[CheckEntry]] = {
    name: kind for section in CHECK_SECTIONS for name, kind in check_lists(SECTIONS[section]).items()
}
"""Class of the entries of each list of checks."""


class EntryCard(Card):
    """Card of an entry, with the fields of its value."""

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        kind: type[CheckEntry],
        prefix: str,
        questions: list[Question],
        entry: InputModel | None = None,
        new: Mapping[str, Any] | None = None,
        leave_out: tuple[str, ...] = (),
    ) -> None:
        """Build the card.

        Args:
            questions: scales of the study, for answers by question.
            new: initial field values of a new entry.
            leave_out: fields that the study's protocol does not use.
        """
        self.look, self.questions, self.title_field = kind.card, questions, kind.card.named_by
        if self.look.by_question and questions:
            self.instead_of = {self.look.by_question: f"by_{questions[0].key}"}
        initial = self._initial(entry) if entry else dict(new or {})
        super().__init__(data, model=kind, prefix=prefix, initial=initial)
        for name, info in kind.model_fields.items():
            if name == self.look.by_question:
                self.fields.update(self._by_question())
            elif name not in leave_out and (field := field_made(name, info)) is not None:
                self.fields[name] = field
                field.required = info.is_required() and not isinstance(field, forms.IntegerField)
                if name in self.look.long:
                    field.widget = forms.Textarea(attrs={"rows": 3})
        for field in self.fields.values():
            if not isinstance(field.widget, forms.CheckboxSelectMultiple):
                field.widget.attrs["class"] = "input"

    def _by_question(self) -> dict[str, forms.Field]:
        fields: dict[str, forms.Field] = {}
        for question in self.questions:
            words = f"Answer to “{question.title}”"
            if self.look.of_sides:
                fields[f"by_{question.key}"] = forms.ChoiceField(label=words, choices=_SIDES, required=False)
                continue
            fields[f"by_{question.key}"] = answers_field(
                question, words, "Answers that pass. Select none to accept any answer."
            )
        return fields

    def _initial(self, entry: InputModel) -> dict[str, Any]:
        initial = {name: getattr(entry, name) for name in type(entry).model_fields}
        answers: Mapping[str, Any] = initial.pop(self.look.by_question, {})
        for key, answer in answers.items():
            initial[f"by_{key}"] = answer if isinstance(answer, str) else [str(number) for number in answer]
        return initial

    def plain(self, field_values: Mapping[str, Any]) -> dict[str, Any]:
        plain_entry = {name: value for name, value in field_values.items() if not name.startswith("by_")}
        if self.look.by_question:
            answers = {question.key: field_values.get(f"by_{question.key}") for question in self.questions}
            plain_entry[self.look.by_question] = {key: answer for key, answer in answers.items() if answer}
        return plain_entry

    @property
    def own_fields(self) -> list[forms.BoundField]:
        """Its fields besides the answers by question."""
        return [field for field in self if not field.name.startswith("by_")]

    @property
    def answer_fields(self) -> list[forms.BoundField]:
        """The answers by question."""
        return [field for field in self if field.name.startswith("by_")]


def answers_field(question: Question, label: str, help_text: str) -> forms.Field:
    """Return the field for choosing the right answers on a scale.

    It has checkboxes, if they fit.
    """
    options: dict[str, Any] = {"label": label, "required": False, "help_text": help_text}
    if question.high - question.low >= MOST_POINTS_IN_A_ROW:
        return NumbersField(low=question.low, high=question.high, **options)
    points = range(question.low, question.high + 1)
    if question.low < 0:  # of two sides, the first comes first
        points = points[::-1]
    return forms.TypedMultipleChoiceField(
        choices=[(str(point), _point_words(question, point)) for point in points],
        coerce=int,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "build-points"}),
        **options,
    )


def _point_words(question: Question, point: int) -> str:
    words = question.labels.get(point, "")
    if question.low < 0:  # sides of a comparison: no page shows their numbers
        return words or str(point)
    return f"{point} ({words})" if words else str(point)


class NumbersField(forms.CharField):
    """Field of comma-separated numbers, for scales with many points."""

    def __init__(self, *, low: int, high: int, **options: Any) -> None:
        self.low, self.high = low, high
        words = "Numbers from %(low)d to %(high)d, separated by commas."
        options["help_text"] = f"{words % {'low': low, 'high': high}} {options['help_text']}"
        super().__init__(max_length=100, **options)

    def prepare_value(self, value: Any) -> Any:
        """Return the numbers as one text."""
        return ", ".join(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> Any:
        """Validate the numbers against the scale."""
        parts = super().clean(value).replace(",", " ").split()
        for part in parts:
            if not part.lstrip("-").isdecimal() or not self.low <= int(part) <= self.high:
                words = "%(part)s is not a number from %(low)d to %(high)d."
                placeholders = {"part": part, "low": self.low, "high": self.high}
                raise forms.ValidationError(words % placeholders)
        return [int(part) for part in parts]


def entry_new(name: str, questions: list[Question], language: str) -> Fields:
    """Return the initial fields of a new card, in the study's language."""
    card, examples = KINDS[name].card, READY_MADE["entries"]
    is_pair = f"{name}_of_pairs" in examples and any(question.low < 0 for question in questions)
    plain = texts_in(examples.get(f"{name}_of_pairs" if is_pair else name, {}), language)
    fields: Fields = {
        field: "\n".join(value) if isinstance(value, list) else str(value) for field, value in plain.items()
    }
    if card.by_question:
        side = card.new_answer if card.of_sides else [card.new_answer]
        answer = ["1"] if is_pair else side
        fields |= {f"by_{question.key}": answer for question in (questions if is_pair else questions[:1])}
    return fields


class GoldForm(forms.Form):
    """Item of the study by name, and the right answers to each question."""

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
        """Store the form.

        Without answers, the item becomes a normal one again.

        Raises:
            ValidationError: there is no such item, or participants have rated it.
        """
        name = self.cleaned_data["item"]
        kinds = (Item.Purpose.JUDGED, Item.Purpose.GOLD)
        item = Item.objects.filter(study=self.study, key=name, purpose__in=kinds).first()
        if item is None:
            raise ValidationError(f"The study has no item “{name}”.")
        answers_by_key = {question.key: self.cleaned_data[f"by_{question.key}"] for question in self.questions}
        gold_store(item=item, expected={key: answers for key, answers in answers_by_key.items() if answers})


class ChecksForm(CardsForm):
    """Lists of checks, one card per entry, with the settings next to them."""

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
        """Build the form.

        Args:
            fields: the settings next to the lists.
            lists: names of the protocol's lists.
            questions: the scales of the study.
            leave_out: fields of entries that the protocol does not use.
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
        return entry_new(name, self.of_cards["questions"], self.language)

    def added(self, drafts: Drafts, verb: str, name: str, target: str) -> list[Fields]:
        return [self._new(name)] if verb == "add" else []

    def listed(self) -> dict[str, list[dict[str, Any]]]:
        """Return the context of the lists of checks, by their group of the page."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for name in self.lists:
            look = KINDS[name].card
            groups.setdefault(look.group, []).append(
                {
                    "name": name,
                    "cards": self.cards[name],
                    "add": look.add,
                    "step": look.step,
                    "new_card": self.card(name, "NEWCARD", new=self._new(name)),
                    "errors": self.list_errors(name),
                }
            )
        return groups


CHECKED = ("attention", "training")
"""Sections of a protocol's settings on this page."""


class ChecksStep(BuildStep):
    """Page of checks; it belongs to the step of questions."""

    name = "checks"
    within = "questions"
    title = "Checks"
    template = "checks.html"
    heading = "How do you check attention?"

    def state(self, plan: Plan) -> StepState:
        return StepState("")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> ChecksForm:
        fields: dict[str, forms.Field] = section_fields("checking")
        sections = {"checking", *(plan.protocol.settings if plan.protocol else ())}
        has_chats = plan.protocol is not None and plan.protocol.gives == "bots"
        lists = [
            name
            for section in CHECK_SECTIONS
            if section in sections
            for name, kind in check_lists(SECTIONS[section]).items()
            if has_chats or not kind.card.in_chats
        ]
        if "attention" in sections:
            fields |= section_fields("attention")
        is_pair = plan.protocol is not None and plan.protocol.n_replies == 2
        has_reference = plan.protocol is not None and plan.protocol.needs_reference
        left_out = () if is_pair else ("second_response",)
        return ChecksForm(
            data,
            fields={name: field for name, field in fields.items() if name not in KINDS},
            lists=lists,
            initial=plan.study.values.flat(),
            questions=scales_asked(plan),
            leave_out=left_out if has_reference else (*left_out, "reference", "reference_score"),
        )

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the checks among questions, a just-deleted check, and gold items."""
        context: dict[str, Any] = {
            "asks_checks": checks_asked(plan),
            "moving_words": MOVING_WORDS,
            **deleted_just_now(request, {name: kind.card.named_by for name, kind in KINDS.items()}),
        }
        if plan.protocol and "attention" in plan.protocol.settings:
            context |= {
                "n_gold_items": gold_items(plan.study).count(),
                "below_template": "dashboard/builder/_gold.html",
                "gold_form": GoldForm(study=plan.study, questions=scales_asked(plan)),
            }
        return context

    def onward(self, form: SettingsForm) -> str:
        """Return the address of the list whose button was pressed.

        It includes the deleted entry.
        """
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
    questions = [*plan.study.values.questions, *plan.asked_after]
    return [question for question in questions if question.is_check]


def gold_items(study: Study) -> Any:
    """Return the items of the study whose right answer is known."""
    return Item.objects.filter(study=study, purpose=Item.Purpose.GOLD)
