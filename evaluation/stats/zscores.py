"""Ratings standardised or centred per rater, for raters with enough ratings.

Ghandeharioun et al. (2019), section on normalisation per annotator, keep only annotators with at least ten ratings.
Excluded ratings are counted and the reasons reported, so that the rest is not mistaken for all ratings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import pluralise

MIN_RATINGS = 10
"""Minimum number of ratings per annotator in the paper."""


@dataclass(frozen=True, slots=True, eq=False)
class RaterScores:
    """Ratings relative to their rater.

    Attributes:
        values: in the input's shape; NaN if the rating or its rater is excluded.
        n_ratings: number of rows with at least one value.
        n_used: number of rows with at least one z-score.
        raters: included raters, in order of their first rating.
        left_out: reason for exclusion by rater; "" for unknown raters.
    """

    values: np.ndarray
    n_ratings: int
    n_used: int
    raters: tuple[str, ...]
    left_out: Mapping[str, Reason]


def rater_zscores(
    values: Sequence[float] | Sequence[Sequence[float]] | np.ndarray,
    raters: Sequence[Any],
    *,
    min_ratings: int = MIN_RATINGS,
    mode: Literal["z", "centre"] = "z",
    pooled: bool = False,
) -> RaterScores:
    """Standardise ratings per rater: (value − mean) / standard deviation (n − 1).

    Args:
        values: (k,) ratings, or (k, d) with d dimensions; NaN if undefined.
        raters: (k,) rater of each; None or NaN for an unknown rater, whose ratings are excluded.
        min_ratings: raters with fewer rows are excluded; at least 2.
        mode: "centre" only subtracts the mean, and gives zeros to a rater whose ratings are all equal.
        pooled: use one mean and deviation over all of a rater's dimensions, as Ji et al. (2022) do; the dimensions must
            share a scale.

    Raises:
        ValueError: if values and raters do not match, or min_ratings is below 2.
    """
    array = np.asarray(values, dtype=float)
    table = array[:, None] if array.ndim == 1 else array
    if table.ndim != 2 or len(table) != len(raters):
        raise ValueError(
            f"values of shape {array.shape} for {len(raters)} raters; it must be (k,) or (k, d), one rater per row"
        )
    if min_ratings < 2:
        raise ValueError(f"min_ratings is {min_ratings}; one rating has no spread, it must be ≥ 2")
    is_rated = np.isfinite(table).any(axis=1)
    scores = np.full(table.shape, np.nan)
    used: list[str] = []
    left_out: dict[str, Reason] = {}
    for name, rows in _rows_by_rater(raters, is_rated).items():
        if name is None:
            text = f"{pluralise(len(rows), 'rating')} without a rater"
            left_out[""] = Reason("unnamed_ratings", text, n_ratings=len(rows))
            continue
        if len(rows) < min_ratings:
            text = f"only {len(rows)} of the {min_ratings} ratings needed"
            left_out[name] = Reason("few_own_ratings", text, n=len(rows), needed=min_ratings)
            continue
        rater_values = table[rows]
        standardised = _standardise(rater_values.reshape(-1, 1), mode) if pooled else _standardise(rater_values, mode)
        standardised = standardised.reshape(rater_values.shape)
        if not np.isfinite(standardised).any():
            text = f"all {len(rows)} ratings are equal, so there is no deviation to divide by"
            left_out[name] = Reason("same_own_rating", text, n=len(rows))
            continue
        scores[rows] = standardised
        used.append(name)
    return RaterScores(
        scores.reshape(array.shape),
        int(is_rated.sum()),
        int(np.isfinite(scores).any(axis=1).sum()),
        tuple(used),
        left_out,
    )


def rater_codes(raters: Sequence[Any]) -> np.ndarray:
    """Return (k,) rater numbers from 0 in order of appearance.

    Each unknown rater gets a separate number.
    """
    codes: dict[Any, int] = {}
    numbers = np.empty(len(raters), dtype=int)
    for i, rater in enumerate(raters):
        key = ("nobody", i) if is_unknown(rater) else ("named", str(rater))
        numbers[i] = codes.setdefault(key, len(codes))
    return numbers


def is_unknown(rater: Any) -> bool:
    """Return True for an unknown rater: None, NaN or an empty name."""
    return rater is None or rater != rater or rater == ""


def _rows_by_rater(raters: Sequence[Any], is_rated: np.ndarray) -> dict[str | None, np.ndarray]:
    rows: dict[str | None, list[int]] = {}
    for i, rater in enumerate(raters):
        if is_rated[i]:
            rows.setdefault(None if is_unknown(rater) else str(rater), []).append(i)
    return {name: np.array(indexes) for name, indexes in rows.items()}


def _standardise(columns: np.ndarray, mode: Literal["z", "centre"]) -> np.ndarray:
    """Standardise (n, d) by column; a constant column gives NaN."""
    out = np.full(columns.shape, np.nan)
    for j, column in enumerate(columns.T):
        known = column[np.isfinite(column)]
        if len(known) < 2:
            continue
        centred = column - known.mean()
        if mode == "centre":
            out[:, j] = centred
        elif np.ptp(known) > 1e-12 * max(1.0, float(np.abs(known).max())):
            out[:, j] = centred / known.std(ddof=1)
    return out
