"""Survey: how well does a reply fit, asked of a few items and one attention check a task (Huang et al. 2020)."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.annotate import Annotate
from webapp.studies.protocols.base import JudgePage, register_protocol
from webapp.studies.questions import scale


@register_protocol
class Survey(Annotate):
    """Five items and a check among them; the work of a participant who misses it is excluded."""

    name = "survey"
    title = "Coherence survey"
    description = (
        "Each person says of a few replies how well they fit, with an attention check among them."
    )
    headline = "Say how well replies fit"
    identity = Identity("survey", "1")
    page = JudgePage(
        _("How well does the reply fit?"),
        _("Reply %(n)s of %(of)s"),
        hint=_("Judge the fit, not whether you agree."),
    )
    asks = (
        scale(
            "coherence",
            "How well does the reply fit what was said?",
            {1: "not coherent at all", 5: "very coherent"},
        ),
    )
    needs_checks = True

    def example(self) -> dict[str, Any]:
        check = {
            "context": ["How was your weekend?", "Quiet. I mended my bicycle."],
            "response": "Bicycles need care now and then. To show that you read this, please choose 2 here.",
            "expected": {"coherence": [2]},
        }
        # Eight to ten people for each reply, as Huang et al. (2020) had.
        raters = {"raters_least": 8, "raters_wanted": 8, "raters_most": 10}
        return {"attention": {"attention_checks": [check], "n_checks": 1}, "judging": raters}
