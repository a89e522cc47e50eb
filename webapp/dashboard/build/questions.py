"""The step of what people are asked, before the task and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from webapp.core.speaking import plural
from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.card_actions import deleted_just_now, moving_words
from webapp.dashboard.build.checking import checks_asked
from webapp.dashboard.build.fields import SettingsForm
from webapp.dashboard.build.preview import work_steps
from webapp.dashboard.build.question_actions import Scale
from webapp.dashboard.build.question_cards import NEW_KINDS, QuestionCard, card_new
from webapp.dashboard.build.question_form import QuestionsForm
from webapp.studies.models import AGREED_BY_PEOPLE
from webapp.studies.protocols.base import asks_questions
from webapp.studies.question_sets import QuestionSet, sets_for
from webapp.studies.questions import questions_told
from webapp.studies.values import ASKED


class QuestionsStep(BuildStep):
    name = "questions"
    title = "Questions"
    template = "questions.html"
    heading = "What do you ask?"

    def state(self, plan: Plan) -> StepState:
        n = len(plan.asked_after) + len(plan.study.values.questions)
        if not any(question.is_rated for question in plan.asked_after):
            return StepState("none about the task", "warn")
        return StepState(plural(n, "%(n)d question", "%(n)d questions") % {"n": n}, "good")

    def form(self, plan: Plan, data: Mapping[str, Any] | None = None) -> QuestionsForm:
        """Return the form of the lists, in the order in which the page shows them."""
        n_agreed = plan.study.participants.filter(AGREED_BY_PEOPLE).count()
        lists = ["after"]
        if plan.protocol and asks_questions(plan.protocol.name):
            lists.append("questions")
        return QuestionsForm(
            data,
            stored={"after": plan.asked_after, "questions": plan.study.values.questions},
            initial=plan.study.values.flat()
            | {name: getattr(plan.study.values, name) for name in ASKED},
            fixed=n_agreed > 0,
            has_answers=n_agreed > 0,
            scale=plan.protocol.scale if plan.protocol else None,
            lists=lists,
        )

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the lists' headings, what can be added, and the question that was deleted just now."""
        chosen = sets_for(plan.study.protocol)
        scale = plan.protocol.scale if plan.protocol else None
        language = plan.study.values.texts.language
        work = work_steps(plan.protocol) if plan.protocol else []
        return {
            "new_kinds": NEW_KINDS,
            "n_checks_set": _checks_set(plan),
            "sets": [(one, _set_cards(one, scale, language)) for one in chosen],
            **deleted_just_now(request, dict.fromkeys(ASKED, "title")),
            "shown_on": {"after": work[-1] if work else "", "questions": "questions"},
            "moving_words": _moving_words(),
        }

    def onward(self, form: SettingsForm) -> str:
        """Lead back with the question that was deleted, so that this can be undone without script too."""
        assert isinstance(form, QuestionsForm)
        return f"?deleted={form.undo.sign()}#deleted" if form.undo else ""


def _checks_set(plan: Plan) -> int:
    """Return the number of the study's checks, of every kind."""
    values = plan.study.values
    lists = (
        values.checking.quiz_questions,
        values.checking.chat_checks,
        values.training.training_pairs,
        values.attention.attention_checks,
    )
    numbers = (values.attention.n_gold, values.attention.n_repeated)
    return sum(map(len, lists)) + len(checks_asked(plan)) + sum(map(bool, numbers))


def _set_cards(chosen: QuestionSet, scale: Scale | None, language: str) -> list[QuestionCard]:
    asked = questions_told(chosen.questions, language)
    return [card_new("after-NEWCARD", question, scale) for question in asked]


def _moving_words() -> dict[str, Any]:
    """Return the page script's messages on questions that are moved, added and deleted."""
    return moving_words() | {
        "moved": "Question %(n)s is now %(place)s of %(of)s.",
        "first": "It is the first question already.",
        "last": "It is the last question already.",
        "added": "A question is added at the end.",
        "added_many": "%(n)s questions are added at the end.",
        "count": {
            "one": plural(1, "%(n)s question", "%(n)s questions"),
            "other": plural(2, "%(n)s question", "%(n)s questions"),
        },
        "words_under": "Words under %(point)s",
        "optional": "%(what)s, optional",
    }
