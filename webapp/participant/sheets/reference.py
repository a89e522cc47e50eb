"""A reply next to a known one with a score: first the better one, then the study's questions about the reply.

A participant whose direction and scores contradict each other is asked once, and may keep both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from evaluation.analysis.beside_reference import BETTER, SAME, WORSE, contradicts
from webapp.participant.asked import QuestionShown
from webapp.participant.forms import RatingForm
from webapp.participant.sheets.base import Asked, SheetQuestion, register_sheet
from webapp.studies.models import Item
from webapp.studies.protocols.base import protocols

_DIRECTIONS = {"better": BETTER, "same": SAME, "worse": WORSE}


@dataclass(frozen=True, slots=True)
class DirectionShown:
    """First question of the page, about the better of the two; `given` is empty or one of three directions."""

    given: str
    errors: list[str]
    number: int = 1
    anchor: str = "direction-1"


class ReferenceForm(RatingForm):
    """Fields `direction`, `reference_score` (sent only after a change), and one for each question."""

    def __init__(self, asked: Asked, data: Mapping[str, Any] | None = None) -> None:
        item = asked.judgement.slots[0].item
        assert item is not None, "a reference study judges items"
        self.item: Item = item
        rating = asked.judgement.rating
        if data is None and rating is not None:
            names = {number: name for name, number in _DIRECTIONS.items()}
            stored = {**rating.answers, "direction": names.get(rating.answers.get("direction"), "")}
            # A contradiction that the participant confirmed once is not asked about again.
            data = {**stored, "_asked": "1" if rating.answers.get("kept_both") else ""}
        protocol = protocols.get(asked.judgement.slots[0].task.participant.study.protocol)
        without = protocol.not_asked(asked.version, item)
        super().__init__(
            [question for question in asked.questions if question.key not in without],
            data,
            first_number=2,
        )
        self.low, self.high = asked.rubric.low, asked.rubric.high
        self.direction_error = ""
        self.contradiction = ""

    def clean(self) -> None:
        """Read the answers; ask once more if the direction contradicts the scores."""
        super().clean()
        direction = _DIRECTIONS.get(self._sent("direction"))
        if direction is None:
            self.direction_error = _("Please say whether it is better, the same or worse.")
            self.add_error(None, self.direction_error)
            return
        self.answers["direction"] = direction
        score = self._score()
        if score is not None:
            self.answers["reference_score"] = score
        given = [
            self.answers[question.key] for question in self.asked if question.key in self.answers
        ]
        if self.errors or not given:
            return
        known = self.known_score if score is None else score
        if not contradicts(direction, sum(given) / len(given), known):
            return
        if self._sent("_asked"):
            self.answers["kept_both"] = 1
            return
        self.contradiction = _contradiction(direction, sum(given) / len(given), known)
        self.add_error(None, self.contradiction)

    def refuse(self, errors: Mapping[str, str]) -> None:
        """Show error messages next to their questions."""
        if "direction" in errors:
            self.direction_error = errors["direction"]
        super().refuse(errors)

    @property
    def known_score(self) -> float:
        """Earlier rating of the known reply."""
        assert self.item.reference_score is not None, f"item {self.item.pk} has no scored reference"
        return self.item.reference_score

    @property
    def points(self) -> list[tuple[int, bool]]:
        """The points of the known reply's score, and which of them is chosen."""
        chosen = self._sent("reference_score") or f"{self.known_score:g}"
        points = range(round(self.low), round(self.high) + 1)
        return [(point, str(point) == chosen) for point in points]

    @property
    def set_to(self) -> int | None:
        """Changed score of the known reply; None if it was not changed."""
        return self._score()

    @property
    def direction(self) -> DirectionShown:
        """The question which of the two is better."""
        given = self._sent("direction")
        return DirectionShown(given, [self.direction_error] if self.direction_error else [])

    @property
    def scales(self) -> list[QuestionShown]:
        """The study's questions."""
        return super().questions()

    def questions(self) -> list[SheetQuestion]:  # type: ignore[override]
        """Return the questions in order."""
        shown = super().questions()  # reads the answers, so that the direction's error is known
        return [self.direction, *shown]

    def _sent(self, name: str) -> str:
        return str(self.data.get(name, "")) if self.is_bound else ""

    def _score(self) -> int | None:
        sent = self._sent("reference_score")
        is_point = sent in {str(point) for point in range(round(self.low), round(self.high) + 1)}
        return int(sent) if is_point and float(sent) != self.known_score else None


def _contradiction(direction: int, overall: float, known: float) -> str:
    if direction == WORSE:
        return _(
            "You said worse but rated it higher than the known reply. Keep both, or change one."
        )
    if direction == BETTER:
        return _(
            "You said better but rated it lower than the known reply. Keep both, or change one."
        )
    if overall > known:
        return _(
            "You said the same but rated it much higher than the known reply. Keep both, or change one."
        )
    return _(
        "You said the same but rated it much lower than the known reply. Keep both, or change one."
    )


@register_sheet
class ReferenceSheet:
    """Better, the same or worse; the known reply's score; the study's questions."""

    name = "reference"

    def form(self, asked: Asked, data: Mapping[str, Any] | None = None) -> ReferenceForm:
        return ReferenceForm(asked, data)
