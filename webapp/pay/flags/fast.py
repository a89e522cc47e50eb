"""Work done in less than half the time of most: a relative speed index above 2 (Leiner, 2019)."""

from __future__ import annotations

import statistics

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.pay.flags.base import clock, percent, register_flag
from webapp.pay.visits import VisitKey, Visits
from webapp.studies.models import Outcome

_FEWEST = 10
"""With fewer finished visits there is no distribution to speak of."""
_HOW_MUCH_FASTER = 2


@register_flag
class Fast:
    """The study's own visits are the measure: of those who did it all, in whatever time."""

    name = "fast"
    title = gettext_lazy("Fast")

    def find(self, visits: Visits) -> dict[VisitKey, str]:
        seconds = {
            visit.key: visit.duration.total_seconds()
            for visit in visits.all
            if visit.outcome == Outcome.RATED and visit.duration is not None
        }
        if len(seconds) < _FEWEST:
            return {}
        median = statistics.median(seconds.values())
        found = {}
        for key, took in seconds.items():
            if took * _HOW_MUCH_FASTER < median:
                n_longer = sum(other > took for other in seconds.values())
                found[key] = _(
                    "{took} minutes; {share} of people took longer, half of them {median} or more."
                ).format(
                    took=clock(took), share=percent(n_longer, len(seconds)), median=clock(median)
                )
        return found
