"""Intraclass correlations: share of the variance due to items.

Shrout and Fleiss (1979), Psychological Bulletin 86; F intervals as there and in McGraw and Wong (1996). In form 1 every
item has different raters, or raters are unknown. In form 2 the same raters, a sample of possible ones, rate all items,
and their severity counts as error. In form 3 only these raters matter, and severity is ignored. "_1" is the reliability
of a single rating, "_k" that of the mean of k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.agreement import AgreementEstimate, few_items, undefined

_TINY = 1e-12

IccForm = Literal["icc1_1", "icc2_1", "icc3_1", "icc1_k", "icc2_k", "icc3_k"]
ICC_FORMS: tuple[IccForm, ...] = ("icc1_1", "icc2_1", "icc3_1", "icc1_k", "icc2_k", "icc3_k")


@dataclass(frozen=True, slots=True)
class _Squares:
    """Mean squares, each (B,): between and within items, between raters, residual."""

    between: np.ndarray
    within: np.ndarray
    raters: np.ndarray
    error: np.ndarray


def icc(table: np.ndarray, form: IccForm = "icc2_k", *, level: float = 0.95) -> AgreementEstimate:
    """Compute an intraclass correlation.

    Args:
        table: (items, raters), NaN for missing ratings. Form 1 accepts items with different numbers of ratings (k is
            then their average in the sense of the analysis of variance) and drops those with one; forms 2 and 3 require
            every rater to rate every item.
        form: form of the coefficient, see the module.
        level: confidence level of the interval, which uses the F distribution (normal errors).

    Raises:
        ValueError: if the form is unknown or the table invalid.
    """
    if form not in ICC_FORMS:
        raise ValueError(f"form is {form!r}; it must be one of {', '.join(ICC_FORMS)}")
    x = np.asarray(table, dtype=float)
    if x.ndim != 2:
        raise ValueError(f"the table has shape {x.shape}; it must be (items, raters)")
    one_way = form.startswith("icc1")
    rated = np.isfinite(x)
    if one_way:
        x, rated = x[rated.sum(axis=1) >= 2], rated[rated.sum(axis=1) >= 2]
    n, n_ratings = len(x), int(rated.sum())
    if n < 2:
        return undefined(n, n_ratings, few_items(n))
    if not one_way and x.shape[1] < 2:
        text = f"only {x.shape[1]} raters; at least 2 are needed"
        return undefined(n, n_ratings, Reason("few_raters", text, n_raters=x.shape[1]))
    if not one_way and not rated.all():
        gaps = int((~rated.all(axis=1)).sum())
        text = f"{gaps} of {n} items lack a rating; forms 2 and 3 require every rater to rate every item"
        return undefined(n, n_ratings, Reason("gaps", text, n_gaps=gaps, n_items=n))
    if np.ptp(x[rated]) <= _TINY * max(1.0, float(np.abs(x[rated]).max())):
        text = "all ratings are equal, so there is no variance"
        return undefined(n, n_ratings, Reason("no_variance", text))

    x = np.where(rated, x - x[rated].mean(), 0.0)
    size = rated.sum(axis=1).astype(float)
    k = float((size.sum() - (size**2).sum() / size.sum()) / (n - 1))
    squares = _mean_squares(np.ones((1, n)), x, size, two_way=not one_way)
    value = float(_coefficient(squares, form, n, k)[0])
    if not np.isfinite(value):
        text = "all items have the same mean, so there is no variance between items"
        return undefined(n, n_ratings, Reason("same_means", text))
    low, high = _f_interval(squares, form, n, k, n_ratings, level)
    return AgreementEstimate(value, low, high, n, n_ratings, "F distribution")


def _mean_squares(times: np.ndarray, x: np.ndarray, size: np.ndarray, *, two_way: bool) -> _Squares:
    """Compute mean squares under item weights.

    Item i counts times[b, i] times; x is (items, raters), 0 for missing ratings.
    """
    n = times.sum(axis=1)
    sums, squares = x.sum(axis=1), (x**2).sum(axis=1)
    number = times @ size
    correction = (times @ sums) ** 2 / number
    items = times @ (sums**2 / size)
    between = np.maximum(items - correction, 0.0)
    within = np.maximum(times @ squares - items, 0.0)
    raters = np.zeros(len(times))
    if two_way:
        raters = np.maximum(((times @ x) ** 2).sum(axis=1) / n - correction, 0.0)
    k = x.shape[1]
    return _Squares(
        between / (n - 1),
        within / np.maximum(number - n, 1),
        raters / max(1, k - 1),
        np.maximum(within - raters, 0.0) / np.maximum((n - 1) * (k - 1), 1),
    )


def _coefficient(squares: _Squares, form: IccForm, n: int, k: float | np.ndarray) -> np.ndarray:
    b, w, j, e = squares.between, squares.within, squares.raters, squares.error
    parts = {
        "icc1_1": (b - w, b + (k - 1) * w),
        "icc1_k": (b - w, b),
        "icc2_1": (b - e, b + (k - 1) * e + k * (j - e) / n),
        "icc2_k": (b - e, b + (j - e) / n),
        "icc3_1": (b - e, b + (k - 1) * e),
        "icc3_k": (b - e, b),
    }
    above, below = np.broadcast_arrays(*parts[form])
    scale = b + w
    return np.divide(above, below, out=np.full(len(b), np.nan), where=below > _TINY * scale)


def _f_interval(
    squares: _Squares, form: IccForm, n: int, k: float, n_ratings: int, level: float
) -> tuple[float, float]:
    from scipy import stats

    b, w, j, e = (float(s[0]) for s in (squares.between, squares.within, squares.raters, squares.error))
    upper = 0.5 + level / 2
    average = form.endswith("_k")
    if form.startswith("icc2"):
        low, high = _two_way_interval(b, j, e, n, k, upper)
        if average:
            low, high = (end * k / (1 + end * (k - 1)) for end in (low, high))
        return low, high
    noise, df = (w, n_ratings - n) if form.startswith("icc1") else (e, round((n - 1) * (k - 1)))
    if noise <= _TINY * b:
        return 1.0, 1.0
    ratio = b / noise
    ends = (ratio / float(stats.f.ppf(upper, n - 1, df)), ratio * float(stats.f.ppf(upper, df, n - 1)))
    if average:
        low, high = (1 - 1 / end for end in ends)
    else:
        low, high = ((end - 1) / (end + k - 1) for end in ends)
    return low, high


def _two_way_interval(b: float, j: float, e: float, n: int, k: float, upper: float) -> tuple[float, float]:
    """Compute the interval of form 2 with Satterthwaite's degrees of freedom.

    Shrout and Fleiss (1979), p. 424.
    """
    from scipy import stats

    r = (b - e) / (b + (k - 1) * e + k * (j - e) / n)
    # The paper's F_J = j / e, kept as two factors because e may be 0.
    error_factor = n * (1 + (k - 1) * r) - k * r
    above = (k - 1) * (n - 1) * (k * r * j + error_factor * e) ** 2
    below = (n - 1) * k**2 * r**2 * j**2 + error_factor**2 * e**2
    if below <= 0:
        return (1.0, 1.0) if r > 0 else (0.0, 0.0)
    df = above / below
    rest = k * j + (k * n - k - n) * e
    f_low = float(stats.f.ppf(upper, n - 1, df))
    f_high = float(stats.f.ppf(upper, df, n - 1))
    low = n * (b - f_low * e) / (f_low * rest + n * b)
    high = n * (f_high * b - e) / (rest + n * f_high * b)
    return low, high
