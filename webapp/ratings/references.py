"""Ratings of replies with scored references, as the analysis reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from webapp.ratings.selectors import ratings_counted
from webapp.studies.models import Study


def study_references(
    study: Study,
    *,
    include_synthetic: bool = False,
    include_failed: bool = False,
    without: Sequence[str] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return direction, the reference's score as it was left, and as it was shown; in the order of `study_ratings`.

    Each is (k,), NaN where there is none.
    """
    found = ratings_counted(
        study,
        include_synthetic=include_synthetic,
        include_failed=include_failed,
        without=without,
    )
    rows: list[Any] = list(found.order_by("pk").values_list("answers", "item__reference_score"))
    nan = float("nan")
    known = [nan if score is None else score for _answers, score in rows]
    direction = [answers.get("direction", nan) for answers, _score in rows]
    left = [
        answers.get("reference_score", score)
        for (answers, _score), score in zip(rows, known, strict=True)
    ]
    return tuple(np.array(one, dtype=float) for one in (direction, left, known))  # type: ignore[return-value]
