"""Inter-rater agreement: Cohen's and Fleiss' kappa, Krippendorff's alpha, Gwet's AC.

Cohen (1960, 1968), Fleiss (1971), Krippendorff (2011, Computing Krippendorff's Alpha-Reliability), Gwet (2008; 2014,
Handbook of Inter-Rater Reliability). Intervals use `jackknife`; a median of kappas uses percentiles of resampled items.
The functions take a table of items × raters (or positions in a row, if raters are unknown), NaN for a missing rating.
Intraclass correlations are in `icc.py`. If chance agreement is certain, e.g. because all raters gave the same answer to
everything, a coefficient is undefined and the reason says so; it is not an agreement of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.constants import MOST_NUMBERS
from evaluation.stats.resampling import (
    FEWEST_ITEMS,
    NO_DISAGREEMENT,
    few_for_interval,
    few_other,
    has_other,
    interval_of_draws,
    jackknife_interval,
    leave_one_out_values,
)

FEWEST_RESAMPLED = 20
"""Minimum number of items for percentile intervals of a median; with fewer they were too narrow in simulations."""
_TINY = 1e-12
MOST_PAIRS = 1000
"""Maximum number of rater pairs compared; 4,000 raters would make 8 million pairs."""
_MOST_RATERS = 2000
NO_INTERVAL = Reason("no_interval", "no interval: most resamples are undefined")

Weights = Literal["linear", "quadratic"] | None
Level = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class AgreementEstimate:
    """An agreement coefficient.

    Attributes:
        value: None if undefined.
        low, high: ends of the interval; None if there is none.
        n_items: number of items used.
        n_ratings: number of ratings on them.
        interval: method of the interval.
        reason: reason for a missing `value` or interval.
    """

    value: float | None
    low: float | None
    high: float | None
    n_items: int
    n_ratings: int
    interval: str = ""
    reason: Reason | None = None


def rating_table(
    values: Sequence[float] | np.ndarray, items: Sequence[Any], raters: Sequence[Any] | None = None
) -> np.ndarray:
    """Arrange a list of ratings as items × raters, sorted by name.

    Missing ratings are NaN.

    Args:
        values, items, raters: (k,). Without raters, the ratings of an item keep the given order; only statistics that
            treat raters as interchangeable (Fleiss, alpha, ICC of form 1) are then meaningful.

    Raises:
        ValueError: if a rater rated an item twice.
    """
    array = np.asarray(values, dtype=float)
    if len(array) != len(items):
        raise ValueError(f"{len(array)} values and {len(items)} items; there must be one item each")
    _, rows = np.unique(np.asarray(items, dtype=object).astype(str), return_inverse=True)
    if raters is None:
        seen: dict[int, int] = {}
        columns = np.empty(len(array), dtype=int)
        for i, row in enumerate(rows.tolist()):
            columns[i] = seen[row] = seen.get(row, -1) + 1
    else:
        _, columns = np.unique(np.asarray(raters, dtype=object).astype(str), return_inverse=True)
    if len(array) != len(columns):
        raise ValueError(f"{len(array)} values and {len(columns)} raters; there must be one rater each")
    shape = (int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1)
    table = np.full(shape, np.nan)
    pairs = rows * table.shape[1] + columns
    twice = np.flatnonzero(np.bincount(pairs, minlength=table.size) > 1)
    if len(twice):
        i = int(np.flatnonzero(pairs == twice[0])[0])
        rater_text = "" if raters is None else f" by {raters[i]!r}"
        raise ValueError(f"item {items[i]!r} is rated twice{rater_text}; each rater may rate an item once")
    table[rows, columns] = array
    return table


def cohen_kappa(
    first: Sequence[Any] | np.ndarray,
    second: Sequence[Any] | np.ndarray,
    weights: Weights = None,
    *,
    level: float = 0.95,
    units: Sequence[Any] | np.ndarray | None = None,
) -> AgreementEstimate:
    """Compute Cohen's kappa of two raters, with an interval over items.

    kappa = 1 − observed disagreement / disagreement by chance; Cohen (1960), with weights Cohen (1968).

    Args:
        first, second: (n,) numbers or labels; items with a missing rating (NaN, None) are excluded.
        weights: None weights all disagreements equally; "linear" and "quadratic" use the numerical distance of the two
            ratings, so unused points of the scale still count.
        level: confidence level of the interval.
        units: (n,) unit of resampling of each item; None if every item is its own.
    """
    codes, categories = _codes(np.stack([_objects(first), _objects(second)], axis=1))
    rated = (codes >= 0).all(axis=1)
    codes, units = codes[rated], None if units is None else _objects(units)[rated]
    n = len(codes)
    if n < 2:
        text = f"only {n} items rated by both; at least 2 are needed"
        return undefined(n, 2 * n, Reason("few_shared_items", text, n_items=n))
    distance = _distances(categories, weights)

    def kappa(times: np.ndarray) -> np.ndarray:
        return _kappas(times, codes, distance)

    value = _kappa_of(codes, distance)
    if value is None:
        only = categories[codes[0, 0]]
        text = f"both raters gave only {only!r}, so agreement is certain"
        return undefined(n, 2 * n, Reason("both_gave_one", text, answer=only))
    n_given = np.bincount(codes.ravel())
    return _with_interval(value, kappa, n, n_given, level, size=n + 2 * len(categories), units=units)


def _kappa_of(codes: np.ndarray, distance: np.ndarray) -> float | None:
    """Return kappa of two raters' codes, (n, 2), or None.

    Computed by statsmodels; None if chance agreement is certain.
    """
    from statsmodels.stats.inter_rater import cohens_kappa

    table = np.zeros(distance.shape)
    np.add.at(table, (codes[:, 0], codes[:, 1]), 1.0)
    if (table.sum(axis=1) @ distance @ table.sum(axis=0)) <= 0:
        return None
    return float(cohens_kappa(table, weights=distance, return_results=False))


def _kappas(times: np.ndarray, codes: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Compute kappa of two raters' codes under item weights: (B,).

    Item i counts times[b, i] times; codes are (n, 2).
    """
    one_hot = np.eye(len(distance))
    size = times.sum(axis=1)
    observed = times @ distance[codes[:, 0], codes[:, 1]]
    expected = ((times @ one_hot[codes[:, 0]] @ distance) * (times @ one_hot[codes[:, 1]])).sum(axis=1)
    total = np.maximum(size, 1.0)
    return _one_minus(observed / total, expected / total**2)


@dataclass(frozen=True, slots=True)
class PairwiseKappa:
    """Cohen's kappas of all pairs of raters that share enough items.

    Attributes:
        median: None if no pair has a kappa.
        low, high: its interval over items.
        kappas: (first column, second column, kappa or None).
        reason: reason for a missing `median` or interval.
    """

    median: float | None
    low: float | None
    high: float | None
    kappas: tuple[tuple[int, int, float | None], ...]
    reason: Reason | None = None


USUAL_SHARED = 20
"""Default minimum number of shared items; kappas of fewer items are mostly chance."""


def pairwise_kappa(
    table: np.ndarray,
    weights: Weights = None,
    *,
    min_items: int = USUAL_SHARED,
    most_pairs: int = MOST_PAIRS,
    level: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int = 0,
) -> PairwiseKappa:
    """Return the median of Cohen's kappa over pairs of raters.

    As reported by Ghandeharioun et al. (2019).

    Args:
        table: (items, raters).
        min_items: minimum number of items that a pair must share.
        most_pairs: if there are more pairs, a random sample of this size is used, for the median and its interval.
        weights, level: as in `cohen_kappa`.
        n_bootstrap, seed: items are resampled for all pairs together, because the jackknife is not valid for a median.
    """
    codes, categories = _codes(np.asarray(table))
    n_items = len(codes)
    distance = _distances(categories, weights)
    rng = np.random.default_rng(seed)
    even = np.full(n_items, 1 / max(1, n_items))
    times = np.vstack([np.ones((1, n_items)), rng.multinomial(n_items, even, size=n_bootstrap)])
    pair_kappas: list[tuple[int, int, float | None]] = []
    draws = []
    for i, j in _pairs_sharing(codes >= 0, min_items, most_pairs, seed):
        shared = np.flatnonzero((codes[:, i] >= 0) & (codes[:, j] >= 0))
        kappas = _kappas(times[:, shared], codes[shared][:, [i, j]], distance)
        pair_kappas.append((i, j, float(kappas[0]) if np.isfinite(kappas[0]) else None))
        draws.append(kappas[1:])
    values = [value for *_, value in pair_kappas if value is not None]
    if not values:
        problem = Reason("no_pair_defined", "no pair has a kappa")
        if not pair_kappas:
            text = f"no pair of raters shares {min_items} items"
            problem = Reason("no_pair_shares", text, min_items=min_items)
        return PairwiseKappa(None, None, None, tuple(pair_kappas), problem)
    stacked = np.array(draws)
    defined = np.isfinite(stacked).any(axis=0)
    medians = np.nanmedian(stacked[:, defined], axis=0)
    ends = None
    reason: Reason | None = few_for_interval(n_items, FEWEST_RESAMPLED)
    if n_items >= FEWEST_RESAMPLED:
        ends = interval_of_draws(medians, n_items, level, n_bootstrap)
        reason = None if ends else NO_INTERVAL
    low, high = ends or (None, None)
    return PairwiseKappa(float(np.median(values)), low, high, tuple(pair_kappas), reason)


def _pairs_sharing(rated: np.ndarray, min_items: int, max_pairs: int, seed: int) -> list[tuple[int, int]]:
    """Return the pairs of raters who share enough items, or a sample.

    Args:
        rated: (items, raters) True where the rater rated the item.
        max_pairs: size of the sample. With very many raters, raters are sampled first to keep the table small.
    """
    rng = np.random.default_rng((seed, 1))
    chosen = np.arange(rated.shape[1])
    if len(chosen) > _MOST_RATERS:
        chosen = np.sort(rng.choice(chosen, _MOST_RATERS, replace=False))
    present = rated[:, chosen].astype(np.float32)
    pairs = np.argwhere(np.triu(present.T @ present >= min_items, k=1))
    if len(pairs) > max_pairs:
        pairs = pairs[np.sort(rng.choice(len(pairs), max_pairs, replace=False))]
    return [(int(chosen[i]), int(chosen[j])) for i, j in pairs]


def fleiss_kappa(table: np.ndarray, *, level: float = 0.95) -> AgreementEstimate:
    """Compute Fleiss' kappa, the chance-corrected agreement of many interchangeable raters.

    If items have different numbers of ratings, each item counts with its own pairs, and category shares come from all
    ratings. With equal numbers this is exactly Fleiss (1971). Items with one rating are excluded.

    Args:
        table: (items, raters) of category codes or labels.
        level: confidence level of the interval over items, which is corrected for kappa's bias with few ratings.
    """
    counts, _ = _counts(np.asarray(table))
    if len(counts) < 2:
        return undefined(len(counts), int(counts.sum()), few_items(len(counts)))
    size = counts.sum(axis=1)
    agreeing = ((counts**2).sum(axis=1) - size) / (size * (size - 1))

    def kappa(times: np.ndarray) -> np.ndarray:  # (B, items)
        shares = times @ counts
        shares = shares / shares.sum(axis=1, keepdims=True)
        by_chance = (shares**2).sum(axis=1)
        return _one_minus(1 - times @ agreeing / times.sum(axis=1), 1 - by_chance)

    n_given = counts.sum(axis=0)
    return _over_items(kappa, len(counts), n_given, level, counts.size, centred=True)


def gwet_ac(
    table: np.ndarray,
    weights: Weights = None,
    *,
    categories: Sequence[Any] | None = None,
    level: float = 0.95,
    units: Sequence[Any] | None = None,
) -> AgreementEstimate:
    """Compute Gwet's AC1 or, with weights, AC2.

    It is the agreement beyond that of raters who guess.

    Kappas and alpha fall towards 0 when nearly all answers are the same, however well raters agree; AC does not. Items
    with one rating contribute to the answer frequencies, as in Gwet (2014).

    Args:
        table: (items, raters) of category codes or labels.
        weights: as in `cohen_kappa`.
        categories: all possible answers, whose number determines chance agreement; None for those observed.
        level: confidence level of the interval over items.
        units: (items,) unit of resampling of each row, if several rows belong together; every row then has a rating.
    """
    counts, possible = _counts(np.asarray(table), least=1, categories=categories)
    size = counts.sum(axis=1)
    several = size >= 2
    n, n_given = int(several.sum()), counts.sum(axis=0)
    if units is not None:
        n = len(set(_objects(units)[several].tolist()))
    if n < 2:
        return undefined(n, int(n_given.sum()), few_items(n))
    alike = 1 - _distances(possible, weights)
    agreeing = (counts * (counts @ alike - 1)).sum(axis=1) / np.maximum(size * (size - 1), 1.0)
    item_shares = counts / size[:, None]
    spread = alike.sum() / max(len(possible) * (len(possible) - 1), 1)

    def coefficient(times: np.ndarray) -> np.ndarray:  # (B, items)
        shares = times @ item_shares / times.sum(axis=1, keepdims=True)
        by_chance = spread * (shares * (1 - shares)).sum(axis=1) if len(possible) > 1 else np.ones(len(times))
        return _one_minus(1 - times @ agreeing / (times @ several), 1 - by_chance)

    estimate = _over_items(coefficient, len(counts), n_given, level, counts.size, skewed=True, units=units)
    if n < FEWEST_ITEMS and estimate.value is not None:
        estimate = replace(estimate, low=None, high=None, interval="", reason=few_for_interval(n))
    return replace(estimate, n_items=n)


def krippendorff_alpha(table: np.ndarray, scale: Level = "interval", *, level: float = 0.95) -> AgreementEstimate:
    """Compute Krippendorff's alpha for any number of raters; missing ratings are allowed.

    Alpha is 1 − observed disagreement / disagreement of all pairable values. The ordinal distance of two values is the
    number of ratings between them, i.e. the difference of their mid-ranks, so ordinal alpha is interval alpha on ranks.

    Args:
        table: (items, raters); numbers, or labels for nominal data.
        scale: distance measure: "nominal" treats all differences equally; "ordinal"; "interval".
        level: confidence level of the interval over items.
    """
    if scale == "interval":
        return _interval_alpha(np.asarray(table, dtype=float), level)
    counts, _ = _counts(np.asarray(table))
    if len(counts) < 2:
        return undefined(len(counts), int(counts.sum()), few_items(len(counts)))
    size = counts.sum(axis=1)
    apart = (size**2 - (counts**2).sum(axis=1)) / (size - 1)  # nominal

    def alpha(times: np.ndarray) -> np.ndarray:  # (B, items)
        totals = times @ counts  # (B, categories)
        n = totals.sum(axis=1)
        if scale == "nominal":
            observed = times @ apart
            expected = n**2 - (totals**2).sum(axis=1)
        else:
            rank = np.cumsum(totals, axis=1) - totals / 2
            first, second = rank @ counts.T, rank**2 @ counts.T  # (B, items)
            observed = (times * 2 * (size * second - first**2) / (size - 1)).sum(axis=1)
            sums = (totals * rank).sum(axis=1)
            expected = 2 * (n * (totals * rank**2).sum(axis=1) - sums**2)
            observed, expected = observed / n**2, expected / n**2  # ranks grow with n
        return _one_minus(observed / n, expected / (n * (n - 1)))

    return _over_items(alpha, len(counts), counts.sum(axis=0), level, counts.size)


def _interval_alpha(table: np.ndarray, level: float) -> AgreementEstimate:
    """Compute interval alpha by sums."""
    rated = np.isfinite(table)
    table, rated = table[rated.sum(axis=1) >= 2], rated[rated.sum(axis=1) >= 2]
    if len(table) < 2:
        return undefined(len(table), int(rated.sum()), few_items(len(table)))
    n_given = np.unique(table[rated], return_counts=True)[1]
    x = np.where(rated, table, 0.0)
    x = np.where(rated, (x - x[rated].mean()) / max(float(np.ptp(x[rated])), _TINY), 0.0)
    size, first, second = rated.sum(axis=1).astype(float), x.sum(axis=1), (x**2).sum(axis=1)
    apart = 2 * (size * second - first**2) / (size - 1)

    def alpha(times: np.ndarray) -> np.ndarray:
        n = times @ size
        expected = 2 * (n * (times @ second) - (times @ first) ** 2)
        return _one_minus(times @ apart / n, expected / (n * (n - 1)))

    return _over_items(alpha, len(x), n_given, level)


def _one_minus(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return 1 − observed / expected; NaN if `expected` is 0."""
    good = expected > _TINY
    return 1 - np.divide(observed, expected, out=np.full(len(expected), np.nan), where=good)


def _objects(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=object)


def _codes(table: np.ndarray, categories: Sequence[Any] | None = None) -> tuple[np.ndarray, list[Any]]:
    """Return each value's position among the sorted categories; −1 if missing."""
    if table.ndim != 2:
        raise ValueError(f"the table has shape {table.shape}; it must be (items, raters)")
    flat = table.ravel().tolist()
    known = [value for value in flat if value is not None and value == value]
    categories = sorted({*known, *(categories or ())})
    place = {value: code for code, value in enumerate(categories)}
    codes = [place[v] if v is not None and v == v else -1 for v in flat]
    return np.array(codes, dtype=int).reshape(table.shape), categories


def _counts(
    table: np.ndarray, *, least: int = 2, categories: Sequence[Any] | None = None
) -> tuple[np.ndarray, list[Any]]:
    """Count each category by item: (items, categories).

    Only items with at least `least` ratings count.
    """
    codes, categories = _codes(table, categories)
    counts = np.zeros((len(codes), len(categories)))
    for column in codes.T:
        rows = np.flatnonzero(column >= 0)
        counts[rows, column[rows]] += 1
    return counts[counts.sum(axis=1) >= least], categories


def _distances(categories: Sequence[Any], weights: Weights) -> np.ndarray:
    if weights is None:
        return 1.0 - np.eye(len(categories))
    if any(isinstance(category, str) for category in categories):
        raise ValueError(f"{weights} weights need numbers, not labels such as {categories[0]!r}")
    places = np.asarray(categories, dtype=float)
    apart = np.abs(places[:, None] - places[None])
    apart = apart / max(float(apart.max(initial=0.0)), _TINY)
    return apart if weights == "linear" else apart**2


def _over_items(
    statistic: Callable[[np.ndarray], np.ndarray],
    n_items: int,
    n_given: np.ndarray,
    level: float,
    size: int = 1,
    **options: Any,
) -> AgreementEstimate:
    """Compute the statistic over all items, with its interval.

    Arguments are those of `_with_interval`.
    """
    value = float(statistic(np.ones((1, n_items)))[0])
    if not np.isfinite(value):
        text = "all ratings are equal, so agreement is certain"
        return undefined(n_items, int(n_given.sum()), Reason("all_the_same", text))
    return _with_interval(value, statistic, n_items, n_given, level, size=size, **options)


def _with_interval(
    value: float,
    statistic: Callable[[np.ndarray], np.ndarray],
    n_items: int,
    n_given: np.ndarray,
    level: float,
    *,
    size: int = 1,
    centred: bool = False,
    skewed: bool = False,
    units: Sequence[Any] | np.ndarray | None = None,
) -> AgreementEstimate:
    """Return a value with its jackknife interval or the reason for none.

    Args:
        statistic: maps (B, n_items) item weights to (B,) values.
        n_given: frequency of each answer.
        size: number of values per row, to limit memory.
        centred: as in `jackknife_interval`.
        skewed: True if the interval is valid even when few answers differ from the most frequent one.
        units: (n_items,) unit of each row; whole units are left out.
    """
    n_ratings, n_other = int(n_given.sum()), float(n_given.sum() - n_given.max())
    n_each, of_rows = n_ratings / n_items, statistic
    if units is not None:
        unit = np.unique(_objects(units).astype(str), return_inverse=True)[1]
        n_items = int(unit.max()) + 1

        def statistic(times: np.ndarray) -> np.ndarray:
            return of_rows(times[:, unit])

    estimate = AgreementEstimate(value, None, None, n_items, n_ratings)
    if n_items < FEWEST_ITEMS:
        return replace(estimate, reason=few_for_interval(n_items))
    if not skewed and not has_other(n_other / n_ratings, n_items):
        return replace(estimate, reason=few_other(n_other, n_ratings))
    leave_one_out = leave_one_out_values(statistic, n_items, max(1, MOST_NUMBERS // max(size, n_items)))
    ends = jackknife_interval(value, leave_one_out, n_each, level, centred=centred)
    if ends is None:
        return replace(estimate, reason=NO_DISAGREEMENT)
    low, high = ends
    return replace(estimate, low=low, high=high, interval=f"jackknife over {n_items} items")


def undefined(n_items: int, n_ratings: int, reason: Reason) -> AgreementEstimate:
    """Return an agreement with a reason instead of a value."""
    return AgreementEstimate(None, None, None, n_items, n_ratings, reason=reason)


def few_items(n_items: int) -> Reason:
    """Return the reason why agreement needs at least two items."""
    text = f"only {n_items} items with two or more ratings; at least 2 are needed"
    return Reason("few_items", text, n_items=n_items)
