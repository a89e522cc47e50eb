"""The page of a study's checks: what people must understand before, and how it is seen that they pay attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest

from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.card_actions import deleted_just_now, moving_words
from webapp.dashboard.build.checks_form import ChecksForm
from webapp.dashboard.build.entry_cards import KINDS
from webapp.dashboard.build.fields import SettingsForm, section_fields
from webapp.dashboard.build.gold import GoldForm
from webapp.studies.models import Item, Study
from webapp.studies.questions import Question

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
            "moving_words": moving_words(),
            **deleted_just_now(request, {name: kind.named_by for name, kind in KINDS.items()}),
        }
        if plan.protocol and "attention" in plan.protocol.settings:
            found |= {
                "n_gold_items": gold_items(plan.study).count(),
                "below_template": "dashboard/build/_gold.html",
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
