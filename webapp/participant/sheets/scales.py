"""The scales of the study's questions, each with its points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.participant.forms import RatingForm
from webapp.participant.sheets.base import Asked, register_sheet


@register_sheet
class Scales:
    """A row of numbers for each question."""

    name = "scales"

    def form(self, asked: Asked, data: Mapping[str, Any] | None = None) -> RatingForm:
        rating = asked.judgement.rating
        if data is None and rating is not None:
            data = {**rating.answers, "comments": rating.comment}
        return RatingForm(asked.questions, data)
