"""The last step: the checklist, and opening the study."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from webapp.core.speaking import plural
from webapp.dashboard.build.base import BuildStep, Plan, StepState
from webapp.dashboard.build.checklist import findings_of, stops
from webapp.studies.models import Study


class CheckStep(BuildStep):
    name = "check"
    title = "Check and open"
    template = "check.html"
    heading = "Is everything there?"

    def state(self, plan: Plan) -> StepState:
        if plan.study.state == Study.State.COLLECTING:
            return StepState("open", "good")
        n = len(stops(findings_of(plan)))
        if n:
            return StepState(plural(n, "%(n)d thing left", "%(n)d things left") % {"n": n}, "warn")
        return StepState("ready", "good")

    def context(self, request: HttpRequest, plan: Plan) -> dict[str, Any]:
        """Return the list, and what keeps the study closed."""
        found = findings_of(plan)
        missing = stops(found)
        n = len(missing)
        left = plural(
            n,
            "%(n)d thing is left before you can open",
            "%(n)d things are left before you can open",
        )
        return {
            "findings": found,
            "n_left": n,
            "left": left % {"n": n},
            "is_open": plan.study.state == Study.State.COLLECTING,
        }
