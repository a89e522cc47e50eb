"""A mean of ratings helped by predictions of further, unrated conversations: prediction-powered inference with a
tuned weight.

With n rated conversations (rating y, prediction f) and N unrated ones (prediction f'),

    mean = mean(y) − lambda (mean(f) − mean(f')),
    lambda = cov(y, f) / ((1 + n / N) var(f, f')),
    variance = var(y − lambda f) / n + lambda² var(f') / N

(Angelopoulos, Duchi & Zrnic, 2023, PPI++, arXiv 2311.01453, example 6.1). It has no bias however bad the predictions
are, as long as rated and unrated conversations are drawn alike; bad ones only save nothing. Predictions need not be
on the scale of the ratings, for lambda may be any number: a metric will do. Ratings of one rater are clustered.

The library `ppi-python` gives the same means (a test holds it); it brings numba and a downloader, and clips lambda to
0 … 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.gls import codes
from evaluation.stats.zscores import rater_codes

FEWEST = 5
"""Rated conversations, and raters, from which on a weight is estimated."""
FEW_RATED = Reason(
    "few_raters_for_weight", f"fewer than {FEWEST} raters: no weight can be estimated"
)
NO_UNRATED = Reason("no_unrated", "no unrated conversation is predicted")
CONSTANT = Reason("constant_prediction", "the predictions do not vary")


@dataclass(frozen=True, slots=True)
class Powered:
    """A mean with and without predictions.

    Attributes:
        ratings: mean of the ratings alone; ratings_error: its standard error; ratings_low, ratings_high: by Student's
            t.
        mean, low, high: with predictions; None with a reason.
        weight: lambda.
        saved: share by which predictions make the variance smaller; below 0 where they add to it.
        shift: how far predictions of rated conversations lie above those of unrated ones, in standard errors; far
            from 0 the two were not drawn alike.
        n: ratings; n_predicted: those with a prediction; n_unrated: unrated conversations with a prediction.
    """

    ratings: float | None
    ratings_error: float | None
    ratings_low: float | None
    ratings_high: float | None
    mean: float | None
    low: float | None
    high: float | None
    weight: float | None
    saved: float | None
    shift: float | None
    n: int
    n_predicted: int
    n_unrated: int
    reason: Reason | None = None


def powered_mean(
    values: Sequence[float] | np.ndarray,
    predicted: Sequence[float] | np.ndarray,
    unrated: Sequence[float] | np.ndarray,
    raters: Sequence[Any] | None = None,
    *,
    level: float = 0.90,
) -> Powered:
    """Estimate a mean from ratings and predictions.

    Args:
        values, predicted: (n,) of ratings; one without a prediction counts for the mean of the ratings alone.
        unrated: (N,) predictions of conversations without a rating; undefined ones are left out.
        raters: (n,) rater of each; None stands for a rater of this one only.
        level: of the intervals, by Student's t with as many degrees of freedom as raters less one, or with
            predictions two.

    Raises:
        ValueError: lengths that differ.
    """
    from scipy import stats

    y, f = np.asarray(values, dtype=float), np.asarray(predicted, dtype=float)
    people = np.arange(len(y)) if raters is None else rater_codes(raters)
    if not len(y) == len(f) == len(people):
        raise ValueError(
            f"{len(y)} ratings, {len(f)} predictions and {len(people)} raters; there must be one each"
        )
    rated = np.isfinite(y)
    y, f, people = y[rated], f[rated], people[rated]
    alone, error, low, high = _alone(y, codes(people), level)
    predicted_too = np.isfinite(f)
    n_ratings = len(y)
    y, f, people = y[predicted_too], f[predicted_too], codes(people[predicted_too])
    more = np.asarray(unrated, dtype=float)
    more = more[np.isfinite(more)]
    n, n_more = len(y), len(more)
    n_people = int(people.max(initial=-1)) + 1
    own = (alone, error, low, high)
    counted = (n_ratings, n, n_more)

    def without(reason: Reason) -> Powered:
        return Powered(*own, None, None, None, None, None, None, *counted, reason)

    if n_people < FEWEST:
        return without(FEW_RATED)
    if n_more < 2:
        return without(NO_UNRATED)
    spread = float(np.concatenate([f, more]).var(ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(f).max()) ** 2):
        return without(CONSTANT)
    weight = float(((y - y.mean()) * (f - f.mean())).mean() / ((1 + n / n_more) * spread))
    gap = float(f.mean() - more.mean())
    rest = float(more.var(ddof=1)) / n_more
    mean = float(y.mean()) - weight * gap
    variance = _variance(y - weight * f, people, 2) + weight**2 * rest
    half = float(stats.t.ppf(0.5 + level / 2, n_people - 2)) * float(np.sqrt(variance))
    saved = 1 - variance / error**2 if error else None
    apart = _variance(f, people, 1) + rest
    shift = gap / float(np.sqrt(apart)) if apart > 0 else None
    return Powered(*own, mean, mean - half, mean + half, weight, saved, shift, *counted)


def _alone(
    y: np.ndarray, people: np.ndarray, level: float
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return the mean of the ratings alone, its standard error and its interval; None where there is none."""
    from scipy import stats

    if not len(y):
        return None, None, None, None
    mean, n_people = float(y.mean()), int(people.max()) + 1
    if n_people < 2:
        return mean, None, None, None
    error = float(np.sqrt(_variance(y, people, 1)))
    half = float(stats.t.ppf(0.5 + level / 2, n_people - 1)) * error
    return mean, error, mean - half, mean + half


def _variance(values: np.ndarray, groups: np.ndarray, n_lost: int) -> float:
    """Return the variance of a mean whose groups are drawn whole."""
    sums = np.bincount(groups, values - values.mean())
    return float((sums**2).sum() / len(values) ** 2 * len(sums) / (len(sums) - n_lost))
