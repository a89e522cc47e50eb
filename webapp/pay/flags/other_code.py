"""A code at the platform that is not the one of the outcome here."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.pay.flags.base import register_flag
from webapp.pay.visits import AWAITING, VisitKey, Visits, codes_told
from webapp.quality.flags.base import percent
from webapp.studies.models import Outcome


@register_flag
class OtherCode:
    """Somebody who left early may still have the code for all of it, from others or from an earlier visit."""

    name = "other_code"
    title = gettext_lazy("Other code")

    def find(self, visits: Visits) -> dict[VisitKey, str]:
        asked = [
            visit
            for visit in visits.all
            if visit.status == AWAITING and visit.entered_code not in ("", "NOCODE")
        ]
        # Of those who came before a code was corrected, the one they were told.
        told = codes_told(visits.study) if asked else {}
        code_of = visits.study.values.recruitment.code
        other = {}
        for visit in asked:
            now = code_of(visit.outcome) if visit.outcome in Outcome.values else ""
            own = told.get((visit.key, visit.outcome), now)
            if visit.entered_code.upper() != own.upper():
                other[visit.key] = (visit.entered_code, own)
        return {
            key: _(
                "They gave Prolific {entered}; here they were shown {own}. So did {share}."
            ).format(entered=entered, own=own or _("none"), share=percent(len(other), len(asked)))
            for key, (entered, own) in other.items()
        }
