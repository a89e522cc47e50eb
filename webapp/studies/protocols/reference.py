"""Reference: replies rated next to a known one that has a score (Shi et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatbots import Identity
from webapp.studies.models import Item, StudyVersion
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
class Reference(Annotate):
    """Better, the same or worse than the known reply first, then each question; its score may be revised."""

    name = "reference"
    title = "Rating beside a reference"
    description = (
        "Each person says whether a reply is better than one with a known score, then rates it; the known score "
        "may be revised."
    )
    headline = "Rate replies beside a known one"
    identity = Identity("reference", "1")
    settings = ("judging", "attention", "referencing")
    page = JudgePage(
        gettext_lazy("Rate the reply beside a known one"),
        gettext_lazy("Reply %(n)s of %(of)s"),
        sheet="reference",
        template="reference",
        hint=gettext_lazy("The known reply was rated earlier. Use it as your measure."),
        is_wide=True,
    )
    asks = tuple(
        Question(
            key=key,
            name=name,
            title=title,
            kind="scale",
            low=1,
            high=5,
            labels={1: "very bad", 5: "very good"},
        )
        for key, name, title in (
            ("relevance", "Relevance", "Fits what was said"),
            ("engagingness", "Engagingness", "Makes you want to answer"),
            ("fluency", "Fluency", "Good English"),
            ("understandability", "Understandability", "Brings in knowledge from outside"),
            ("emotional_awareness", "Emotional awareness", "Minds how the other person feels"),
            ("personality_awareness", "Personality awareness", "Fits who is speaking"),
        )
    )
    instructions = (
        "Read what was said, then the known reply and its score.\n"
        "Say whether the other reply is better, the same or worse, and rate it.\n"
        "Change the known reply’s score where you see it otherwise.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    needs_reference = True
    n_more_asked = 1
    results = ("reference",)

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.with_checks(draw.items(draw.values.judging.n_items, least=1))
        return TaskPlan("judge", tuple(SlotPlan(item=item) for item in items))

    def example(self) -> dict[str, Any]:
        only_of = {
            "understandability": ["chitchat"],
            "emotional_awareness": ["empathetic"],
            "personality_awareness": ["persona"],
        }
        # Three people at least for each reply, as Shi et al. (2023) had.
        raters = {"raters_least": 3, "raters_wanted": 3}
        return {"referencing": {"asked_only_of": only_of}, "judging": raters}

    def leaves_out(self, version: StudyVersion) -> bool:
        return bool(version.values.referencing.asked_only_of)

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        return version.values.referencing.not_asked(item.task)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        scale = (version.rubric.low, version.rubric.high)
        return {"direction": (-1, 1), "reference_score": scale, "kept_both": (0, 1)}

    def answers_wrong(
        self, version: StudyVersion, answers: Mapping[str, float], comment: str
    ) -> dict[str, str]:
        if "direction" in answers:
            return {}
        return {"direction": _("Please say whether it is better, the same or worse.")}
