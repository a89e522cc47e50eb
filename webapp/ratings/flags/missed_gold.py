"""Items with a known right answer that were answered otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, register_flag
from webapp.quality.work import Work
from webapp.ratings.checks import checks_by_task
from webapp.studies.models import Task


@register_flag
class MissedGold:
    """Half or more, for even careful people miss one: which answers are right is the researcher's judgement."""

    name = "missed_gold"
    title = gettext_lazy("Missed known answers")
    rule = gettext_lazy(
        "Half or more of the items whose right answer is known were answered otherwise."
    )
    reasons: Mapping[str, Any] = {
        "none": gettext_lazy("Nobody has judged an item whose right answer is known.")
    }

    def find(self, work: Work) -> Found:
        known = {task.pk for task in work.done}
        tasks = Task.objects.filter(participant__study=work.study)
        passed = {
            task: [one.passed for one in found if one.kind == "gold"]
            for task, found in checks_by_task(tasks).items()
            if task in known
        }
        met = {task: given for task, given in passed.items() if given}
        if not met:
            return Found(why_none="none")
        missed = {task: given.count(False) for task, given in met.items()}
        return Found(
            {
                task: {"missed": n, "met": len(met[task])}
                for task, n in missed.items()
                if 2 * n >= len(met[task])
            },
            len(met),
        )

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{missed} of {met} items with a known answer were answered otherwise.").format(
            **figures
        )
