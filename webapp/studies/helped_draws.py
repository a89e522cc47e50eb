"""Judges and metrics that help to draw items: their frozen scores, and draws with known probabilities.

Until 15 participants have finished a task, all items of a bot are equally likely. After that, an item's probability
follows the uncertainty of the helper (`evaluation/stats/active_inference.py`). Scripted participants are counted
separately. A participant who comes back after leaving a task is not drawn again items that they have seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal

from chatbots import derive_seed
from evaluation.stats.active_inference import MIN_RATERS, DrawnItem, draw_items, draw_weights
from webapp.studies.models import Participant, Slot, Study, StudyHelper, Task
from webapp.studies.selectors import items_given

item_scores_wanted = Signal()
"""Signal with `study` and `name`, answered by higher apps with the `ItemScores` of that name, or None."""


@dataclass(frozen=True, slots=True)
class ItemScores:
    """Scores of a study's items by one column of a metric.

    Attributes:
        identity: name, version and key of what computed them.
        scores: by primary key of the item; items without a score are missing.
    """

    identity: str
    scores: Mapping[int, float]


def read_item_scores(study: Study, name: str) -> ItemScores:
    """Return the scores of this name for the study's items; empty if there are none."""
    answers: list[tuple[Any, Any]] = item_scores_wanted.send(sender=Study, study=study, name=name) if name else []
    return next((scores for _receiver, scores in answers if isinstance(scores, ItemScores)), ItemScores("", {}))


def item_pool(study: Study) -> dict[int, str]:
    """Return the model of each item that can be drawn, by the item's primary key, in that order.

    Empty if the item names no model.
    """
    rows = items_given(study).order_by("pk").values_list("pk", "responses__0__model")
    return {pk: model or "" for pk, model in rows}


def helper_freeze(*, study: Study) -> StudyHelper | None:
    """Store the scores of the study's helper unless they are stored already.

    The caller holds the lock of the study's row. Returns the helper in use; None without one.
    """
    helping = study.values.helping
    if not helping.helper:
        return None
    pool = item_pool(study)
    scores, uncertainties = (read_item_scores(study, name) for name in (helping.helper, helping.helper_uncertainty))
    weights = draw_weights([uncertainties.scores.get(pk, float("nan")) for pk in pool], list(pool.values()))
    content = {
        "identity": " / ".join(filter(None, (scores.identity, uncertainties.identity))),
        "scores": {str(pk): score for pk, score in scores.scores.items() if pk in pool},
        "weights": {str(pk): float(weight) for pk, weight in zip(pool, weights, strict=True)},
    }
    newest = study.helpers.last()
    if newest is not None and all(getattr(newest, name) == value for name, value in content.items()):
        return newest
    return StudyHelper.objects.create(study=study, **content)


def helped_draw(study: Study, participant: Participant, n: int) -> tuple[StudyHelper | None, dict[int, DrawnItem]]:
    """Draw `n` items with known probabilities; the caller holds the lock of the study's row.

    Returns the helper, None if all items of a bot were equally likely, and the draws by primary key of the item.
    """
    synthetic = participant.is_synthetic
    finished = Task.objects.filter(participant__study=study, participant__is_synthetic=synthetic)
    n_raters = finished.filter(state=Task.State.COMPLETED).values("participant").distinct()[:MIN_RATERS].count()
    # A draft is only rehearsed, and its helper may still change.
    frozen = (study.state != Study.State.DRAFT and study.helpers.last()) or helper_freeze(study=study)
    helper = frozen if n_raters >= MIN_RATERS else None
    pool = item_pool(study)
    weights = [helper.weights.get(str(pk), 1.0) if helper is not None else 1.0 for pk in pool]
    slots = Slot.objects.filter(probability__isnull=False, helper=helper, task__participant__study=study)
    ordinal = slots.filter(task__participant__is_synthetic=synthetic).values("task").distinct().count()
    seed = derive_seed(study.seed, "helper", helper.pk if helper is not None else 0, len(pool), int(synthetic))
    keys, counts = list(pool), Counter(pool.values())
    n = min(n, len(counts) * min(counts.values(), default=0))  # each bot has an equal share of a task
    draws = draw_items(weights, list(pool.values()), n, seed=seed, ordinal=ordinal) if n else []
    return helper, {keys[item.index]: item for item in draws}
