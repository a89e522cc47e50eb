"""Items that came twice and were answered differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from webapp.quality.flags.base import Figures, Found, percent, register_flag
from webapp.quality.work import Work
from webapp.ratings.models import Rating
from webapp.studies.models import Dimension, Item

APART = 0.25
"""Of a scale's length, on average. Who answers a scale of seven points at random is .38 apart."""


@register_flag
class Inconsistent:
    """Flag for different answers to repeated items.

    The stored answer to a pair names the better reply, whichever side it stood on: so answers compare as they are.
    """

    name = "inconsistent"
    title = gettext_lazy("Inconsistent")
    rule = gettext_lazy(
        "Items that came a second time were answered more than a quarter of the scale apart, on average over their "
        "questions; answers at random are .38 of a scale of seven points apart."
    )
    reasons: Mapping[str, Any] = {"none": gettext_lazy("Nobody has judged an item twice.")}

    def find(self, work: Work) -> Found:
        known = {task.pk for task in work.done}
        ratings = Rating.objects.filter(task__participant__study=work.study, item__isnull=False)
        again = list(
            ratings.filter(item__purpose=Item.Purpose.REPEAT).values_list(
                "task", "participant", "item__original", "rubric", "answers"
            )
        )
        originals = {original for _task, _person, original, *_rest in again}
        first: dict[Any, Any] = {
            (person, item): answers
            for person, item, answers in ratings.filter(item__in=originals)
            .order_by("-pk")
            .values_list("participant", "item", "answers")
        }
        lengths = _lengths({rubric for *_rest, rubric, _answers in again})
        apart: dict[int, list[float]] = {}
        for task, person, original, rubric, answers in again:
            before = first.get((person, original))
            if task not in known or before is None:
                continue
            for key, length in lengths.get(rubric, {}).items():
                one, two = before.get(key), answers.get(key)
                if isinstance(one, int | float) and isinstance(two, int | float):
                    apart.setdefault(task, []).append(abs(one - two) / length)
        if not apart:
            return Found(why_none="none")
        means = {task: sum(found) / len(found) for task, found in apart.items()}
        return Found(
            {
                task: {"apart": mean, "answers": len(apart[task])}
                for task, mean in means.items()
                if mean > APART
            },
            len(means),
        )

    def explain(self, figures: Figures, about: Figures) -> str:
        return _(
            "{n} answers were given twice; on average the two are {share} of the scale apart."
        ).format(n=figures["answers"], share=percent(round(1000 * figures["apart"]), 1000))


def _lengths(rubrics: set[int]) -> dict[int, dict[str, float]]:
    """Return by rubric how long the scale of each question is."""
    found: dict[int, dict[str, float]] = {}
    for dimension in Dimension.objects.filter(rubric__in=rubrics).select_related("rubric"):
        low, high = dimension.scale
        found.setdefault(dimension.rubric_id, {})[dimension.key] = high - low
    return found
