"""Attention checks that were answered wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, register_flag
from webapp.quality.work import Work
from webapp.ratings.checks import ATTENTION, checks_by_task
from webapp.studies.models import Task


@register_flag
class MissedCheck:
    """One miss is enough: how many a study forgives is told by its outcome, not here."""

    name = "missed_check"
    title = gettext_lazy("Missed a check")
    rule = gettext_lazy(
        "At least one attention check was answered wrongly: among items or questions, or in the chat."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("Nobody has met an attention check.")}

    def find(self, work: Work) -> Found:
        known = {task.pk for task in work.done}
        tasks = Task.objects.filter(participant__study=work.study)
        checks = {
            task: [one.passed for one in found if one.kind in ATTENTION]
            for task, found in checks_by_task(tasks).items()
            if task in known
        }
        met = {task: len(passed) for task, passed in checks.items() if passed}
        missed = {task: passed.count(False) for task, passed in checks.items()}
        if not met:
            return Found(why_none="none")
        return Found(
            {task: {"missed": n, "met": met[task]} for task, n in missed.items() if n}, len(met)
        )

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{missed} of {met} attention checks were missed.").format(**figures)
