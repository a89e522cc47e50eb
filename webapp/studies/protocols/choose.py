"""Choose: participants choose a fixed number of several things; their shares give weights (Shi et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatbots import Identity
from webapp.studies.models import StudyVersion
from webapp.studies.protocols.annotate import Annotate
from webapp.studies.protocols.base import (
    Draw,
    JudgePage,
    SlotPlan,
    TaskPlan,
    register_protocol,
)
from webapp.studies.questions import Question


@register_protocol
class Choose(Annotate):
    """One page, once for each participant; every thing is stored as chosen (1) or not (0)."""

    name = "choose"
    title = "Choose what matters"
    description = "Each person chooses a given number of things that matter most, such as the weights of a rating."
    identity = Identity("choose", "1")
    settings = ("choosing",)
    asks = tuple(
        Question(key=key, name=name, title=title, kind="scale", low=0, high=1)
        for key, name, title in (
            ("relevance", "Relevance", "It fits what was said."),
            ("engagingness", "Engagingness", "It makes one want to answer."),
            ("fluency", "Fluency", "Its language is good."),
            (
                "understandability",
                "Understandability",
                "It brings in knowledge from outside the conversation.",
            ),
            ("emotional_awareness", "Emotional awareness", "It minds how the other person feels."),
            ("personality_awareness", "Personality awareness", "It fits who is speaking."),
        )
    )
    instructions = (
        "Read all of the things first.\n"
        "Choose those that matter most to you; there are no right answers."
    )
    scale = (0, 1)
    page = JudgePage(
        _("What matters most?"), _("Question %(n)s of %(of)s"), sheet="choose", template="choose"
    )
    has_one_item = True
    results = ("approval",)

    def next_task(self, draw: Draw) -> TaskPlan:
        [item] = draw.items(1)
        return TaskPlan("judge", (SlotPlan(item=item),))

    def answers_wrong(
        self, version: StudyVersion, answers: Mapping[str, float], comment: str
    ) -> dict[str, str]:
        wanted, chosen = version.values.choosing.n_choose, sum(answers.values())
        if chosen == wanted:
            return {}
        words = ngettext(
            "Please choose exactly %(wanted)d; you chose %(chosen)d.",
            "Please choose exactly %(wanted)d; you chose %(chosen)d.",
            wanted,
        )
        return {"chosen": words % {"wanted": wanted, "chosen": chosen}}
