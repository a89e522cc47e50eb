"""Results by item of a study that rates items, and the statistics that its protocol makes of the ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.approval import Approval, approval, softmax_weights
from evaluation.analysis.beside_reference import BesideReference, beside_reference
from evaluation.analysis.grades import Grades, grades
from evaluation.analysis.item_sets import ItemSets, item_sets
from evaluation.analysis.items import ItemMeans, item_means
from evaluation.analysis.tables import plain
from evaluation.ratings import Ratings
from webapp.ratings.references import study_references
from webapp.ratings.selectors import study_ratings
from webapp.results.study_data import StudyData
from webapp.studies.items import study_item_sets
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import judges_items


@dataclass(frozen=True, slots=True)
class StudyItems:
    """The items of a study; None for what its protocol does not give.

    Attributes:
        means: of every item on every question.
        sets: how far raters agree on each set of items.
        grades: by majority, with the labels made of them.
        beside: what was said beside references.
        weights_from: key of the study whose choices weigh the questions of that; empty: all count alike.
        approval: what people chose.
    """

    means: ItemMeans | None = None
    sets: ItemSets | None = None
    grades: Grades | None = None
    beside: BesideReference | None = None
    weights_from: str = ""
    approval: Approval | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = plain(self)
        return found


def study_items(data: StudyData) -> StudyItems:
    """Return the results of the study's items; nothing where participants rate chats."""
    if not judges_items(data.study):
        return StudyItems()
    made = protocols.get(data.study.protocol).results
    weights = _weights(data) if "reference" in made else {}
    return StudyItems(
        means=item_means(data.ratings),
        sets=item_sets(
            data.ratings,
            study_item_sets(data.study),
            shared=data.study.values.judging.kappa_items,
        )
        if "approval" not in made
        else None,
        grades=grades(data.ratings) if "grades" in made else None,
        beside=beside_reference(data.ratings, *_references(data), weights or None)
        if "reference" in made
        else None,
        weights_from=data.study.values.referencing.weights_study if weights else "",
        approval=_approval(data.ratings) if "approval" in made else None,
    )


def _approval(ratings: Ratings) -> Approval:
    """Return the participants' choices; one who chose twice counts with the first time."""
    once = ratings.once()
    chosen = np.nan_to_num(once.table())
    return approval(chosen, [dimension.key for dimension in once.dimensions])


def _weights(data: StudyData) -> dict[str, float]:
    """Return the weights of the questions by the study that they come from; empty where they count equally.

    They do so before the first choice, and where a question was not among the options.
    """
    of = Study.objects.filter(key=data.study.values.referencing.weights_study).first()
    if of is None:
        return {}
    ratings = study_ratings(of)
    keys = [dimension.key for dimension in data.dimensions]
    if not len(ratings) or not set(keys) <= set(ratings.answers):
        return {}
    found = _approval(ratings).options
    return softmax_weights({one.option: one.approval for one in found if one.option in keys})


def _references(data: StudyData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return study_references(
        data.study,
        include_synthetic=data.include_synthetic,
        include_failed=data.include_failed,
        without=data.without,
    )
