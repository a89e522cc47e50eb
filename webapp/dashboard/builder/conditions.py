"""Builder page of conditions: factors, levels, and their cells.

The page has as many places for factors as a study can have, each `factor1_…` with the list `levels1`. A place without
levels is not a factor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from django import forms
from django.http import HttpRequest, QueryDict
from pydantic import ValidationError as WrongValues

from chatbots.validation import mistakes_of
from webapp.core.language import plural
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.cards import MOVING_WORDS, Card, CardsForm, Drafts, Fields, deleted_just_now
from webapp.dashboard.builder.forms import SettingsForm, field_made, section_fields, titled
from webapp.dashboard.builder.questions import key_made
from webapp.studies.conditions import Conditions, Factor, Level, bots_of
from webapp.studies.ready_made import READY_MADE

MOST_FACTORS = 4
MOST_ROWS = 50
"""Maximum number of conditions whose cells the page shows."""
LISTS = tuple(f"levels{n}" for n in range(1, MOST_FACTORS + 1))
_FIRST = ("label", "scenario", "goal")
"""Fields of a level that are always visible; the others are folded."""
_OF_FACTOR = ("label", "varies", "key")
_PATH = re.compile(r"factors\[(\d+)\](?:\.levels\[(\d+)\])?(?:\.(\w+))?")


def free_key(words: str, existing_keys: Iterable[str]) -> str:
    """Return an unused key made from a name."""
    base, lowered_keys = key_made(words, ())[:36], {key.lower() for key in existing_keys}
    return next(key for n in range(1, 100) if (key := f"{base}_{n}" if n > 1 else base).lower() not in lowered_keys)


class KeyedCard(Card):
    """Card of an entry with a name and a key for exports."""

    title_field = "label"

    @property
    def title_now(self) -> str:
        """Title of the folded card: its name, else its key."""
        return str(self["label"].value() or self["key"].value() or "") or super().title_now


class KeyedCardsForm(CardsForm):
    """Settings with lists of entries that have keys.

    Attributes:
        examples: name of the example entries: two for a new list, then one for a further entry.
    """

    examples: str

    def example_fields(self) -> list[Fields]:
        """Return the fields of example entries, to be overwritten."""
        return cast(list[Fields], READY_MADE["entries"][self.examples])

    def added(self, drafts: Drafts, verb: str, name: str, target: str) -> list[Fields]:
        examples = self.example_fields()
        return {"set": examples[:2], "add": examples[2:]}.get(verb, [])

    def entries(self, name: str) -> tuple[Any, ...]:
        """Return the entries of a list, each with its key."""
        entries: list[Any] = []
        written = [key for card in self.cards[name] if (key := card.cleaned_data["key"])]
        for card in self.cards[name]:
            key = card.cleaned_data["key"] or free_key(card.entry.label, [*written, *(entry.key for entry in entries)])
            entries.append(card.entry.model_copy(update={"key": key}))
        return tuple(entries)


class LevelCard(KeyedCard):
    """Level of a factor."""

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, prefix: str, initial: Any, bots: Sequence[str]
    ) -> None:
        super().__init__(data, model=Level, prefix=prefix, initial=initial)
        for name, info in Level.model_fields.items():
            field = field_made(name, info)
            if name == "bots":
                known = dict.fromkeys([*bots, *(initial.get("bots") or ())])
                widget = forms.CheckboxSelectMultiple
                field = forms.MultipleChoiceField(choices=[(bot_id, bot_id) for bot_id in known], widget=widget)
                field.label, field.help_text = info.title or "", info.description or ""
            assert field is not None
            field.required = False
            if not isinstance(field.widget, forms.CheckboxInput | forms.CheckboxSelectMultiple):
                field.widget.attrs |= {"class": "input", **({"rows": 2} if "rows" in field.widget.attrs else {})}
            self.fields[name] = field
        self.fields["label"].required = True
        self.fields["key"].label = "Name in exports"

    @property
    def open_fields(self) -> list[forms.BoundField]:
        """Its name, and the texts that most levels have."""
        return [self[name] for name in _FIRST]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        """The other fields."""
        return [field for field in self if field.name not in _FIRST]

    @property
    def has_more(self) -> bool:
        """True if one of the folded fields has a text or an error."""
        return any((field.value() and field.name != "key") or field.errors for field in self.more_fields)

    def plain(self, field_values: Mapping[str, Any]) -> dict[str, Any]:
        return {**field_values, "key": field_values["key"] or "level"}


class ConditionsForm(KeyedCardsForm):
    """Factors with their levels, and the conversations wanted per cell."""

    examples = "levels"

    def __init__(self, data: Mapping[str, Any] | None = None, *, stored: Conditions, bots: Sequence[str]) -> None:
        self.bots, self.stored = bots, stored
        fields: dict[str, forms.Field] = {"n_each_cell": section_fields("conditions")["n_each_cell"]}
        initial: dict[str, Any] = {"n_each_cell": stored.n_each_cell, "factor1_label": "Scenario"}
        for n in range(1, MOST_FACTORS + 1):
            factor = stored.factors[n - 1] if n <= len(stored.factors) else None
            for name in _OF_FACTOR:
                field = field_made(name, Factor.model_fields[name])
                assert field is not None
                field.required = False
                fields[f"factor{n}_{name}"] = field
                if factor is not None:
                    initial[f"factor{n}_{name}"] = getattr(factor, name)
            fields[f"factor{n}_key"].label = "Name in exports"
        entries = {name: self._levels(place) for place, name in enumerate(LISTS)}
        super().__init__(data, fields=fields, entries=entries, initial=initial)
        self.factors: list[Factor] = []

    def _levels(self, place: int) -> Sequence[Level]:
        return self.stored.factors[place].levels if place < len(self.stored.factors) else ()

    @property
    def changeable(self) -> list[str]:
        return ["factors", "n_each_cell"]

    @property
    def places(self) -> list[dict[str, Any]]:
        """The places of factors as the page shows them."""
        new = [self._new_card(name) for name in LISTS]
        return [
            {
                "n": n,
                "name": name,
                "fields": [self[f"factor{n}_{field}"] for field in _OF_FACTOR],
                "cards": self.cards[name],
                "new_cards": new[n - 1],
                "errors": self.list_errors(name),
            }
            for n, name in enumerate(LISTS, start=1)
        ]

    def _new_card(self, name: str) -> list[LevelCard]:
        examples = self.example_fields()
        return [LevelCard(prefix=f"{name}-NEWCARD", initial=example, bots=self.bots) for example in examples]

    def card(self, name: str, token: str, *, entry: Level | None = None, data: QueryDict | None = None) -> LevelCard:
        initial = {field: getattr(entry, field) for field in Level.model_fields} if entry else {}
        return LevelCard(data, prefix=f"{name}-{token}", initial=initial, bots=self.bots)

    def full_clean(self) -> None:
        super().full_clean()
        if not self.is_bound or self.errors:
            return
        self.factors = []
        for n, name in enumerate(LISTS, start=1):
            if not self.cards[name]:
                continue
            factor_values = {field: self.cleaned_data[f"factor{n}_{field}"] for field in _OF_FACTOR}
            existing_keys = [factor.key for factor in self.factors]
            factor_values["key"] = factor_values["key"] or free_key(
                factor_values["label"] or f"factor {n}", existing_keys
            )
            try:
                self.factors.append(Factor.model_validate({**factor_values, "levels": self.cleaned_data[name]}))
            except WrongValues as error:
                for mistake in mistakes_of(error, Factor):
                    head = mistake.path.partition("[")[0]
                    field = f"factor{n}_{head}" if head in _OF_FACTOR else name
                    self.add_error(field, titled(mistake.message, self.fields[field].label or "Levels", head))

    def changes(self) -> dict[str, Any]:
        return {"factors": tuple(self.factors), "n_each_cell": self.cleaned_data["n_each_cell"]}

    def tell(self, field: str, sentence: str) -> None:
        """Show an error next to the field of its path."""
        match = _PATH.fullmatch(field)
        used = [n for n, name in enumerate(LISTS, start=1) if self.cards[name]]
        if match is None or int(match[1]) >= len(used):
            super().tell(field, sentence)
            return
        n, level, name = used[int(match[1])], match[2], match[3] or ""
        if level is None:
            self.add_error(f"factor{n}_{name}" if name in _OF_FACTOR else f"levels{n}", sentence)
            return
        card = self.cards[f"levels{n}"][int(level)]
        card_field = name if name in card.fields else card.title_field
        card.add_error(card_field, sentence)
        self.errors[card.add_prefix(card_field)] = card.errors[card_field]


class ConditionsStep(BuildStep):
    """Page of conditions; it belongs to the step of bots.

    Levels are crossed with bots.
    """

    name = "conditions"
    within = "bots"
    title = "Conditions"
    template = "conditions.html"
    live_template = "_cells.html"
    heading = "Under which conditions do participants chat?"

    def state(self, plan: Plan) -> StepState:
        return StepState("")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> ConditionsForm:
        return ConditionsForm(data, stored=plan.study.values.conditions, bots=plan.study.bots)

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        deleted = deleted_just_now(request, dict.fromkeys(LISTS, "label"))
        return {"moving_words": MOVING_WORDS, **deleted, **self.live(plan)}

    def live(self, plan: Plan) -> dict[str, Any]:
        """Return the cells with their quotas, and bots that ignore prompts."""
        study = plan.study
        conditions, n_wanted = study.values.conditions, study.values.quotas.n_conversations_wanted
        rows = [(levels, bots_of(levels, study.bots)) for levels in islice(conditions.combinations(), 500)]
        n_cells = sum(len(bots) for _levels, bots in rows) if conditions.factors else 0
        each = str(conditions.n_each_cell or "")
        if not each and n_wanted and n_cells:
            low, rest = divmod(n_wanted, n_cells)
            each = f"{low}–{low + 1}" if rest else str(low)
        cells = [([level.title for level in levels], [bot in bots for bot in study.bots]) for levels, bots in rows]
        has_prompt = any(level.bot_prompt for factor in conditions.factors for level in factor.levels)
        prompted = {bot for bot, entry in plan.entries.items() if entry.params.get("system_prompt")}
        deaf = [bot for bot in study.bots if has_prompt and bot not in prompted]
        return {
            "factors": conditions.factors,
            "bots": study.bots,
            "cells": cells[:MOST_ROWS],
            "n_hidden": len(cells) - MOST_ROWS,
            "n_cells": n_cells,
            "each": each,
            "in_all": conditions.n_each_cell * n_cells,
            "deaf": deaf,
        }

    def onward(self, form: SettingsForm) -> str:
        """Return the address with the deleted level, for undo without script."""
        return f"?deleted={form.undo.sign()}#deleted" if isinstance(form, CardsForm) and form.undo else ""


def describe_conditions(plan: Plan) -> str:
    """Count the factors and levels of a study, in words."""
    factors = plan.study.values.conditions.factors
    if not factors:
        return "None: all participants chat under the same one."
    level_counts = (
        plural(len(factor.levels), "%(n)d level", "%(n)d levels") % {"n": len(factor.levels)} for factor in factors
    )
    return "; ".join(f"{factor.title}: {n}" for factor, n in zip(factors, level_counts, strict=True)) + "."
