"""Means of a study whose items were drawn with the help of a judge or metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Min

from evaluation.analysis.levels import interval_level
from evaluation.stats.active_inference import ActiveMeans, estimate_active_means
from webapp.ratings.selectors import NO_MODEL
from webapp.results.study_data import StudyData
from webapp.studies.helped_draws import item_pool
from webapp.studies.models import Outcome, Slot


@dataclass(frozen=True, slots=True)
class StudyHelped:
    """Weighted means of the leading question, with and without the helper's scores.

    Attributes:
        helper: name of the helper; empty without one, and then there are no means.
        n_helped: weighted ratings of items drawn by the helper's uncertainty.
        n_unknown: ratings of items without a known probability, left out.
        n_unrated: items drawn with a known probability that their participants have not rated.
        n_items, n_unscored: items that can be drawn, and those without a score.
        n_added: items that earlier participants could not get, because they were added later.
    """

    helper: str
    means: ActiveMeans | None = None
    n_helped: int = 0
    n_unknown: int = 0
    n_unrated: int = 0
    n_items: int = 0
    n_unscored: int = 0
    n_added: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        counts = ("helper", "n_helped", "n_unknown", "n_unrated", "n_items", "n_unscored", "n_added")
        means = self.means.to_json() if self.means is not None else {}
        return {name: getattr(self, name) for name in counts} | means


def study_helped(data: StudyData) -> StudyHelped:
    """Return the means with the help of the study's judge or metric."""
    frozen = data.study.helpers.last()
    if frozen is None:
        return StudyHelped("")
    include_synthetic = data.counted_work.get("include_synthetic", False)
    slots = Slot.objects.filter(task__participant__study=data.study, probability__isnull=False)
    if not include_synthetic:
        slots = slots.filter(task__participant__is_synthetic=False)
    rows = slots.values_list("task__participant", "item__key", "weight", "helper", "task__outcome")
    drawn_slots = {
        (str(person), key): (weight, helper) for person, key, weight, helper, _outcome in rows if weight is not None
    }
    excluded = {
        (str(person), key)
        for person, key, _weight, _helper, outcome in rows
        if outcome in (Outcome.WITHDRAWN, Outcome.FAILED_CHECK)
    }
    ratings, values = data.ratings, data.ratings.values()
    targets = list(zip(ratings.rater.tolist(), ratings.conversation.tolist(), strict=True))
    is_known = np.array([target in drawn_slots for target in targets], dtype=bool) & np.isfinite(values)
    known_targets = [target for target, known in zip(targets, is_known, strict=True) if known]
    counted_raters = set(ratings.rater.tolist())
    is_flagged = bool(data.excluded_flags)  # participants without counted ratings may have been left out
    n_unrated = sum(
        target[0] in counted_raters or not is_flagged for target in drawn_slots.keys() - set(targets) - excluded
    )
    first_draw = slots.aggregate(at=Min("task__created_at"))["at"]
    first_helper = data.study.helpers.filter(created_at__lte=first_draw).last() if first_draw else frozen
    pool, key_by_pk = item_pool(data.study), dict(data.study.items.values_list("pk", "key"))
    score_by_key = {key_by_pk[pk]: frozen.scores.get(str(pk), np.nan) for pk in pool}
    means = estimate_active_means(
        values[is_known],
        ratings.rater[is_known].tolist(),
        ratings.bot[is_known].tolist(),
        ratings.conversation[is_known].tolist(),
        [score_by_key.get(key, np.nan) for _person, key in known_targets],
        [drawn_slots[target][0] for target in known_targets],
        [model or NO_MODEL for model in pool.values()],
        list(score_by_key.values()),
        level=interval_level(ratings.level),
        scale=ratings.bounds(),
    )
    return StudyHelped(
        helper=frozen.identity.partition("@")[0],  # the setting may name another one that is not frozen yet
        means=means,
        n_helped=sum(drawn_slots[target][1] is not None for target in known_targets),
        n_unknown=int((~is_known & np.isfinite(values)).sum()),
        n_unrated=n_unrated,
        n_items=len(pool),
        n_unscored=int(np.isnan(list(score_by_key.values())).sum()),
        n_added=len(set(map(str, pool)) - first_helper.weights.keys()) if first_helper is not None else 0,
    )
