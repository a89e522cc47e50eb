"""Flags about pay, and all flags of a visit.

Flags of work are in `webapp.ratings.flags`; the flags here only matter before work is paid. A flag is a reason to check
a submission: a number, how many others have it, and an explanation. It decides nothing. Other apps add kinds with
`flag_kinds.look_into(…)`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from django.db.models import CharField, F
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatbots.registry import C, Registry
from webapp.pay.submissions import AWAITING, NO_CODES, SubmissionKey, Submissions
from webapp.ratings.flag_selectors import Flag, flags_of_visits, lazy_words
from webapp.ratings.flag_store.models import FlagState
from webapp.ratings.flags.base import percent
from webapp.results.refresh import refresh_flags
from webapp.studies.models import Outcome, Task


class PayFlagKind(Protocol):
    """Kind of flag about pay.

    Attributes:
        title: short title for lists and filters.
    """

    name: str
    title: Any

    def find(self, visits: Submissions) -> dict[SubmissionKey, Any]:
        """Return the explanation by flagged visit, in a constant number of queries.

        Pages show a few of thousands: `lazy_words` formats them on access.
        """
        ...


flag_kinds: Registry[PayFlagKind] = Registry("flag", "webapp.pay.flags")


def register_flag(cls: C) -> C:
    """Instantiate and register the decorated class as a kind of flag."""
    flag_kinds.register(cls)
    return cls


def flags_of(visits: Submissions, *, exact: bool = False) -> dict[SubmissionKey, list[Flag]]:
    """Return the flags of each flagged visit, those of its tasks first.

    Args:
        exact: True to recompute all flags now, because a decision depends on them.
    """
    return flags_by_state(visits, refresh_flags(visits.study, exact=exact).state)


def flags_by_state(
    visits: Submissions, state: FlagState | None, *, of_pay: bool = True
) -> dict[SubmissionKey, list[Flag]]:
    """Return the flags of each flagged visit, as last computed.

    Args:
        of_pay: whether to include the flags about pay itself, whose words may quote codes.
    """
    flags_by_visit: dict[SubmissionKey, list[Flag]] = {}
    for visit, flags in flags_of_visits(visits.study, state).items():
        flags_by_visit[SubmissionKey(*visit)] = flags
    for kind in flag_kinds if of_pay else ():
        for key, words in kind.find(visits).items():
            flags_by_visit.setdefault(key, []).append(Flag(kind.name, kind.title, words))
    return flags_by_visit


@register_flag
class NoCode:
    """Flag for a missing code.

    No code was submitted: the study has none for this outcome, or the participant lost a chat and left without one.
    """

    name = "no_code"
    title = gettext_lazy("No code")

    def find(self, visits: Submissions) -> dict[SubmissionKey, Any]:
        code_of = visits.study.values.recruitment.code
        now = {outcome: code_of(outcome) for outcome in Outcome.values}
        earned = [visit for visit in visits.all if visit.earns]
        ours = _of_ours(visits)
        reasons = {}
        for visit in earned:
            if visit.status == AWAITING and visit.entered_code in NO_CODES:
                reasons[visit.key] = _("No code was submitted to Prolific.")
            elif visit.outcome not in now:
                reasons[visit.key] = _("The chatbot failed and the participant left, so no code was shown.")
            elif visit.platform == "prolific" and (
                # Participants who came before a code was added or corrected have not seen it.
                visit.key in ours or not (now[visit.outcome] if visit.shown_code is None else visit.shown_code)
            ):
                reasons[visit.key] = _("The participant came from Prolific, but was shown no Prolific code.")
        if not reasons:
            return {}
        share = percent(len(reasons), len(earned))
        of_all = _("The same is true of {share} of the participants who earned pay.").format(share=share)
        return {key: f"{words} {of_all}" for key, words in reasons.items()}


def _of_ours(visits: Submissions) -> set[SubmissionKey]:
    """Return Prolific visits that were shown a code made by Confab."""
    tasks = Task.objects.filter(
        participant__study=visits.study,
        participant__platform="prolific",
        participant__is_synthetic=False,
        completion_code__isnull=False,
    ).annotate(shown=Cast(KT("told__code"), CharField()))
    rows = tasks.filter(shown=F("completion_code")).values_list("participant", "submission")
    return {SubmissionKey(*row) for row in rows}


@register_flag
class OtherCode:
    """Flag for a code of another outcome, such as the full code after an early end.

    It may come from others or from an earlier visit.
    """

    name = "other_code"
    title = gettext_lazy("Other code")

    def find(self, visits: Submissions) -> dict[SubmissionKey, Any]:
        code_of = visits.study.values.recruitment.code
        now = {outcome: code_of(outcome) for outcome in Outcome.values}
        n_asked, mismatches = 0, {}
        for visit in visits.all:
            if visit.status != AWAITING or visit.entered_code in NO_CODES:
                continue
            n_asked += 1
            # Participants who came before a correction saw the earlier code.
            shown_code = now.get(visit.outcome, "") if visit.shown_code is None else visit.shown_code
            if visit.entered_code != shown_code and visit.entered_code.upper() != shown_code.upper():
                mismatches[visit.key] = (visit.entered_code, shown_code)
        if not mismatches:
            return {}
        share = percent(len(mismatches), n_asked)
        words = partial(_render_words, share=share)
        return {key: lazy_words(words, entered, shown_code) for key, (entered, shown_code) in mismatches.items()}


def _render_words(entered: str, shown_code: str, *, share: str) -> str:
    return _(
        "The code submitted to Prolific is {entered}; the code shown here was {own}. The same is true of {share}."
    ).format(entered=entered, own=shown_code or _("none"), share=share)
