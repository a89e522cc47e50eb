"""Pages that the participant's browser translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy

from webapp.ratings.flags.base import Figures, FlagFindings, StudyWork, register_flag
from webapp.studies.models import Whereabouts


@register_flag
class Translated:
    """Flag for pages translated by the browser.

    The rated text is then not what the bot wrote.
    """

    name = "translated"
    title = gettext_lazy("Page translated")
    rule = gettext_lazy("The browser translated a page of the task, so the ratings may be of translated texts.")
    reasons: Mapping[str, Any] = {"none": gettext_lazy("No task has ended yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        if not work.done:
            return FlagFindings(why_none="none")
        rows = Whereabouts.objects.filter(study=work.study, is_translated=True).values_list("task", flat=True)
        translated = set(rows)
        return FlagFindings({task.pk: {} for task in work.done if task.pk in translated}, len(work.done))

    def explain(self, figures: Figures, about: Figures) -> str:
        return str(gettext_lazy("The browser translated a page of this task."))
