"""Annotate: judge a number of stored replies on the rubric, one after another.

The plain form of the protocols that give items one by one; those of the papers are made from it.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from webapp.studies.protocols.base import (
    Draw,
    Gives,
    JudgePage,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    register_protocol,
)
from webapp.studies.questions import Question, scale


@register_protocol
class Annotate(StudyProtocol):
    """As many items a task as the study sets; a returning participant gets others, maybe fewer in the last task."""

    name = "annotate"
    title = "Annotate items"
    description = "Each person rates some replies, one by one, on any questions that you like."
    headline = "Rate a chatbot’s replies"
    gives: Gives = "items"
    settings: tuple[str, ...] = ("judging", "attention")
    identity = Identity("annotate", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("quiz", _("About")),
        Step("questions", _("About")),
        Step("judge", _("Rate")),
        Step("done", _("Done")),
    )
    page = JudgePage(_("How good is this reply?"), _("Reply %(n)s of %(of)s"))
    asks: tuple[Question, ...] = tuple(
        scale(key, title, {1: "very bad", 5: "very good"})
        for key, title in (
            ("quality", "How good is the reply, all in all?"),
            ("fluency", "How fluent is the reply?"),
            ("coherence", "How well does it fit what was said?"),
        )
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.with_checks(draw.items(draw.values.judging.n_items, least=1))
        return TaskPlan("judge", tuple(SlotPlan(item=item) for item in items))
