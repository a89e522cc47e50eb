"""Builder's step of recruitment and pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest

from webapp.core.language import plural
from webapp.dashboard.builder.base import BuildStep, Plan, StepState
from webapp.dashboard.builder.forms import SettingsForm, section_fields, section_title
from webapp.dashboard.builder.sittings import describe_sittings
from webapp.dashboard.recruitment import address_for, participant_link
from webapp.insights.study_plan import cost_of, n_wanted, reach_of
from webapp.studies.assignment.rules.base import rules
from webapp.studies.models import Outcome, Study
from webapp.studies.recruitment.completion import is_paid, money_text
from webapp.studies.recruitment.owed import pay_for_ending
from webapp.studies.validation import outcomes_possible

PROLIFIC_LEAST = {"GBP": 6.0, "USD": 8.0}
"""Minimum pay per hour on Prolific."""


PLATFORMS = [
    ("prolific", "Prolific", "codes by outcome"),
    ("mturk", "MTurk", "frame or code"),
    ("panel", "Panel", "any link"),
    ("links", "Link list", "one-time links"),
    ("link", "Anyone", "one open link"),
]
_WHAT = {
    Outcome.RATED: "everything completed",
    Outcome.BOT_FAILED: "ended early, not their fault",
    Outcome.SCREENED_OUT: "wrong answers before the task",
    Outcome.FAILED_CHECK: "attention check missed",
    Outcome.NO_CONSENT: "“I do not agree”",
    Outcome.LATE: "came back after a part had closed",
    Outcome.WITHDRAWN: "asked for deletion",
}
_NUMBERS = {
    "n_conversations_wanted": ("Participants wanted", "completed tasks; 0 for no limit"),
    "pay_each": ("Pay per task", ""),
    "minutes": ("Minutes", ""),
    "fee_share": ("Platform fee", "0.33 is 33 %"),
    "currency": ("Currency", "such as GBP"),
    "max_per_bot": ("Chats per bot", "0 for no limit"),
    "smallest_difference": ("Smallest difference of interest", "in points; empty for a tenth of the scale"),
    "planned_sd": ("Standard deviation", "for planning, in points; empty to take it from ratings"),
    "spread_of": ("Plan from study", "its key, such as a pilot; empty for the newest"),
    "level": ("Confidence level", "0.95 tests at .05"),
}
"""Settings that are shown side by side, so their labels are short."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """Outcome of a part, with the fields of its code and return link."""

    title: str
    description: str
    code: forms.BoundField
    link: forms.BoundField
    pay: str


class PayStep(BuildStep):
    name = "pay"
    title = "Participants and pay"
    heading = "Where do participants come from?"
    template = "pay.html"
    live_template = "_pay_live.html"

    def state(self, plan: Plan) -> StepState:
        n = n_wanted(plan.study)
        each = plan.study.values.assignment.max_per_bot
        if each:
            return StepState(plural(each, "%(n)d per bot", "%(n)d per bot") % {"n": each}, "good")
        if not n:
            return StepState("no limit", "good")
        return StepState(plural(n, "%(n)d wanted", "%(n)d wanted") % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> SettingsForm:
        recruitment = section_fields("recruitment")
        quotas, assignment = section_fields("quotas"), section_fields("assignment")
        if plan.gives != "bots":
            for name in ("max_per_bot", "bot_quotas"):
                del assignment[name]
        known = {**recruitment, **quotas, **assignment, **section_fields("texts")}
        numbers = {name: known[name] for name in _NUMBERS if name in known}
        for name, field in numbers.items():
            field.label, field.help_text = (str(words) for words in _NUMBERS[name])
        ends = {name: recruitment[name] for name in recruitment if _is_end(name)}
        shown_names = {"platform", *numbers, *ends}
        groups = [
            ("platform", {"platform": known["platform"]}),
            ("ends", ends),
            ("numbers", numbers),
            ("Link parameters and admission", _rest(recruitment, shown_names)),
            (section_title("closing"), _closing_fields()),
            (section_title("planning"), section_fields("planning")),
            (section_title("quotas"), _rest(quotas, shown_names)),
            (section_title("assignment"), {"rule": _rule_field(plan), **_rest(assignment, shown_names)}),
        ]
        initial = {**plan.study.values.flat(), "rule": plan.study.rule}
        return SettingsForm(data, groups=groups, initial=initial)

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the platforms with their addresses, and the plan's cost."""
        link = participant_link(request, plan.study)
        return {
            "platforms": [(name, title, hint, address_for(plan.study, name, link)) for name, title, hint in PLATFORMS],
            "ends_open": _needs_ends(plan.study),
            "sittings_said": describe_sittings(plan),
            **self.live(plan),
        }

    def live(self, plan: Plan) -> dict[str, Any]:
        """Return the context that depends on numbers: cost and power."""
        cost = cost_of(plan.study)
        currency = cost.currency
        return {
            "cost": cost,
            "each": money_text(cost.each, currency) if cost.each is not None else "",
            "fee_share": f"{plan.study.values.recruitment.fee_share * 100:.3g} %" if cost.fee else "",
            "an_hour": money_text(cost.an_hour, currency) if cost.an_hour is not None else "",
            "in_all": money_text(cost.in_all, currency) if cost.in_all is not None else "",
            "reach": reach_of(plan.study, plan.width),
        }

    def rows(self, plan: Plan, form: SettingsForm) -> list[OutcomeRow]:
        """Return a row for every possible outcome."""
        return [
            OutcomeRow(
                str(outcome.label),
                str(_WHAT[outcome]),
                form[f"code_{outcome.value}"],
                form[f"link_{outcome.value}"],
                _pay_words(plan, outcome),
            )
            for outcome in outcomes_possible(plan.study)
        ]


def _needs_ends(study: Study) -> bool:
    """Return True if codes or return links are needed, or some are set."""
    recruitment = study.values.recruitment
    is_asked = recruitment.platform in ("prolific", "panel")
    return is_asked or any(recruitment.code(outcome) or recruitment.link(outcome) for outcome in Outcome)


def _is_end(name: str) -> bool:
    return name.startswith(("code_", "link_"))


def _rest(fields: Mapping[str, forms.Field], shown_names: set[str]) -> dict[str, forms.Field]:
    return {name: field for name, field in fields.items() if name not in shown_names}


def _closing_fields() -> dict[str, forms.Field]:
    fields = section_fields("closing")
    fields["closes_on"].widget = forms.DateInput(attrs={"type": "date"})
    return fields


def _rule_field(plan: Plan) -> forms.ChoiceField:
    choices = [(rule.name, f"{rule.title}: {rule.description}") for rule in rules]
    if plan.study.rule not in rules:  # the plug-in is not installed
        choices.append((plan.study.rule, plan.study.rule))
    return forms.ChoiceField(label="Rule", choices=choices)


def _pay_words(plan: Plan, outcome: Outcome) -> str:
    recruitment = plan.study.values.recruitment
    if outcome in (Outcome.RATED, Outcome.BOT_FAILED) and not is_paid(plan.study.values):
        return "unpaid"
    if outcome == Outcome.RATED:
        return "paid in full"
    if outcome == Outcome.BOT_FAILED:
        return "paid in full" if recruitment.pays_in_full else "paid; you decide how much"
    pay = pay_for_ending(plan.study.values, outcome)
    if pay.is_for_time and pay.text:
        return f"{pay.text} for their time"
    if outcome == Outcome.NO_CONSENT:
        return "place released"
    return "you decide"
