"""Flag for speed, and durations of tasks.

A task is flagged at less than half the usual time: a relative speed index above 2 (Leiner, 2019).
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.ratings.flags.base import Figures, FlagFindings, StudyWork, clock, percent, register_flag
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
    reasons: Mapping[str, Any] = {"few": gettext_lazy("With fewer than ten finished tasks there is no usual time yet.")}

    def find(self, work: StudyWork) -> FlagFindings:
        seconds = {task.pk: task.seconds for task in work.done if task.outcome == Outcome.RATED}
        if len(seconds) < FEWEST:
            return FlagFindings(why_none="few")
        median = statistics.median(seconds.values())
        in_order = sorted(seconds.values())
        found = {}
        for task, took in seconds.items():
            if took * HOW_MUCH_FASTER < median:
                n_longer = len(in_order) - bisect_right(in_order, took)
                found[task] = {"seconds": took, "longer": n_longer, "of": len(seconds)}
        return FlagFindings(found, len(seconds), about={"median": median})

    def explain(self, figures: Figures, about: Figures) -> str:
        return _("{took} minutes; {share} of people took longer, half of them {median} or more.").format(
            took=clock(figures["seconds"]),
            share=percent(figures["longer"], figures["of"]),
            median=clock(about["median"]),
        )


_BARS = 24
_LONGEST = 3
"""Medians. Whoever took longer was away; the last bar holds them."""


def durations_of(work: StudyWork) -> dict[str, Any]:
    """Return the finished tasks' durations as JSON.

    Returns:
        `n`; and where there is one, `median` and `threshold` in seconds (the latter None with too few tasks),
        `width` of a bar in seconds, and `bars`, their counts from 0 on, the last of which has all that took longer.
    """
    seconds = [task.seconds for task in work.done if task.outcome == Outcome.RATED]
    if not seconds:
        return {"n": 0}
    median = statistics.median(seconds)
    width = max(median * _LONGEST / _BARS, 1.0)
    bars = [0] * (_BARS + 1)
    for one in seconds:
        bars[min(int(max(one, 0) // width), _BARS)] += 1
    return {
        "n": len(seconds),
        "median": median,
        "threshold": median / HOW_MUCH_FASTER if len(seconds) >= FEWEST else None,
        "width": width,
        "bars": bars,
    }
