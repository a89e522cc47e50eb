"""Survey: how well does a reply fit, asked of a few items and one attention check a task (Huang et al. 2020)."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.annotate import Annotate
from webapp.studies.protocols.base import JudgePage, register_protocol


@register_protocol
class Survey(Annotate):
    """Five items and a check among them; whoever misses it has their work set apart."""

    name = "survey"
    title = "Coherence survey"
    description = (
        "Each person says of a few replies how well they fit, with an attention check among them."
    )
    identity = Identity("survey", "1")
    page = JudgePage(
        _("How well does the reply fit?"),
        _("Reply %(n)s of %(of)s"),
        hint=_("Judge the fit, not whether you agree."),
    )
    needs_checks = True
