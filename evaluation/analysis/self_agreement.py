"""Self-agreement of raters on items that they judged twice in one session, not in succession."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.stats.intervals import SHARE, Interval, mean_interval

LEVEL = 0.90
"""Of the intervals."""


@dataclass(frozen=True, slots=True)
class OwnAgreement:
    """Share of answers that raters repeated on the same item.

    Attributes:
        same: share of answers that were the same, with the ends of its interval.
        apart: mean distance of the two answers in points of the scale, with its interval.
        n_people: raters who answered twice.
    """

    same: Interval
    apart: Interval
    n_people: int


def own_agreement(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    people: Sequence[object],
    *,
    level: float = LEVEL,
    width: float | None = None,
) -> OwnAgreement:
    """Compare first and second answers of several people.

    People are independent of each other, for one person's answers resemble each other.

    Args:
        first, second: (k,) answers to the same question about the same item; NaN where one was left out.
        people: (k,) who gave both.
        width: of the question's scale, beyond which no distance lies; None where it has no ends.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    distance = np.abs(a - b)
    same = np.where(np.isfinite(distance), (distance == 0).astype(float), np.nan)
    given = np.isfinite(distance)
    groups = [person for person, is_given in zip(people, given, strict=True) if is_given]
    return OwnAgreement(
        mean_interval(same[given], groups, level, scale=SHARE),
        mean_interval(
            distance[given], groups, level, scale=None if width is None else (0.0, width)
        ),
        len(set(groups)),
    )
