"""Protocol of criteria: statements about a reply, each with points, that participants tick.

Every item has criteria of its own, as in HealthBench (Arora et al. 2025). Participants see the statements in their
order, without the points, which would suggest an answer. The score is computed from the ticks; it is a whole percentage
of the possible points (`evaluation.analysis.criteria`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from chatbots import Identity
from evaluation.analysis.criteria import criteria_score
from webapp.studies.models import Item, StudyVersion
from webapp.studies.protocols.base import (
    Draw,
    ExtraAnswer,
    JudgePage,
    SlotPlan,
    Step,
    TaskPlan,
    WorkDescription,
    register_protocol,
    usual_steps,
)
from webapp.studies.protocols.comparisons import AnnotateProtocol
from webapp.studies.questions import Answers, Question
from webapp.studies.reply_marks import NONE
from webapp.studies.rubrics import post_task_questions
from webapp.studies.sent_answers import SentAnswers
from webapp.studies.settings import StudyValues

CRITERIA = "criteria"
"""Name of the ticks among the answers about an item."""
HIGHEST = 100


@register_protocol
class CriteriaProtocol(AnnotateProtocol):
    """Protocol: criteria of each item, ticked if its reply meets them."""

    name = "criteria"
    title = "Tick criteria (rubric)"
    description = "Each person ticks which of an item’s own criteria its reply meets; points give a score."
    headline = "Check a chatbot’s replies"
    activity_place = 6
    elicitation = "Checklist: raters tick the criteria of an item that its reply meets."
    needs_criteria = True
    settings = ("judging",)
    identity = Identity("criteria", "1")
    steps = usual_steps(Step("judge", _("Check")))
    page = JudgePage(
        _("Read the reply, then tick what is true of it"),
        _("Reply %(n)s of %(of)s"),
        sheet="criteria",
        template="criteria",
        hint=_("Judge each statement by itself. If none is true, tick the last box."),
        is_wide=True,
    )
    instructions = (
        "Read the conversation, and the whole reply.\n"
        "Tick every statement that is true of the reply, even if you do not like the reply, or “None of these”.\n"
        "Your answers are saved page by page, so you can stop and come back."
    )
    scale = (0, HIGHEST)
    n_asked = 1
    asks = (
        Question(
            key="score",
            name="Score",
            title="Which of these statements are true of the reply?",
            kind="scale",
            low=0,
            high=HIGHEST,
            labels={0: "no points", HIGHEST: "all points"},
            reversed=False,
        ),
    )
    extra_answers = (
        ExtraAnswer(CRITERIA, "json", "1 for each criterion of the item that the rater ticked, otherwise 0; in order."),
    )
    results = ("criteria",)

    def next_task(self, draw: Draw) -> TaskPlan:
        items = draw.items(draw.values.judging.n_items, least=1)
        return TaskPlan("judge", tuple(SlotPlan(item=item) for item in items))

    def not_asked(self, version: StudyVersion, item: Item) -> frozenset[str]:
        # The score is computed from the ticks.
        return frozenset(question.key for question in post_task_questions(version) if question.is_rated)

    def read_answers(self, sent: SentAnswers) -> tuple[Answers, dict[str, str]]:
        assert sent.item is not None, "criteria are of an item"
        ticks, wrong = read_ticks(sent.answers.get(CRITERIA), len(sent.item.criteria))
        answers = {key: answer for key, answer in sent.answers.items() if key != CRITERIA}
        accepted, errors = super().read_answers(replace(sent, answers=answers))
        if wrong:
            return {}, {**errors, CRITERIA: wrong}
        score = criteria_score(ticks, [criterion["points"] for criterion in sent.item.criteria])
        scores = dict.fromkeys(self.not_asked(sent.version, sent.item), round(HIGHEST * score))
        return {**accepted, **scores, CRITERIA: ticks}, errors

    def work(self, values: StudyValues, n_asked: tuple[int, int]) -> WorkDescription:
        n = values.judging.n_items
        return WorkDescription(
            gettext("You read replies of a chatbot and tick which statements are true of them."),
            ngettext("%(n)s reply", "%(n)s replies", n) % {"n": n},
            gettext("to check"),
            "n_items",
        )


def read_ticks(submitted: Any, n_criteria: int) -> tuple[list[int], str]:
    """Return 1 or 0 for each criterion, and an error message; empty if the ticks are valid.

    Args:
        submitted: numbers of the ticked criteria, from 0, or `NONE` alone.
    """
    codes = set(map(str, submitted)) if isinstance(submitted, list | tuple) else set()
    known = [str(number) for number in range(n_criteria)]
    ticks = [int(code in codes) for code in known]
    if unknown := codes.difference(known, {NONE}):
        words = gettext("There is no statement %(code)s. Tick those on the page.")
        return ticks, words % {"code": min(unknown)[:20]}
    if not codes:
        return ticks, gettext("Tick every statement that is true, or “None of these”.")
    if NONE in codes and len(codes) > 1:
        return ticks, gettext("“None of these” cannot be combined with others. Untick one.")
    return ticks, ""
