"""Builder page of parts: one card each, with gap and pay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict

from webapp.core.language import plural
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.cards import MOVING_WORDS, Card, CardsForm, deleted_just_now
from webapp.dashboard.builder.conditions import KeyedCard, KeyedCardsForm
from webapp.dashboard.builder.forms import SettingsForm, field_made, section_fields
from webapp.studies.sittings import Gap, Sitting, Sittings

_PATH = re.compile(r"parts\[(\d+)\](?:\.(\w+))?")


class SittingCard(KeyedCard):
    """Part of a study."""

    instead_of = {"after_days.least": "least", "after_days.most": "most", "after_days": "most"}

    def __init__(self, data: Mapping[str, Any] | None = None, *, prefix: str, initial: Any) -> None:
        super().__init__(data, model=Sitting, prefix=prefix, initial=initial)
        infos = Sitting.model_fields
        infos_by_name = {"label": infos["label"], **Gap.model_fields, "pay": infos["pay"], "key": infos["key"]}
        for name, info in infos_by_name.items():
            field = field_made(name, info)
            assert field is not None
            field.required = name == "label"
            field.widget.attrs["class"] = "input"
            self.fields[name] = field
        self.fields["key"].label = "Name in exports"

    def plain(self, field_values: Mapping[str, Any]) -> dict[str, Any]:
        gap = {name: field_values[name] for name in Gap.model_fields if field_values[name] is not None}
        plain_sitting = {name: field_values[name] for name in ("label", "pay")}
        return {**plain_sitting, "key": field_values["key"] or "part", "after_days": gap or None}


class SittingsForm(KeyedCardsForm):
    """Parts of a study, and what is kept between them."""

    examples = "parts"

    def __init__(self, data: Mapping[str, Any] | None = None, *, stored: Sittings) -> None:
        fields = section_fields("sittings", ("parts",))
        super().__init__(data, fields=fields, entries={"parts": stored.parts}, initial=dict(stored))

    @property
    def beside_fields(self) -> list[forms.BoundField]:
        """The settings next to the list."""
        return [self[name] for name in self.fields if name != "parts"]

    @property
    def part_errors(self) -> list[str]:
        """Errors about the parts as a whole."""
        return self.list_errors("parts")

    @property
    def new_cards(self) -> list[SittingCard]:
        """Cards of added parts: two at first, then one more."""
        return [SittingCard(prefix="parts-NEWCARD", initial=example) for example in self.example_fields()]

    def card(self, name: str, token: str, *, entry: Sitting | None = None, data: QueryDict | None = None) -> Card:
        initial = {**dict(entry), **dict(entry.after_days or {})} if entry else {}
        return SittingCard(data, prefix=f"{name}-{token}", initial=initial)

    def tell(self, field: str, sentence: str) -> None:
        """Show a part's error next to the field of its path."""
        match = _PATH.fullmatch(field)
        if match is None:
            super().tell(field, sentence)
            return
        card = self.cards["parts"][int(match[1])]
        card_field = card.instead_of.get(match[2] or "", match[2] or card.title_field)
        card.add_error(card_field, sentence)
        self.errors[card.add_prefix(card_field)] = card.errors[card_field]


class SittingsStep(BuildStep):
    """Page of parts; it belongs to the step of recruitment and pay."""

    name = "sittings"
    within = "pay"
    title = "Parts"
    template = "sittings.html"
    heading = "Do participants come back?"

    def state(self, plan: Plan) -> StepState:
        return StepState("")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SittingsForm:
        return SittingsForm(data, stored=plan.study.values.sittings)

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        return {"moving_words": MOVING_WORDS, **deleted_just_now(request, {"parts": "label"})}

    def onward(self, form: SettingsForm) -> str:
        """Return the address with the deleted part, for undo without script."""
        return f"?deleted={form.undo.sign()}#deleted" if isinstance(form, CardsForm) and form.undo else ""


def describe_sittings(plan: Plan) -> str:
    """Count the parts of a study, in words."""
    n = len(plan.study.values.sittings.parts)
    return plural(n, "%(n)d part.", "%(n)d parts.") % {"n": n} if n else "None: participants take part once."
