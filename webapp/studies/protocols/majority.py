"""Majority: one of four ordered grades a reply, and the one that most raters give counts (Dziri et al. 2019)."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.annotate import Annotate
from webapp.studies.protocols.base import JudgePage, register_protocol
from webapp.studies.questions import scale


@register_protocol
class Majority(Annotate):
    """Bad, poor, good or excellent, stored as 0 to 3."""

    name = "majority"
    title = "Four grades, majority"
    description = "Each person grades replies from bad to excellent; what most say counts."
    headline = "Grade a chatbot’s replies"
    identity = Identity("majority", "1")
    page = JudgePage(_("How good is this reply?"), _("Reply %(n)s of %(of)s"))
    results = ("grades",)
    asks = (
        scale(
            "overall",
            "How good is the reply, all in all?",
            {0: "bad", 1: "poor", 2: "good", 3: "excellent"},
        ),
    )

    def example(self) -> dict[str, Any]:
        # Five people for each reply, as Dziri et al. (2019) had.
        return {"judging": {"raters_least": 5, "raters_wanted": 5, "raters_most": 5}}
