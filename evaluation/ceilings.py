"""Highest possible correlation of a metric with mean ratings: the square root of the ratings' reliability.

The reliability of the mean of k raters is ICC(1,k), for nobody knows whether two items had the same raters; its
interval is from the F distribution. A metric that knew each reply's true value would correlate with the raters' mean
by the square root of that, no more, unless by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.stats.agreement import rating_table
from evaluation.stats.icc import icc

ONLY_MEANS = "only means of the ratings are known"
PUBLISHED_MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest correlation with the mean rating that can be expected.

    Attributes:
        r: None where unknown, with the reason.
        low, high: ends of its interval of 95 %.
        n_items: items with at least two raters; n_ratings: their ratings.
    """

    r: float | None
    low: float | None = None
    high: float | None = None
    n_items: int = 0
    n_ratings: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return `{"r", "ci95", "n_items", "n_ratings"}`, and the reason where `r` is null."""
        ends = None if self.low is None or self.high is None else [self.low, self.high]
        found: dict[str, Any] = {
            "r": self.r,
            "ci95": ends,
            "n_items": self.n_items,
            "n_ratings": self.n_ratings,
        }
        return {**found, "reason": self.reason} if self.reason else found


def ceiling_of(scores: Sequence[Sequence[tuple[str, float]]]) -> Ceiling:
    """Return the ceiling of items.

    Args:
        scores: of each item its (rater, score); a rater "mean" is a published mean, which tells nothing of raters.
    """
    own = [[value for rater, value in item if rater != PUBLISHED_MEAN] for item in scores]
    if not any(own) and any(scores):
        return Ceiling(None, reason=ONLY_MEANS)
    values = [value for item in own for value in item]
    items = [k for k, item in enumerate(own) for _ in item]
    found = icc(rating_table(values, items), "icc1_k")
    if found.value is None:
        why = "" if found.reason is None else str(found.reason)
        return Ceiling(None, n_items=found.n_items, n_ratings=found.n_ratings, reason=why)

    def root(value: float | None) -> float | None:
        return None if value is None else float(np.sqrt(max(value, 0.0)))

    return Ceiling(
        root(found.value), root(found.low), root(found.high), found.n_items, found.n_ratings
    )
