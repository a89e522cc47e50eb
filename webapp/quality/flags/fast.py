"""Work done in less than half the time of most: a relative speed index above 2 (Leiner, 2019)."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, clock, percent, register_flag
from webapp.quality.work import Work
from webapp.studies.models import Outcome

FEWEST = 10
"""With fewer finished tasks there is no distribution to speak of."""
HOW_MUCH_FASTER = 2


@register_flag
class Fast:
    """The study's own tasks are the measure: of those who did it all, in whatever time."""

    name = "fast"
    title = gettext_lazy("Fast")
    rule = gettext_lazy(
        "Done in less than half the median time of the study's finished tasks: a relative speed index above 2 "
        "(Leiner, 2019)."
    )
    reasons: Mapping[str, Any] = {
        "few": gettext_lazy("With fewer than ten finished tasks there is no usual time yet.")
    }

    def find(self, work: Work) -> Found:
        seconds = {task.pk: task.seconds for task in work.done if task.outcome == Outcome.RATED}
        if len(seconds) < FEWEST:
            return Found(why_none="few")
        median = statistics.median(seconds.values())
        in_order = sorted(seconds.values())
        found = {}
        for task, took in seconds.items():
            if took * HOW_MUCH_FASTER < median:
                n_longer = len(in_order) - bisect_right(in_order, took)
                found[task] = {"seconds": took, "longer": n_longer, "of": len(seconds)}
        return Found(found, len(seconds), about={"median": median})

    def explain(self, figures: Figures, about: Figures) -> str:
        return _(
            "{took} minutes; {share} of people took longer, half of them {median} or more."
        ).format(
            took=clock(figures["seconds"]),
            share=percent(figures["longer"], figures["of"]),
            median=clock(about["median"]),
        )
