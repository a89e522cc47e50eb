"""Aspects: several qualities of a reply, each on its own scale (Lan et al. 2020)."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.annotate import Annotate
from webapp.studies.protocols.base import JudgePage, register_protocol
from webapp.studies.questions import scale


@register_protocol
class Aspects(Annotate):
    """Fluency, coherence, engagement and the reply as a whole, all of every item."""

    name = "aspects"
    title = "Several aspects"
    description = (
        "Each person rates replies on several aspects: fluency, coherence, engagement, overall."
    )
    headline = "Rate a chatbot’s replies"
    identity = Identity("aspects", "1")
    page = JudgePage(_("Rate this reply"), _("Reply %(n)s of %(of)s"))
    asks = tuple(
        scale(key, title, {1: "very bad", 6: "very good"})
        for key, title in (
            ("fluency", "How fluent is the reply?"),
            ("coherence", "How well does it fit what was said?"),
            ("engagement", "How much would you like to go on talking?"),
            ("overall", "How good is it, all in all?"),
        )
    )

    def example(self) -> dict[str, Any]:
        # A panel of three, as Lan et al. (2020) had.
        return {"judging": {"raters_least": 3, "raters_wanted": 3, "raters_most": 3}}
