"""What a study whose people judge items says of single items, and what its protocol makes of their ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evaluation.analysis.beside_reference import BesideReference, beside_reference
from evaluation.analysis.grades import Grades, grades
from evaluation.analysis.items import ItemMeans, item_means
from evaluation.analysis.tables import plain
from webapp.ratings.references import study_references
from webapp.results.study_data import StudyData
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import judges_items


@dataclass(frozen=True, slots=True)
class StudyItems:
    """The items of a study; None for what its protocol does not give.

    Attributes:
        means: of every item on every question.
        grades: by majority, with the labels made of them.
        beside: what was said beside references.
    """

    means: ItemMeans | None = None
    grades: Grades | None = None
    beside: BesideReference | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = plain(self)
        return found


def study_items(data: StudyData) -> StudyItems:
    """Return what is known of the study's items; nothing where people rate chats."""
    if not judges_items(data.study):
        return StudyItems()
    made = protocols.get(data.study.protocol).results
    return StudyItems(
        means=item_means(data.ratings),
        grades=grades(data.ratings) if "grades" in made else None,
        beside=_beside(data) if "reference" in made else None,
    )


def _beside(data: StudyData) -> BesideReference:
    direction, reference, known = study_references(
        data.study,
        include_synthetic=data.include_synthetic,
        include_failed=data.include_failed,
    )
    return beside_reference(data.ratings, direction, reference, known)
