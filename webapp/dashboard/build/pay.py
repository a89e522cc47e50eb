"""The step of who takes part, by which platform, and what they are paid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.fields import SettingsForm, section_fields, section_title
from webapp.studies.rules.base import rules


class PayStep(BuildStep):
    name = "pay"
    title = _("Who and pay")
    heading = _("Where do people come from?")

    def state(self, plan: Plan) -> StepState:
        n = plan.study.values.quotas.n_conversations_wanted
        if not n:
            return StepState(__("no limit"), "good")
        return StepState(ngettext("%(n)d wanted", "%(n)d wanted", n) % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        rule = forms.ChoiceField(
            label=__("Rule"),
            choices=[(one.name, f"{one.title}: {one.description}") for one in rules],
        )
        groups = [
            (section_title("recruitment"), section_fields("recruitment")),
            (section_title("quotas"), section_fields("quotas")),
            (section_title("assignment"), {"rule": rule, **section_fields("assignment")}),
        ]
        initial = {**plan.study.values.flat(), "rule": plan.study.rule}
        return SettingsForm(data, groups=groups, initial=initial)
