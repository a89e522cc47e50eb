"""A code at the platform that is not the one of the outcome here."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.pay.flags.base import register_flag
from webapp.pay.visits import AWAITING, NO_CODES, VisitKey, Visits
from webapp.quality.flags.base import percent
from webapp.quality.selectors import lazy_words
from webapp.studies.models import Outcome


@register_flag
class OtherCode:
    """Flag for the full code after an early end: it may come from others or from an earlier visit."""

    name = "other_code"
    title = gettext_lazy("Other code")

    def find(self, visits: Visits) -> dict[VisitKey, Any]:
        code_of = visits.study.values.recruitment.code
        now = {outcome: code_of(outcome) for outcome in Outcome.values}
        n_asked, other = 0, {}
        for visit in visits.all:
            if visit.status != AWAITING or visit.entered_code in NO_CODES:
                continue
            n_asked += 1
            # Of those who came before a code was corrected, the one they were told.
            own = now.get(visit.outcome, "") if visit.told is None else visit.told
            if visit.entered_code != own and visit.entered_code.upper() != own.upper():
                other[visit.key] = (visit.entered_code, own)
        if not other:
            return {}
        share = percent(len(other), n_asked)
        words = partial(_words, share=share)
        return {key: lazy_words(words, entered, own) for key, (entered, own) in other.items()}


def _words(entered: str, own: str, *, share: str) -> str:
    return _("They gave Prolific {entered}; here they were shown {own}. So did {share}.").format(
        entered=entered, own=own or _("none"), share=share
    )
