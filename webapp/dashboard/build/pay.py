"""The step of who takes part, by which platform, and what they are paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest

from webapp.core.speaking import plural
from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.cost import cost_of, n_wanted
from webapp.dashboard.build.fields import SettingsForm, section_fields, section_title
from webapp.dashboard.build.power import reach_of
from webapp.dashboard.recruiting import address_for, participant_link
from webapp.studies.checks import outcomes_possible
from webapp.studies.models import Outcome
from webapp.studies.money import amount, is_paid
from webapp.studies.rules.base import rules

PLATFORMS = [
    ("prolific", "Prolific", "codes by outcome"),
    ("mturk", "MTurk", "frame or code"),
    ("panel", "Panel", "any link"),
    ("links", "Link list", "one-time links"),
    ("link", "Anybody", "one open link"),
]
_WHAT = {
    Outcome.RATED: "everything saved",
    Outcome.BOT_FAILED: "finished early, not their fault",
    Outcome.SCREENED_OUT: "wrong answers before the task",
    Outcome.FAILED_CHECK: "attention check missed",
    Outcome.NO_CONSENT: "“I do not agree”",
    Outcome.WITHDRAWN: "asked for deletion",
}
_NUMBERS = {
    "n_conversations_wanted": ("In all", "0: no limit"),
    "max_per_bot": ("Chats a bot", "0: no limit"),
    "pay_each": ("Pay each", ""),
    "currency": ("Currency", "such as GBP"),
    "minutes": ("Minutes", ""),
    "fee_share": ("Platform’s fee", "0.33 is 33 %"),
}
"""Stand side by side, so their words are short."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One way in which a part can end, with the fields of its code and its way back."""

    title: str
    what: str
    code: forms.BoundField
    link: forms.BoundField
    pay: str


class PayStep(BuildStep):
    name = "pay"
    title = "Who and pay"
    heading = "Where do people come from?"
    template = "pay.html"
    live_template = "_pay_live.html"

    def state(self, plan: Plan) -> StepState:
        n = n_wanted(plan.study)
        each = plan.study.values.assignment.max_per_bot
        if each:
            return StepState(plural(each, "%(n)d a bot", "%(n)d a bot") % {"n": each}, "good")
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
        shown = {"platform", *numbers, *ends}
        groups = [
            ("platform", {"platform": known["platform"]}),
            ("ends", ends),
            ("numbers", numbers),
            ("How people come and go back", _rest(recruitment, shown)),
            (section_title("quotas"), _rest(quotas, shown)),
            (section_title("assignment"), {"rule": _rule_field(plan), **_rest(assignment, shown)}),
        ]
        initial = {**plan.study.values.flat(), "rule": plan.study.rule}
        return SettingsForm(data, groups=groups, initial=initial)

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the platforms with the address to give to each, and what the plan costs and shows."""
        link = participant_link(request, plan.study)
        return {
            "platforms": [
                (name, title, hint, address_for(plan.study, name, link))
                for name, title, hint in PLATFORMS
            ],
            **self.live(plan),
        }

    def live(self, plan: Plan) -> dict[str, Any]:
        """Return the context that every number changes: cost, and detectable differences."""
        cost = cost_of(plan.study)
        currency = cost.currency
        return {
            "cost": cost,
            "an_hour": amount(cost.an_hour, currency) if cost.an_hour is not None else "",
            "in_all": amount(cost.in_all, currency) if cost.in_all is not None else "",
            "for_people": amount(cost.people, currency) if cost.people is not None else "",
            "for_fee": amount(cost.fee, currency) if cost.fee else "",
            "reach": reach_of(plan.study, plan.width),
        }

    def rows(self, plan: Plan, form: SettingsForm) -> list[OutcomeRow]:
        """Return a row for every outcome that is possible here."""
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


def _is_end(name: str) -> bool:
    return name.startswith(("code_", "link_"))


def _rest(fields: Mapping[str, forms.Field], shown: set[str]) -> dict[str, forms.Field]:
    return {name: field for name, field in fields.items() if name not in shown}


def _rule_field(plan: Plan) -> forms.ChoiceField:
    choices = [(one.name, f"{one.title}: {one.description}") for one in rules]
    if plan.study.rule not in rules:  # its plug-in is away
        choices.append((plan.study.rule, plan.study.rule))
    return forms.ChoiceField(label="Rule", choices=choices)


def _pay_words(plan: Plan, outcome: Outcome) -> str:
    recruitment = plan.study.values.recruitment
    if outcome in (Outcome.RATED, Outcome.BOT_FAILED) and not is_paid(plan.study.values):
        return "unpaid"
    if outcome == Outcome.RATED:
        return "paid in full"
    if outcome == Outcome.BOT_FAILED:
        return "paid in full" if recruitment.pays_in_full else "paid; you say how much"
    if outcome == Outcome.SCREENED_OUT and recruitment.pay_screened_out:
        paid = amount(recruitment.pay_screened_out, recruitment.currency)
        return f"{paid} for their time"
    if outcome == Outcome.NO_CONSENT:
        return "place returned"
    return "you decide"
