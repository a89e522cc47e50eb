"""The same answer to every question of a scale: straight-lining."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.db.models import Count, Max
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.pay.flags.base import percent, register_flag
from webapp.pay.visits import VisitKey, Visits
from webapp.ratings.models import Rating

_FEWEST_ANSWERS = 4
_KEPT_S = 600


@register_flag
class SameAnswer:
    """Over all ratings of a visit, as given: a question that is asked the other way round counts as answered."""

    name = "same_answer"
    title = gettext_lazy("All alike")

    def find(self, visits: Visits) -> dict[VisitKey, str]:
        given = Rating.objects.filter(
            task__participant__study=visits.study, task__participant__is_synthetic=False
        )
        state = given.aggregate(n=Count("pk"), newest=Max("updated_at"))
        newest = state["newest"]
        key = (
            f"pay-same-answer:{visits.study.pk}:{state['n']}:{newest.timestamp() if newest else 0}"
        )
        alike: dict[VisitKey, tuple[int, float]] | None
        n_judged, alike = cache.get(key) or (0, None)
        if alike is None:
            n_judged, alike = _alike(given)
            cache.set(key, (n_judged, alike), _KEPT_S)
        return {
            visit: _("{n} times {value}. So did {share} of all, whatever the answer.").format(
                n=n, value=f"{value:g}", share=percent(len(alike), n_judged)
            )
            for visit, (n, value) in alike.items()
        }


def _alike(given: Any) -> tuple[int, dict[VisitKey, tuple[int, float]]]:
    """Return how many visits gave enough answers, and how often those gave which who gave one alone."""
    counts: dict[VisitKey, tuple[int, set[float]]] = {}
    rows = given.order_by().values_list("task__participant", "task__submission", "answers")
    for participant, submission, answers in rows.iterator(chunk_size=2000):
        key = VisitKey(participant, submission)
        values = [v for v in answers.values() if type(v) in (int, float)]
        n, seen = counts.get(key, (0, set()))
        counts[key] = (n + len(values), seen | set(values))
    enough = {key: found for key, found in counts.items() if found[0] >= _FEWEST_ANSWERS}
    return len(enough), {key: (n, min(seen)) for key, (n, seen) in enough.items() if len(seen) == 1}
