"""Dialogues: two stored conversations side by side, a choice between their chatbots, and the reason.

As ACUTE-Eval (Li et al. 2019): there is no tie.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatbots import Identity
from chatbots.storable import is_blank
from webapp.studies.models import StudyVersion
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
from webapp.studies.questions import Question

FEWEST_WORDS = 3
"""Minimum of words in a reason. Its content is not checked."""


@register_protocol
class Dialogues(StudyProtocol):
    """Some pairs a task; of each pair one conversation is A and one is B, and a rating's comment is the reason."""

    name = "dialogues"
    title = "Compare two conversations"
    description = "Each person reads two stored conversations side by side, chooses one chatbot, and says why."
    gives: Gives = "conversations"
    settings = ("dialogues",)
    identity = Identity("dialogues", "1", {"fewest_words": FEWEST_WORDS})
    steps = (
        Step("consent", gettext_lazy("About")),
        Step("instructions", gettext_lazy("About")),
        Step("quiz", gettext_lazy("About")),
        Step("questions", gettext_lazy("About")),
        Step("judge", gettext_lazy("Compare")),
        Step("done", gettext_lazy("Done")),
    )
    instructions = (
        "Read both conversations to their end.\n"
        "Look only at what the chatbots say, not at the other speakers.\n"
        "Choose the chatbot that you lean to, and say why in a few words.\n"
        "Your answers are saved pair by pair, so you can stop and come back."
    )
    scale = (-1, 1)
    asks = (
        Question(
            key="preference",
            name="Preference",
            title="Who would you rather talk to for a long time?",
            kind="scale",
            low=-1,
            high=1,
            labels={-1: "chatbot B", 1: "chatbot A"},
        ),
    )
    page = JudgePage(
        heading=gettext_lazy("Read both conversations"),
        count=gettext_lazy("Pair %(n)s of %(of)s"),
        sheet="choice",
        template="dialogues",
        hint=gettext_lazy("Look only at what the chatbots say."),
        is_wide=True,
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        pairs = draw.dialogues(draw.values.dialogues.n_dialogues)
        sides = ((chat, side) for pair in pairs for chat, side in zip(pair, "AB", strict=True))
        return TaskPlan(
            "judge", tuple(SlotPlan(conversation=chat, side=side) for chat, side in sides)
        )

    def answers_wrong(
        self, version: StudyVersion, answers: Mapping[str, float], comment: str
    ) -> dict[str, str]:
        ties = {key: _("Please choose A or B.") for key, answer in answers.items() if not answer}
        return ties | reason_wrong(comment)


def reason_wrong(reason: str) -> dict[str, str]:
    """Return an error for a reason that is too short, by the name `comments`; else an empty dict."""
    if sum(not is_blank(word) for word in reason.split()) >= FEWEST_WORDS:
        return {}
    words = _("Please say why, in at least %(n)s words.")
    return {"comments": words % {"n": FEWEST_WORDS}}
