"""Protocols of comparisons: two replies, or two stored conversations.

Pairwise: two replies to one context, win, lose or tie on each question. As the one-turn evaluation of Ghandeharioun
et al. (2019): batches of comparisons, practice that must be passed, six to eight raters for each comparison.

Dialogues: two stored conversations side by side, a choice between their chatbots, and the reason. As ACUTE-Eval (Li
et al. 2019): there is no tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from chatbots.text import is_blank
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
    usual_steps,
)
from webapp.studies.ready_made import ready_questions


@register_protocol
class PairwiseProtocol(StudyProtocol):
    """As many comparisons a task as the study sets; the sides of the replies are drawn and balanced."""

    name = "pairwise"
    title = "Compare two replies"
    description = (
        "Each person reads what was said and two replies to it, and says of each question which is better, or "
        "that they are the same."
    )
    gives: Gives = "items"
    n_replies = 2
    instructions = (
        "Read what was said, then both replies.\n"
        "Answer each question by itself; “Same” is a fine answer.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    scale = (-1, 1)
    asks = ready_questions("pair")
    settings = ("judging", "attention", "training")
    identity = Identity("pairwise", "1")
    steps = usual_steps(Step("practice", _("Practice")), Step("judge", _("Compare")))
    page = JudgePage(
        heading=_("Which reply is better?"),
        count=_("Comparison %(n)s of %(of)s"),
        sheet="pair",
        template="pair",
        hint=_("Read what was said, then answer the questions. “Same” is a fine answer."),
        is_wide=True,
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.with_checks(draw.items(draw.values.judging.n_items, least=1))
        sides = draw.sides(items)
        slots = (SlotPlan(item=item, is_flipped=is_flipped) for item, is_flipped in sides.items())
        return TaskPlan("judge", tuple(slots))

    def example(self) -> dict[str, Any]:
        # Six to eight people for each comparison, as Ghandeharioun et al. (2019) had.
        return {"judging": {"raters_least": 6, "raters_wanted": 6, "raters_most": 8}}


FEWEST_WORDS = 3
"""Minimum of words in a reason. Its content is not checked."""


@register_protocol
class DialoguesProtocol(StudyProtocol):
    """Some pairs a task; of each pair one conversation is A and one is B, and a rating's comment is the reason."""

    name = "dialogues"
    title = "Compare two conversations"
    description = "Each person reads two stored conversations side by side, chooses one chatbot, and says why."
    gives: Gives = "conversations"
    settings = ("dialogues",)
    identity = Identity("dialogues", "1", {"fewest_words": FEWEST_WORDS})
    steps = usual_steps(Step("judge", gettext_lazy("Compare")))
    instructions = (
        "Read both conversations to their end.\n"
        "Look only at what the chatbots say, not at the other speakers.\n"
        "Choose the chatbot that you prefer, even slightly, and say why in a few words.\n"
        "Your answers are saved pair by pair, so you can stop and come back."
    )
    scale = (-1, 1)
    asks = ready_questions("dialogues")
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
        return TaskPlan("judge", tuple(SlotPlan(conversation=chat, side=side) for chat, side in sides))

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        ties = {key: gettext("Please choose A or B.") for key, answer in answers.items() if not answer}
        return ties | validate_reason(comment)


def validate_reason(reason: str) -> dict[str, str]:
    """Return an error for a reason that is too short, by the name `comments`; else an empty dict."""
    if sum(not is_blank(word) for word in reason.split()) >= FEWEST_WORDS:
        return {}
    words = gettext("Please say why, in at least %(n)s words.")
    return {"comments": words % {"n": FEWEST_WORDS}}
