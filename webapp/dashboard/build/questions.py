"""The step of what people are asked, before the task and after it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as __
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from webapp.dashboard.build.base import BuildStep, Plan, StepState


class QuestionsStep(BuildStep):
    name = "questions"
    title = _("Questions")
    template = "questions.html"
    heading = _("What do you ask?")

    def state(self, plan: Plan) -> StepState:
        n = len(plan.dimensions) + len(plan.study.values.questions)
        if not plan.dimensions:
            return StepState(__("none about the task"), "warn")
        return StepState(ngettext("%(n)d question", "%(n)d questions", n) % {"n": n}, "good")

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the questions as they stand."""
        return {"before": plan.study.values.questions, "after": plan.dimensions}
