"""The step of who takes part, by which platform, and what they are paid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

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
    ("prolific", _("Prolific"), _("codes by outcome")),
    ("mturk", _("MTurk"), _("frame or code")),
    ("panel", _("Panel"), _("any link")),
    ("links", _("Link list"), _("one-time links")),
    ("link", _("Anybody"), _("one open link")),
]
_WHAT = {
    Outcome.RATED: _("everything saved"),
    Outcome.BOT_FAILED: _("finished early, not their fault"),
    Outcome.SCREENED_OUT: _("wrong answers before the task"),
    Outcome.FAILED_CHECK: _("attention check missed"),
    Outcome.NO_CONSENT: _("“I do not agree”"),
    Outcome.WITHDRAWN: _("asked for deletion"),
}
_NUMBERS = {
    "n_conversations_wanted": (_("In all"), _("0: no limit")),
    "max_per_bot": (_("Chats a bot"), _("0: no limit")),
    "pay_each": (_("Pay each"), ""),
    "currency": (_("Currency"), _("such as GBP")),
    "minutes": (_("Minutes"), ""),
    "fee_share": (_("Platform’s fee"), _("0.33 is 33 %")),
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
    title = _("Who and pay")
    heading = _("Where do people come from?")
    template = "pay.html"
    live_template = "_pay_live.html"

    def state(self, plan: Plan) -> StepState:
        n = n_wanted(plan.study)
        each = plan.study.values.assignment.max_per_bot
        if each:
            return StepState(ngettext("%(n)d a bot", "%(n)d a bot", each) % {"n": each}, "good")
        if not n:
            return StepState(__("no limit"), "good")
        return StepState(ngettext("%(n)d wanted", "%(n)d wanted", n) % {"n": n}, "good")

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
            (__("How people come and go back"), _rest(recruitment, shown)),
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
    return forms.ChoiceField(label=__("Rule"), choices=choices)


def _pay_words(plan: Plan, outcome: Outcome) -> str:
    recruitment = plan.study.values.recruitment
    if outcome in (Outcome.RATED, Outcome.BOT_FAILED) and not is_paid(plan.study.values):
        return __("unpaid")
    if outcome == Outcome.RATED:
        return __("paid in full")
    if outcome == Outcome.BOT_FAILED:
        return __("paid in full") if recruitment.pays_in_full else __("paid; you say how much")
    if outcome == Outcome.SCREENED_OUT and recruitment.pay_screened_out:
        paid = amount(recruitment.pay_screened_out, recruitment.currency)
        return __("%(amount)s for their time") % {"amount": paid}
    if outcome == Outcome.NO_CONSENT:
        return __("place returned")
    return __("you decide")
