"""Single-turn comparison: two replies to one context, win, lose or tie on each question.

As the one-turn evaluation of Ghandeharioun et al. (2019): batches of comparisons, practice that must be passed,
six to eight people for each comparison.
"""

from __future__ import annotations

from typing import Any

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
from webapp.studies.questions import Question


@register_protocol
class Pairwise(StudyProtocol):
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
    asks = tuple(
        Question(
            key=key,
            name=name,
            title=title,
            kind="scale",
            low=-1,
            high=1,
            labels={-1: "the second reply", 0: "the same", 1: "the first reply"},
        )
        for key, name, title in (
            ("quality", "Quality", "Which is better overall?"),
            ("fluency", "Fluency", "Which is in better English?"),
            ("relatedness", "Relatedness", "Which fits better with what was said?"),
            ("empathy", "Empathy", "Which shows more feeling for the other person?"),
        )
    )
    settings = ("judging", "attention", "training")
    identity = Identity("pairwise", "1")
    steps = (
        Step("consent", _("About")),
        Step("instructions", _("About")),
        Step("quiz", _("About")),
        Step("questions", _("About")),
        Step("practice", _("Practice")),
        Step("judge", _("Compare")),
        Step("done", _("Done")),
    )
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
