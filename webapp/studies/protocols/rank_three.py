"""Protocol of rankings: three replies to one context, put in order from the best to the worst.

An order implies all three pairs of replies. The bots' strengths are those of Plackett and Luce
(`evaluation.analysis.reply_rankings`).
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from evaluation.analysis.reply_rankings import N_RANKED, RankedReplies
from webapp.studies.models import Item, StudyVersion
from webapp.studies.protocols.base import (
    Activity,
    Draw,
    ExtraAnswer,
    Gives,
    JudgePage,
    ReplyOrder,
    SlotPlan,
    Step,
    StudyProtocol,
    TaskPlan,
    WorkDescription,
    register_protocol,
    usual_steps,
)
from webapp.studies.questions import Question
from webapp.studies.rubrics import post_task_questions
from webapp.studies.settings import StudyValues

RANKS = tuple(f"rank_{place}" for place in range(1, N_RANKED + 1))
"""Names of the answers, best first: numbers of the replies in their item, from 0."""
MOST_REPLIES = 8


@register_protocol
class RankThreeProtocol(StudyProtocol):
    """As many items a task as the study sets; of each item three replies are drawn and balanced, and their places."""

    name = "rank_three"
    title = "Rank three replies"
    description = (
        "Each person reads three replies to what was said, or three whole chats, and puts them in order from the best "
        "to the worst."
    )
    headline = "Put a chatbot’s replies in order"
    gives: Gives = "items"
    activity: Activity | None = "pairs"
    activity_place = 3
    compares_pairs = True
    elicitation = "Relative quality estimation: ranking of three."
    order = ReplyOrder(RANKS, RankedReplies)
    extra_answers = tuple(
        ExtraAnswer(
            name,
            "integer",
            f"Reply in place {place} of {N_RANKED}, 1 being the best: its number among the item's responses, from 0.",
        )
        for place, name in enumerate(RANKS, start=1)
    )
    n_replies = N_RANKED
    most_replies = MOST_REPLIES
    instructions = (
        "Read the whole page, with all three texts.\n"
        "Put the texts in order: the best one first, the worst one last.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    scale = (-1, 1)
    n_asked = 1
    n_more_asked = 1
    asks = (
        Question(
            key="quality",
            name="Quality",
            title="Which text is the best, which comes second, and which last?",
            kind="scale",
            low=-1,
            high=1,
            labels={-1: "the second reply", 1: "the first reply"},
        ),
    )
    settings = ("judging",)
    identity = Identity("rank_three", "1")
    steps = usual_steps(Step("judge", _("Compare")))
    page = JudgePage(
        heading=_("Put the texts in order"),
        count=_("Comparison %(n)s of %(of)s"),
        sheet="ranking",
        template="ranking",
        hint=_("The best one first, the worst one last."),
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.items(draw.values.judging.n_items, least=1)
        slots = tuple(SlotPlan(item=item) for item in items)
        return TaskPlan("judge", slots, {"shown": dict(draw.shown(items, N_RANKED))})

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        # The scale is of the pairs that an order implies.
        return frozenset(question.key for question in post_task_questions(version) if question.is_rated)

    def more_answers(self, version: StudyVersion) -> Mapping[str, tuple[float, float]]:
        return dict.fromkeys(RANKS, (0, MOST_REPLIES - 1))

    def answers_wrong(self, version: StudyVersion, answers: Mapping[str, float], comment: str) -> dict[str, str]:
        return validate_order(answers)

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = values.judging.n_items
        return WorkDescription(
            gettext("You read three texts at a time and put them in order. There are no right or wrong answers."),
            ngettext("%(n)s comparison", "%(n)s comparisons", n) % {"n": n},
            gettext("of three texts"),
            "n_items",
        )


def validate_order(answers: Mapping[str, float]) -> dict[str, str]:
    """Return an error, by the name of the first place, unless every place has a reply of its own."""
    replies = [answers[name] for name in RANKS if name in answers]
    if len(replies) < N_RANKED:
        return {RANKS[0]: gettext("Put the texts in order, or keep the order shown.")}
    if len(set(replies)) < N_RANKED:
        return {RANKS[0]: gettext("Choose a different text for each place.")}
    return {}
