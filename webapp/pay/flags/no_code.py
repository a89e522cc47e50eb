"""Work that earned pay, and no code to be paid by."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.pay.flags.base import register_flag
from webapp.pay.visits import AWAITING, VisitKey, Visits
from webapp.quality.flags.base import percent
from webapp.studies.models import Outcome


@register_flag
class NoCode:
    """The person gave the platform none; the study has no code of the platform for what they did, or they lost a chat and left without one."""

    name = "no_code"
    title = gettext_lazy("No code")

    def find(self, visits: Visits) -> dict[VisitKey, str]:
        recruitment = visits.study.values.recruitment
        earned = [visit for visit in visits.all if visit.earns]
        found = {}
        for visit in earned:
            if visit.status == AWAITING and visit.entered_code in ("", "NOCODE"):
                found[visit.key] = _("They gave Prolific no code.")
            elif visit.outcome not in Outcome.values:
                found[visit.key] = _(
                    "The chatbot failed them and they left: nobody could show them a code."
                )
            elif visit.platform == "prolific" and not recruitment.code(visit.outcome):
                found[visit.key] = _(
                    "They came from Prolific, and the study has none of its codes for this outcome."
                )
        return {
            key: f"{words} {_('So it is with {share} of those who earned pay.').format(share=percent(len(found), len(earned)))}"
            for key, words in found.items()
        }
