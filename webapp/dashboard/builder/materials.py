"""Builder's steps for the study materials: bots or items, and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest

from chatbots.text import is_blank
from webapp.bots.selectors import BotEntry
from webapp.conversations.imported_sets import imported_sets
from webapp.core.language import plural
from webapp.core.rights import Right, may
from webapp.dashboard.builder.attention_checks import CHECKED
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.conditions import describe_conditions
from webapp.dashboard.builder.forms import (
    SettingsForm,
    TranslationsField,
    section_fields,
    section_title,
    title_of_value,
)
from webapp.dashboard.builder.item_sources import ItemDrawForm, conversation_count, source_fields
from webapp.insights.bots import BotState
from webapp.ratings.selectors import study_bots
from webapp.studies.items import ItemSet, item_sets
from webapp.studies.languages import own_lines
from webapp.studies.models import Study
from webapp.studies.rubrics import rubric_directions_store

USUAL_LINE = "I had a rough day at work."
"""Message that every bot gets, so that their replies can be compared."""
PRESETS = (
    ("Quick", "3 to 10 messages", {"min_exchanges": 3, "max_exchanges": 10, "least_minutes": "", "most_minutes": ""}),
    ("Long", "10 to 40 messages", {"min_exchanges": 10, "max_exchanges": 40, "least_minutes": "", "most_minutes": ""}),
    ("Timed", "5 to 10 minutes", {"min_exchanges": 1, "max_exchanges": 100, "least_minutes": 5, "most_minutes": 10}),
)
"""Lengths of a chat: title, description and values of its fields."""
SELDOM = ("people", "pacing", "filtering", "safety", "typing")
"""Sections that most studies leave unchanged; they are folded."""


@dataclass(frozen=True, slots=True)
class BotCard:
    """Card of a bot to choose.

    Attributes:
        entry: None for a chosen bot that is no longer registered.
        slot: number of its mark on all pages of this study, from 1; None for a bot that is not chosen.
    """

    bot_id: str
    name: str
    entry: BotEntry | None
    state: BotState | None
    slot: int | None

    @property
    def answers_unasked(self) -> bool:
        """True if the page requests a sample reply by itself.

        The bot is loaded and costs nothing.
        """
        is_loaded = self.state is not None and self.state.tone == "good"
        return is_loaded and self.entry is not None and self.entry.kind != "endpoint"

    @property
    def is_closed(self) -> bool:
        """True if it can be neither chosen nor tried now."""
        return self.entry is None or not self.entry.available


class BotsStep(BuildStep):
    name = "bots"
    title = "Bots"
    template = "bots.html"
    heading = "Which bots do participants talk to?"

    def title_in(self, plan: Plan) -> str:
        names = {"items": "Items", "conversations": "Conversations"}
        return names.get(plan.gives) or str(self.title)

    def heading_in(self, plan: Plan) -> str:
        return str(self.heading) if plan.gives == "bots" else "What do participants rate?"

    def state(self, plan: Plan) -> StepState:
        n = len(plan.study.bots)
        if plan.makes_its_item:
            return StepState("none needed", "good")
        if plan.gives == "items":
            if not plan.n_items:
                return StepState("none yet", "warn")
            words = plural(plan.n_items, "%(n)d item", "%(n)d items") % {"n": plan.n_items}
            return StepState(words, "good")
        if plan.gives != "bots":
            stored = conversation_count(plan.study)
            words = plural(stored, "%(n)d conversation", "%(n)d conversations") % {"n": stored}
            return StepState(words, "good" if stored else "warn")
        if not n:
            return StepState("none chosen", "warn")
        if plan.not_offered:
            away = len(plan.not_offered)
            words = plural(away, "%(n)d cannot load", "%(n)d cannot load") % {"n": away}
            return StepState(words, "warn")
        return StepState(plural(n, "%(n)d chosen", "%(n)d chosen") % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        groups: list[tuple[str, dict[str, forms.Field]]] = []
        if plan.gives == "bots":
            groups.append(("", {"bots": _BotsField(plan)}))
        for section in plan.protocol.settings if plan.protocol else ():
            if section not in CHECKED:  # shown on the page of checks
                groups.append((section_title(section), source_fields(section, plan.study)))
        return SettingsForm(data, groups=groups, initial=plan.study.values.flat())

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the cards of the bots, or the items."""
        folded = [section_title(section) for section in SELDOM]
        if plan.protocol and "chat" in plan.protocol.settings:
            chat = plan.study.values.chat
            lengths = [
                (*preset, all((getattr(chat, n) or "") == v for n, v in preset[2].items())) for preset in PRESETS
            ]
            return self._items(plan, request, folded) | {"presets": lengths, "chat_heading": section_title("chat")}
        return self._items(plan, request, folded)

    def _items(self, plan: Plan, request: HttpRequest, folded: list[str]) -> dict[str, Any]:
        """Return the context of the bots or items."""
        if plan.makes_its_item:
            return {"needs_none": True, "folded": folded}
        if plan.gives == "items":
            return {
                "folded": folded,
                "sets": _titled(item_sets(plan.study)),
                "n_items": plan.n_items,
                "needs_criteria": plan.protocol is not None and plan.protocol.needs_criteria,
                # First if there are no items, otherwise after the settings.
                "below_template" if plan.n_items else "above_template": "dashboard/builder/_items.html",
                "draw_form": ItemDrawForm(study=plan.study, auto_id="c-draw-%s"),
            }
        if plan.gives != "bots":
            return {
                "folded": folded,
                "n_stored": conversation_count(plan.study),
                "sets": _titled(imported_sets(plan.study)),
                "below_template": "dashboard/builder/_conversations.html",
            }
        return {
            "folded": folded,
            "cards": bot_cards(plan),
            "line": USUAL_LINE,
            "may_ask": may(request.user, Right.RUN),
            "conditions_said": describe_conditions(plan),
        }


def _titled(sets: list[ItemSet]) -> list[tuple[str, ItemSet]]:
    """Return each set with its title."""
    titles = {
        "sample": "Sample",
        "file": "From files",
        "study": "Drawn from the study %(of)s",
        "run": "Drawn from self-play %(of)s",
    }
    return [
        (
            item_set.source
            if item_set.kind == "file" and item_set.source
            else titles[item_set.kind] % {"of": item_set.source},
            item_set,
        )
        for item_set in sets
    ]


class _BotsField(forms.MultipleChoiceField):
    """Bots with checkboxes.

    Bots chosen earlier keep their order, which sets their marks in plots.
    """

    widget = forms.CheckboxSelectMultiple

    def __init__(self, plan: Plan) -> None:
        self._before = plan.study.bots
        known = dict.fromkeys([*self._before, *plan.entries])
        super().__init__(label="Bots", required=False, choices=[(bot_id, bot_id) for bot_id in known])

    def clean(self, value: Any) -> list[str]:
        """Return the chosen bots: earlier ones in their order, then new ones."""
        chosen = super().clean(value)
        previous = [bot_id for bot_id in self._before if bot_id in chosen]
        return previous + [bot_id for bot_id in chosen if bot_id not in previous]


def bot_cards(plan: Plan) -> list[BotCard]:
    """Return a card for every bot.

    Chosen bots come first, then those that can load, then the rest.
    """
    chosen, marked = plan.study.bots, study_bots(plan.study)
    cards = []
    for bot_id in dict.fromkeys([*chosen, *plan.entries]):
        entry, state = plan.entries.get(bot_id), plan.states.get(bot_id)
        slot = marked[bot_id].slot if bot_id in chosen else None
        cards.append(BotCard(bot_id, entry.name if entry else bot_id, entry, state, slot))
    return sorted(cards, key=lambda card: (card.slot is None, card.is_closed))


NEEDED = ("title", "consent_points", "instructions_text", "thanks_text")
"""Texts without which a page would have a gap."""


def texts_missing(plan: Plan) -> list[str]:
    """Return the titles of required texts that are empty."""
    texts = plan.study.values.texts
    return [title_of_value(name) for name in NEEDED if is_blank(getattr(texts, name))]


class TextsStep(BuildStep):
    name = "texts"
    title = "Texts"
    heading = "What do participants read?"

    def state(self, plan: Plan) -> StepState:
        n = len(texts_missing(plan))
        if not n:
            return StepState("complete", "good")
        return StepState(plural(n, "%(n)d is empty", "%(n)d are empty") % {"n": n}, "warn")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        fields = section_fields("texts", ["translations"])
        instructions = {"instructions_text": fields.pop("instructions_text")}
        thanks = {name: fields.pop(name) for name in ("thanks_text", "organisation", "contact")}
        groups = [
            ("First page", fields),
            (section_title("comfort"), section_fields("comfort")),
            ("Instructions", instructions),
            ("Thanks and contact", thanks),
            (section_title("rights"), section_fields("rights")),
        ]
        if other_languages := plan.study.values.texts.offered[1:]:
            lines = own_lines(plan.study.version)
            title = title_of_value("translations")
            help_text = "A line without a translation is shown as you wrote it. Answers are stored in your wording."
            translated = TranslationsField(lines, other_languages, label=title, help_text=help_text)
            groups.append(("Your texts in other languages", {"translations": translated}))
        return TextsForm(data, groups=groups, initial=plan.study.values.flat())


class TextsForm(SettingsForm):
    def changes(self) -> dict[str, Any]:
        """Return the values.

        Translations into languages that are no longer offered are left out.
        """
        changes = super().changes()
        if "translations" in changes:
            translations = {
                name: lines for name, lines in changes["translations"].items() if name in changes["languages"]
            }
            changes["translations"] = translations
        return changes


class GeneralForm(SettingsForm):
    unversioned_fields = ("reversed", "higher")

    def clean(self) -> dict[str, Any]:
        """Keep the newly selected direction of two; reject two new ones."""
        cleaned = super().clean() or self.cleaned_data
        for name, opposite in (("reversed", "higher"), ("higher", "reversed")):
            new = set(cleaned.get(name, ())) - set(self.initial.get(name, ()))
            cleaned[opposite] = [
                key for key in cleaned.get(opposite, ()) if key not in new or key not in self.initial[opposite]
            ]
        if contradictions := set(cleaned["reversed"]) & set(cleaned["higher"]):
            self.add_error("higher", f"Choose one direction for {', '.join(sorted(contradictions))}.")
        return cleaned


class GeneralStep(BuildStep):
    """Name, key and seed of a study.

    Imported studies also have the directions of their scales, which an import may not know.
    """

    name = "general"
    within = "bots"
    title = "Name and key"
    heading = "Name and key"
    is_sent_by_button = True

    def heading_in(self, plan: Plan) -> str:
        return "Settings" if plan.study.is_imported else self.title

    def state(self, plan: Plan) -> StepState:
        return StepState("")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        study = plan.study
        fields: dict[str, forms.Field] = {
            "name": forms.CharField(max_length=200, label="Name", help_text="Shown to researchers."),
            "key": forms.SlugField(
                max_length=60, label="Key", help_text="Part of its URLs and of the participants’ link."
            ),
            "seed": forms.IntegerField(
                min_value=-(2**63),
                max_value=2**63 - 1,
                label="Seed",
                help_text="The same seed draws the same bots, items and orders.",
            ),
        }
        initial = {name: getattr(study, name) for name in fields}
        groups = [("", fields)]
        if study.is_imported:
            rows = [(dimension.key, dimension.title) for dimension in plan.dimensions]
            turned = forms.MultipleChoiceField(
                choices=rows,
                required=False,
                widget=forms.CheckboxSelectMultiple,
                label="Lower is better",
                help_text="Analyses reverse these questions; exports keep the answers as given.",
            )
            kappa, level = section_fields("judging")["kappa_items"], section_fields("quotas")["level"]
            higher = forms.MultipleChoiceField(
                choices=rows,
                required=False,
                widget=forms.CheckboxSelectMultiple,
                label="Higher is better",
                help_text="Tick neither if you do not know; the answers are then analysed as given.",
            )
            groups += [
                ("Questions", {"higher": higher, "reversed": turned}),
                ("Agreement and intervals", {"kappa_items": kappa, "level": level}),
            ]
            initial |= {
                "reversed": [dimension.key for dimension in plan.dimensions if dimension.reversed],
                "higher": [dimension.key for dimension in plan.dimensions if dimension.reversed is False],
                "kappa_items": study.values.judging.kappa_items,
                "level": study.values.quotas.level,
            }
        return GeneralForm(data, groups=groups, initial=initial)

    def save(self, plan: Plan, form: SettingsForm, *, author: str, seen: str | None) -> Study:
        study = super().save(plan, form, author=author, seen=seen)
        if "reversed" in form.fields:
            rubric_directions_store(
                rubric=study.rubric,
                reversed_keys=form.cleaned_data["reversed"],
                higher_keys=form.cleaned_data["higher"],
            )
        return study
