"""Analysis of variance of ratings by the bots' factors.

Ghandeharioun et al. (2019) analyse the sum of the five ratings by three factors (architecture, regularisation, corpus)
with interactions. Sums of squares are of type III with sum-to-zero contrasts, because bots have different numbers of
ratings and every bot should count equally. The model needs only means, counts and variances of the cells, so it can
also be fitted to a published table.

Without raters, or with one rating per rater, ratings count as independent in the tests, with equal variance in all
cells. If raters gave several ratings, they are not independent: each term is tested on the cell means by generalised
least squares with errors clustered by rater (`gls`, `wald`), and the sums of squares and partial eta² are only
descriptive. The interval of eta² has no clustered form, so it is omitted. Whenever raters are given, level means and
their differences also come from the generalised least squares, as in all other bot comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.gls import Gap, RaterGls, fit_gls
from evaluation.stats.means import ALL_ALIKE, ONE_GROUP, MeanSpread, interval_ends
from evaluation.stats.mixed import CONSTANT, WaldTest, wald_test
from evaluation.stats.zscores import rater_codes

NOT_INDEPENDENT = Reason(
    "not_independent", "no interval: raters gave several ratings each, so ratings are not independent"
)


@dataclass(frozen=True, slots=True)
class AnovaTerm:
    """A factor or an interaction ("architecture:corpus").

    Attributes:
        ss: sum of squares, type III.
        df: its degrees of freedom.
        f, p: against the residual, or with errors clustered by rater if ratings are not independent; None without a
            test.
        df2: denominator degrees of freedom.
        partial_eta2: ss / (ss + residual ss).
        low, high: interval of partial eta² from the noncentral F (Steiger, 2004); None if ratings are not independent.
        reason: reason why this term has no test, although others may have one.
    """

    name: str
    ss: float
    df: int
    f: float | None
    p: float | None
    partial_eta2: float | None
    low: float | None
    high: float | None
    df2: float | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Marginal:
    """Mean of a level, all cells weighted equally, with its interval."""

    factor: str
    level: str
    mean: float
    low: float | None
    high: float | None
    n: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class LevelContrast:
    """Difference of two levels' means, a − b, with its interval.

    p is not corrected.
    """

    factor: str
    a: str
    b: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Anova:
    """Table of an analysis of variance.

    Attributes:
        terms: main effects first; empty without an analysis.
        residual_ss, residual_df: residual of the terms.
        n: number of ratings used.
        n_dropped: ratings without a value.
        level: confidence level of all intervals.
        reason: reason for a missing analysis or test.
        eta_reason: reason why partial eta² has no interval although there is a test.
    """

    terms: tuple[AnovaTerm, ...]
    marginals: tuple[Marginal, ...]
    contrasts: tuple[LevelContrast, ...]
    residual_ss: float | None
    residual_df: int
    n: int
    n_dropped: int = 0
    level: float = 0.90
    reason: Reason | None = None
    eta_reason: Reason | None = None

    def term(self, name: str) -> AnovaTerm:
        """Return the term of this name.

        Raises:
            KeyError: if there is none; the message lists the terms.
        """
        for term in self.terms:
            if term.name == name:
                return term
        raise KeyError(f"no term {name!r}; available: {[term.name for term in self.terms]}")


def sum_of_ratings(table: np.ndarray) -> np.ndarray:
    """Sum the dimensions, (k, d) to (k,); NaN if one is missing.

    A partial sum is not a lower rating.
    """
    return np.asarray(table, dtype=float).sum(axis=1)


def anova(
    values: Sequence[float] | np.ndarray,
    factors: Mapping[str, Sequence[Any]],
    raters: Sequence[Any] | None = None,
    *,
    max_order: int | None = None,
    level: float = 0.90,
    scale: tuple[float, float] | None = None,
) -> Anova:
    """Analyse the effects of factors and their interactions on ratings.

    Args:
        values: (k,) ratings or sums of ratings; undefined ones are excluded and counted.
        factors: name to (k,) levels.
        raters: (k,) rater of each rating, None for a rater with this rating only. Without raters, ratings count as
            independent with equal variance.
        max_order: highest order of interactions; by default all, 1 for none.
        level: confidence level of the intervals.
        scale: limits of the values, if raters are given and there are limits.

    Raises:
        ValueError: if there is no factor or a factor has another length.
    """
    array = np.asarray(values, dtype=float)
    for name, levels in factors.items():
        if len(levels) != len(array):
            raise ValueError(f"factor {name!r} has {len(levels)} levels for {len(array)} values")
    if not factors:
        raise ValueError("no factor given; at least one is needed")
    keep = np.isfinite(array)
    used = array[keep]
    names = [
        [str(label) for label, is_kept in zip(levels, keep, strict=True) if is_kept] for levels in factors.values()
    ]
    cells: dict[tuple[str, ...], int] = {}
    codes = np.array([cells.setdefault(row, len(cells)) for row in zip(*names, strict=True)], dtype=int)
    n = np.bincount(codes, minlength=len(cells))
    means = np.bincount(codes, weights=used, minlength=len(cells)) / n
    within = float(((used - means[codes]) ** 2).sum()) if len(used) else 0.0
    columns = {name: [cell[i] for cell in cells] for i, name in enumerate(factors)}
    dropped = int((~keep).sum())
    fit = None
    if raters is not None and len(used):
        rater = np.unique(rater_codes(raters)[keep], return_inverse=True)[1].reshape(-1)
        fit = fit_gls(used, codes, rater)
    return _analyse(columns, means, n, within, max_order, level, dropped, fit, scale)


def _analyse(
    factors: Mapping[str, Sequence[str]],
    means: np.ndarray,
    n: np.ndarray,
    within: float,
    max_order: int | None,
    level: float,
    dropped: int,
    fit: RaterGls | None = None,
    scale: tuple[float, float] | None = None,
) -> Anova:
    """Analyse cells.

    Args:
        fit: cell means by generalised least squares; None if ratings count as independent.
        scale: as in `anova`.
    """
    total = int(n.sum())

    def nothing(reason: Reason) -> Anova:
        return Anova((), (), (), None, 0, total, dropped, level, reason)

    if not total:
        return nothing(Reason("no_rating", "no rating"))
    for name, levels in factors.items():
        if len(set(levels)) < 2:
            text = f"factor {name!r} has only one level, so there is nothing to compare"
            return nothing(Reason("one_level", text, factor=name))
    blocks, x = _design(factors, max_order)
    root = np.sqrt(n.astype(float))
    weighted = x * root[:, None]
    if np.linalg.matrix_rank(weighted) < x.shape[1]:
        full = int(np.prod([len(set(levels)) for levels in factors.values()]))
        text = (
            f"{full - len(means)} of the {full} combinations of levels have no ratings, so interactions and "
            "factors cannot be separated; allow fewer interactions (max_order)"
        )
        return nothing(Reason("empty_cells", text, n_empty=full - len(means), n_cells=full))
    q, r = np.linalg.qr(weighted)
    coefficients = np.linalg.solve(r, q.T @ (root * means))
    inverse = np.linalg.inv(r)
    covariance = inverse @ inverse.T  # in units of the residual variance
    lack = float((((means - x @ coefficients) * root) ** 2).sum())
    lack = 0.0 if x.shape[1] == len(means) else lack
    residual, df = within + lack, total - x.shape[1]
    reason = None
    if df < 1:
        text = "there are as many cells as ratings, so the effects cannot be tested"
        reason = Reason("one_rating_a_cell", text)
    elif residual <= 1e-12 * max(1.0, float(np.abs(means).max()) ** 2) * total:
        reason = CONSTANT
    variance = residual / df if reason is None else None
    # (p, c): weight of each cell's mean in each coefficient.
    toward = inverse @ q.T * root
    clustered = fit if fit is not None and len(fit.counts) < total else None
    terms = tuple(
        _term(
            name,
            coefficients[columns],
            covariance[columns, columns],
            variance,
            df,
            level,
            None if clustered is None else wald_test(clustered, toward[columns]),
        )
        for name, columns in blocks.items()
    )
    eta_reason = NOT_INDEPENDENT if clustered is not None and reason is None else None
    if fit is None:
        judge = partial(_judge_pooled, toward, means, n, variance, df, reason)
    else:
        judge = partial(_judge_clustered, toward, fit)
    marginals, contrasts = _means(factors, x, n, judge, level, fit, scale)
    return Anova(terms, marginals, contrasts, residual, df, total, dropped, level, reason, eta_reason)


def _design(factors: Mapping[str, Sequence[str]], max_order: int | None) -> tuple[dict[str, slice], np.ndarray]:
    """Return sum-to-zero columns per cell, and each term's columns.

    The first column is the intercept.
    """
    n_cells = len(next(iter(factors.values())))
    mains: dict[str, np.ndarray] = {}
    for name, levels in factors.items():
        labels = sorted(set(levels))
        effects = np.vstack([np.eye(len(labels) - 1), -np.ones(len(labels) - 1)])
        mains[name] = effects[[labels.index(level) for level in levels]]
    parts, blocks, start = [np.ones((n_cells, 1))], {}, 1
    for order in range(1, min(max_order or len(mains), len(mains)) + 1):
        for names in combinations(mains, order):
            columns = np.ones((n_cells, 1))
            for name in names:
                columns = (columns[:, :, None] * mains[name][:, None, :]).reshape(n_cells, -1)
            blocks[":".join(names)] = slice(start, start + columns.shape[1])
            start += columns.shape[1]
            parts.append(columns)
    return blocks, np.hstack(parts)


def _term(
    name: str,
    coefficients: np.ndarray,
    covariance: np.ndarray,
    variance: float | None,
    df: int,
    level: float,
    clustered: WaldTest | None,
) -> AnovaTerm:
    """Return one term of the analysis.

    Args:
        coefficients, covariance: of the term; the covariance in units of the residual variance.
        clustered: test for raters with several ratings; None if ratings are independent.
    """
    from scipy import stats

    ss = float(coefficients @ np.linalg.solve(covariance, coefficients))
    size = len(coefficients)
    if variance is None:
        return AnovaTerm(name, ss, size, None, None, None, None, None)
    eta2 = ss / (ss + variance * df)
    if clustered is not None:
        return AnovaTerm(name, ss, size, clustered.f, clustered.p, eta2, None, None, clustered.df2, clustered.reason)
    f = ss / size / variance
    low, high = _eta_interval(f, size, df, level)
    return AnovaTerm(name, ss, size, f, float(stats.f.sf(f, size, df)), eta2, low, high, df)


def _eta_interval(f: float, df1: int, df2: int, level: float) -> tuple[float, float]:
    """Return the ends of the interval of eta².

    They are λ / (λ + df1 + df2 + 1).

    λ is the noncentrality at which this F has the probability of the interval's lower or upper tail.
    """
    from scipy import optimize, stats

    def noncentrality(probability: float) -> float:
        def excess(parameter: float) -> float:
            if parameter == 0:
                return float(stats.f.cdf(f, df1, df2)) - probability
            return float(stats.ncf.cdf(f, df1, df2, parameter)) - probability

        if excess(0.0) <= 0:
            return 0.0
        top = max(10.0, 4 * f * df1)
        while excess(top) > 0:
            top *= 2
        return float(optimize.brentq(excess, 0.0, top))

    ends = [noncentrality(0.5 + level / 2), noncentrality(0.5 - level / 2)]
    low, high = (parameter / (parameter + df1 + df2 + 1) for parameter in ends)
    return low, high


Judge = Callable[[np.ndarray], tuple[Gap, Reason | None]]
"""Function from a design row to its fitted value with error and degrees of freedom, or the reason for none."""


def _judge_pooled(
    toward: np.ndarray,
    means: np.ndarray,
    n: np.ndarray,
    variance: float | None,
    df: int,
    reason: Reason | None,
    row: np.ndarray,
) -> tuple[Gap, Reason | None]:
    weights = row @ toward
    error = 0.0 if variance is None else float(np.sqrt(variance * (weights**2 / n).sum()))
    return Gap(float(weights @ means), error, df), reason


def _judge_clustered(toward: np.ndarray, fit: RaterGls, row: np.ndarray) -> tuple[Gap, Reason | None]:
    weights = row @ toward
    gap = fit.borrow(fit.combined(weights), weights)
    used = np.abs(weights) > 1e-9 * np.abs(weights).max()
    if (fit.n_raters[used] < 2).any():
        return gap, ONE_GROUP
    return gap, None if gap.error else ALL_ALIKE


def _means(
    factors: Mapping[str, Sequence[str]],
    x: np.ndarray,
    n: np.ndarray,
    judge: Judge,
    level: float,
    fit: RaterGls | None,
    scale: tuple[float, float] | None,
) -> tuple[tuple[Marginal, ...], tuple[LevelContrast, ...]]:
    """Return the levels' means and their differences.

    Args:
        judge: returns the uncertainty of each.
        fit, scale: if both are given, a level's mean gets the same score interval as all means on a scale.
    """
    from scipy import stats

    marginals, contrasts = [], []
    for name, levels in factors.items():
        labels = sorted(set(levels))
        row_levels = np.array(levels)
        rows = {label: x[row_levels == label].mean(axis=0) for label in labels}

        def estimate_row(row: np.ndarray) -> tuple[Gap, float | None, float | None, Reason | None]:
            estimate, reason = judge(row)
            if reason is not None:
                return estimate, None, None, reason
            half = float(stats.t.ppf(0.5 + level / 2, estimate.df)) * estimate.error
            return estimate, estimate.difference - half, estimate.difference + half, None

        for label in labels:
            estimate, low, high, reason = estimate_row(rows[label])
            number = int(n[row_levels == label].sum())
            if fit is not None and scale is not None and reason in (None, ALL_ALIKE):
                n_raters = int((fit.counts[:, row_levels == label].sum(axis=1) > 0).sum())
                spread = MeanSpread(estimate.error**2, estimate.df if estimate.error else n_raters - 1, n_raters)
                ends = interval_ends(estimate.difference, spread, level, scale)
                (low, high), reason = ends or (None, None), None if ends else ALL_ALIKE
            marginals.append(Marginal(name, label, estimate.difference, low, high, number, reason))
        for a, b in combinations(labels, 2):
            estimate, low, high, reason = estimate_row(rows[a] - rows[b])
            if ALL_ALIKE in (judge(rows[a])[1], judge(rows[b])[1]):
                low, high, reason = None, None, ALL_ALIKE
            gap, p = estimate.difference, None
            if reason is None:
                p = float(2 * stats.t.sf(abs(gap) / estimate.error, estimate.df))
            contrasts.append(LevelContrast(name, a, b, gap, low, high, p, reason))
    return tuple(marginals), tuple(contrasts)
