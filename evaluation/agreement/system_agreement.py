"""Agreement of a metric with people on the ranking of systems.

The systems of one data set are compared in pairs (`evaluation.stats.systems`). The measures are the correlation of
system means; pairwise accuracy, the share of pairs that the metric orders as people do, excluding human ties (Kocmi et
al. 2021, WMT); and soft pairwise accuracy (Thompson et al. 2024, WMT),

    1 − mean over pairs of |p_people − p_metric|,

where p is one-sided and computed from the same permutations for people and metric. Intervals resample contexts with
systems fixed; resamples and tests use the normal limit of p.

Two metrics are compared by swapping their standardised scores in random cells, as at WMT, and counting how often the
soft pairwise accuracies differ by at least the observed amount.

Ties (Deutsch et al. 2023, "Ties matter", EMNLP): the share of reply pairs that metric and people order or tie alike,
where scores that differ by at most ε are ties of the metric. ε is optimised on the same replies, so the share is
optimistic; use it only to compare metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import plain_interval
from evaluation.stats.constants import MOST_NUMBERS, SCORE_LEVEL
from evaluation.stats.correlation import METHODS, permutations, rowwise, undefined_reason
from evaluation.stats.resampling import FEWEST_ITEMS, few_for_interval, interval_of_draws
from evaluation.stats.systems import (
    N_PERMUTATIONS,
    SystemCells,
    SystemPairs,
    choices_of,
    clear_rounding,
    compute_permutation_p,
    permutation_p,
    weighted_p,
)

N_RESAMPLES = 1000
FEWEST_SYSTEMS = 3
"""Minimum number of systems for a correlation."""
FEWEST_FOR_VERDICT = 5
"""Minimum number of systems for a verdict. With four, all pairs are in the right order by chance in 4 % of cases, too
close to 5 %.
"""
MOST_REPLIES = 1500
"""Maximum number of replies for counting all pairs; otherwise, pairs are sampled."""
NO_PERSON_ORDERS = Reason("people_tie_all", "all systems have the same mean rating")
NO_REPLY_PAIRS = Reason("no_reply_pairs", "no two replies can be compared")


def few_systems(n_systems: int, needed: int = FEWEST_SYSTEMS) -> Reason:
    """Return the reason for too few systems."""
    return Reason("few_systems", f"only {n_systems} systems; {needed} are needed", n=n_systems, needed=needed)


@dataclass(frozen=True, slots=True)
class SystemFigure:
    """Statistic over systems.

    Attributes:
        value: None if undefined.
        low, high: ends of the 95 % interval, if any.
        reason: reason for a missing value or interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        """Return `{"value", "ci95"}`, with nulls and the reason if undefined."""
        ends = plain_interval(self.low, self.high)
        figure_json: dict[str, Any] = {"value": self.value, "ci95": ends}
        return figure_json | ({"reason": self.reason.to_json()} if self.reason is not None else {})


@dataclass(frozen=True, slots=True)
class TieCalibration:
    """Share of reply pairs ordered or tied as people do.

    Attributes:
        value: share at the best threshold; None without pairs.
        epsilon: threshold, optimised on these replies.
        untied: share if only equal scores are ties.
        n_pairs: number of reply pairs.
        n_tied: number of human ties.
        same_context: True if both replies of a pair are to the same context.
    """

    value: float | None
    epsilon: float | None
    untied: float | None
    n_pairs: int
    n_tied: int
    same_context: bool

    def to_json(self) -> dict[str, Any]:
        """Return the share as `acc_eq`, the threshold and the counts."""
        return {
            "acc_eq": self.value,
            "epsilon": self.epsilon,
            "epsilon_0": self.untied,
            "n_pairs": self.n_pairs,
            "n_tied": self.n_tied,
            "same_context": self.same_context,
        } | ({} if self.n_pairs else {"reason": NO_REPLY_PAIRS.to_json()})


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """Agreement of a metric with people on a data set's systems.

    Attributes:
        means: mean human and metric score by system, over its cells.
        n_contexts: number of contexts.
        n_pairs: number of system pairs.
        n_shared: pairs compared on shared contexts.
        n_tied: human ties.
        correlations: correlation of the means by method.
        accuracy: pairwise accuracy.
        p: probability of reaching `accuracy` by chance, by permuting systems; None if undefined.
        soft_accuracy: soft pairwise accuracy.
        ties: tie calibration at reply level.
        left_out: systems with too few contexts.
    """

    means: dict[str, tuple[float, float]]
    n_contexts: int
    n_pairs: int
    n_shared: int
    n_tied: int
    correlations: dict[str, SystemFigure]
    accuracy: SystemFigure
    p: float | None
    soft_accuracy: SystemFigure
    ties: TieCalibration
    left_out: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """`better_than_chance`, `not_shown` or, with few systems, `not_known`."""
        if self.p is None or len(self.means) < FEWEST_FOR_VERDICT:
            return "not_known"
        return "better_than_chance" if self.p <= 1 - SCORE_LEVEL else "not_shown"

    def to_json(self) -> dict[str, Any]:
        """Return all statistics, with reasons for undefined ones."""
        return {
            "n_systems": len(self.means),
            "n_contexts": self.n_contexts,
            "n_pairs": self.n_pairs,
            "n_shared": self.n_shared,
            "n_tied": self.n_tied,
            **{method: correlation.to_json() for method, correlation in self.correlations.items()},
            "pairwise_accuracy": {**self.accuracy.to_json(), "p": self.p},
            "soft_pairwise_accuracy": self.soft_accuracy.to_json(),
            "verdict": self.verdict,
            "ties": self.ties.to_json(),
            "means": {name: list(pair) for name, pair in self.means.items()},
            "left_out": list(self.left_out),
        }


def agreement_of_systems(
    scores: np.ndarray, people: np.ndarray, systems: np.ndarray, contexts: np.ndarray, *, seed: int = 0
) -> SystemAgreement | None:
    """Compare a metric with people on a data set's systems; None for fewer than two.

    Args:
        scores, people: (N,) scores of the replies, NaN if undefined; higher is better.
        systems, contexts: (N,) names; replies without a system are excluded.
    """
    if len(set(systems) - {""}) < 2:
        return None
    cells = SystemCells.from_columns([people, scores], contexts, systems)
    ties = calibrate_ties(scores, people, contexts, seed=seed)
    if len(cells.systems) < 2:
        lacks = SystemFigure(None, reason=few_systems(len(cells.systems), 2))
        n_contexts = cells.values.shape[1]
        return SystemAgreement(
            {}, n_contexts, 0, 0, 0, dict.fromkeys(METHODS, lacks), lacks, None, lacks, ties, cells.left_out
        )
    rng = np.random.default_rng(seed)
    pairs, n_contexts = cells.pairs(), cells.values.shape[1]
    everything = np.ones((1, n_contexts))
    means = cells.means(everything)[:, 0]
    (observed,), (observed_m,) = (weighted_p(cells, pairs, k, everything)[0] for k in (0, 1))
    p_people, p_metric = permutation_p(cells, pairs, rng)
    accuracy, tied = _accuracy(observed[None], observed_m[None])
    weights = rng.multinomial(n_contexts, np.full(n_contexts, 1 / n_contexts), size=N_RESAMPLES).astype(float)
    draws = _draws(cells, pairs, weights)

    def figure(value: float | None, name: str, reason: Reason | None) -> SystemFigure:
        if value is None:
            return SystemFigure(None, reason=reason)
        if n_contexts < FEWEST_ITEMS:
            return SystemFigure(value, reason=few_for_interval(n_contexts))
        ends = _interval(value, draws[name], n_contexts, -1.0 if name in METHODS else 0.0)
        if ends is None:
            return SystemFigure(value, reason=Reason("no_interval", "no interval: most resamples are undefined"))
        return SystemFigure(value, *ends)

    reason = few_systems(len(cells.systems)) if len(cells.systems) < FEWEST_SYSTEMS else undefined_reason(*means)
    known = None if np.isnan(accuracy[0]) else float(accuracy[0])
    return SystemAgreement(
        means={name: (float(h), float(m)) for name, h, m in zip(cells.systems, *means, strict=True)},
        n_contexts=n_contexts,
        n_pairs=len(observed),
        n_shared=int(pairs.is_shared.sum()),
        n_tied=int(tied[0]),
        correlations={
            method: figure(None if reason else float(rowwise(means[0], means[1], method)[0]), method, reason)
            for method in METHODS
        },
        accuracy=figure(known, "accuracy", NO_PERSON_ORDERS),
        p=_chance_p(means) if len(cells.systems) >= FEWEST_SYSTEMS else None,
        soft_accuracy=figure(1 - float(np.abs(p_people - p_metric).mean()), "soft", None),
        ties=ties,
        left_out=cells.left_out,
    )


def _interval(value: float, draws: np.ndarray, n_contexts: int, lowest: float) -> tuple[float, float] | None:
    """Return bias-corrected percentiles of the resamples; None if most are undefined.

    Noise lowers a statistic, and resamples contain it twice: they fall as far below the estimate as the estimate falls
    below its noise-free value. Twice that bias is therefore subtracted.

    Args:
        lowest: lowest possible value; the highest is 1.
    """
    ends = interval_of_draws(draws, n_contexts, SCORE_LEVEL)
    if ends is None:
        return None
    twice = 2 * (float(np.nanmean(draws)) - value)
    low, high = min(ends[0], ends[0] - twice), max(ends[1], ends[1] - twice)
    return max(low, lowest), min(high, 1.0)


def _draws(cells: SystemCells, pairs: SystemPairs, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return each statistic under (B, contexts) weights, (B,); NaN if undefined."""
    people, metric = cells.means(weights)
    step = max(1, MOST_NUMBERS // max(1, len(pairs.first)))
    soft, hard = [], []
    for start in range(0, len(weights), step):
        (people_differences, p_people), (metric_differences, p_metric) = (
            weighted_p(cells, pairs, k, weights[start : start + step]) for k in (0, 1)
        )
        hard.append(_accuracy(people_differences, metric_differences)[0])
        soft.append(1 - np.abs(p_people - p_metric).mean(axis=1))
    draws = {"soft": np.concatenate(soft), "accuracy": np.concatenate(hard)}
    if len(cells.systems) >= FEWEST_SYSTEMS:
        known = np.isfinite(people).all(axis=1)
        for method in METHODS:
            draws[method] = np.full(len(weights), np.nan)
            draws[method][known] = rowwise(people[known], metric[known], method)
    return draws


def _accuracy(people: np.ndarray, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairwise accuracy and number of human ties, (B,) each.

    Differences are (B, P).
    """
    people_signs, metric_signs = np.sign(clear_rounding(people)), np.sign(clear_rounding(metric))
    ordered = (people_signs != 0) & np.isfinite(people_signs)
    n = ordered.sum(axis=1)
    right = (ordered & (people_signs == metric_signs)).sum(axis=1)
    return np.divide(right, n, out=np.full(right.shape, np.nan), where=n > 0), (people_signs == 0).sum(axis=1)


def _chance_p(means: np.ndarray) -> float | None:
    """Return the p-value of a pairwise accuracy; None if people tie all systems.

    The metric's means are permuted among the systems.

    `means` is (2, systems), over all cells.
    """
    first, second = np.triu_indices(means.shape[1], k=1)
    dealt = permutations(means.shape[1], N_PERMUTATIONS, seed=0)
    metric_means = np.vstack([means[1], means[1][dealt]])
    accuracies, _ = _accuracy(
        (means[0][first] - means[0][second])[None], metric_means[:, first] - metric_means[:, second]
    )
    if np.isnan(accuracies[0]):
        return None
    reached = int((accuracies[1:] >= accuracies[0] - 1e-12).sum())
    return compute_permutation_p(reached, len(dealt), is_all=factorial(means.shape[1]) == len(dealt))


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """Soft pairwise accuracies of two metrics on the same cells, with a test.

    Attributes:
        ours, theirs: None if undefined, with the reason.
        p: two-sided.
        n_systems, n_cells: numbers with both metrics.
    """

    ours: float | None
    theirs: float | None
    p: float | None
    n_systems: int
    n_cells: int
    reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        """Return both accuracies, their difference as `gain`, p and the counts."""
        gain = None if self.ours is None or self.theirs is None else self.ours - self.theirs
        comparison_json = {"value": self.ours, "value_against": self.theirs, "gain": gain, "p": self.p}
        comparison_json |= {"n_systems": self.n_systems, "n_cells": self.n_cells}
        return comparison_json | ({"reason": self.reason.to_json()} if self.reason is not None else {})


def compare_on_systems(
    ours: np.ndarray,
    theirs: np.ndarray,
    people: np.ndarray,
    systems: np.ndarray,
    contexts: np.ndarray,
    *,
    seed: int = 0,
) -> SystemComparison:
    """Compare two metrics' soft pairwise accuracies on one data set.

    Scores are standardised and swapped in random cells. All swaps are used if there are at most `N_PERMUTATIONS`.

    Args:
        ours, theirs, people: (N,) NaN if undefined, higher is better.
        systems, contexts: (N,) names.
    """
    cells = SystemCells.from_columns([people, ours, theirs], contexts, systems)
    n_systems, has_cell = len(cells.systems), cells.presence.astype(bool)
    n_cells = int(has_cell.sum())
    if n_systems < FEWEST_SYSTEMS:
        return SystemComparison(None, None, None, n_systems, n_cells, few_systems(n_systems))
    reasons = [undefined_reason(cells.values[0][has_cell], cells.values[k][has_cell]) for k in (1, 2)]
    if any(reasons):
        return SystemComparison(None, None, None, n_systems, n_cells, next(filter(None, reasons)))
    values = cells.filled / np.nanstd(cells.values, axis=(1, 2), keepdims=True)
    pairs = cells.pairs()

    def p_of(cell_values: np.ndarray) -> np.ndarray:
        """Return (B, P) p-values from (B, contexts, systems) values, 0 for missing cells."""
        d = pairs.differences(cell_values) if pairs.is_shared.any() else np.zeros((1, 1, len(pairs.first)))
        n, n_both = cells.presence.sum(axis=0, keepdims=True), pairs.shared.sum(axis=0, keepdims=True)
        return pairs.compared(
            n, cell_values.sum(axis=1), (cell_values**2).sum(axis=1), n_both, d.sum(axis=1), (d**2).sum(axis=1)
        )[1]

    p_people = p_of(values[:1])

    def soft(cell_values: np.ndarray) -> np.ndarray:
        return np.asarray(1 - np.abs(p_of(cell_values) - p_people).mean(axis=1))

    (our_accuracy,), (their_accuracy,) = soft(values[1:2]), soft(values[2:])
    swaps = choices_of(n_cells, np.random.default_rng(seed)).astype(bool)
    step = max(1, MOST_NUMBERS // (values[0].size + pairs.shared.size))
    reached = 0
    for start in range(0, len(swaps), step):
        swap = np.zeros((len(swaps[start : start + step]), *has_cell.shape), dtype=bool)
        swap[:, has_cell] = swaps[start : start + step]
        differences = soft(np.where(swap, values[2], values[1])) - soft(np.where(swap, values[1], values[2]))
        reached += int((np.abs(differences) >= abs(our_accuracy - their_accuracy) - 1e-9).sum())
    p = compute_permutation_p(reached, len(swaps), is_all=2**n_cells == len(swaps))
    return SystemComparison(float(our_accuracy), float(their_accuracy), p, n_systems, n_cells)


def calibrate_ties(scores: np.ndarray, people: np.ndarray, contexts: np.ndarray, *, seed: int = 0) -> TieCalibration:
    """Optimise a metric's tie threshold for agreement with people on reply pairs.

    Pairs are within contexts if at least half of the replies share theirs, otherwise all pairs.

    Args:
        scores, people: (N,) NaN if undefined, higher is better.
        contexts: (N,) names.
    """
    known = np.isfinite(scores) & np.isfinite(people)
    x, y = scores[known], people[known]
    _, group, size = np.unique(contexts[known].astype(str), return_inverse=True, return_counts=True)
    is_same = bool(2 * size[size > 1].sum() >= len(x) > 0)
    if is_same:
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(size)
        parts = [order[end - n : end] for end, n in zip(ends, size, strict=True) if n > 1]
    else:
        every = np.arange(len(x))
        if len(x) > MOST_REPLIES:
            every = np.random.default_rng(seed).choice(len(x), MOST_REPLIES, replace=False)
        parts = [every]
    sides = [np.triu_indices(len(part), k=1) for part in parts]
    first, second = (np.concatenate([part[side[k]] for part, side in zip(parts, sides, strict=True)]) for k in (0, 1))
    if not len(first):
        return TieCalibration(None, None, None, 0, 0, is_same)
    differences, theirs = x[first] - x[second], np.sign(clear_rounding(y[first] - y[second]))
    order = np.argsort(np.abs(differences), kind="stable")
    size_of, theirs = np.abs(differences)[order], theirs[order]
    ordered = (theirs == np.sign(differences[order])) & (theirs != 0)
    # At index k, pairs up to k are ties of the metric and the others are ordered.
    right = np.concatenate([[0], np.cumsum(theirs == 0)]) + ordered.sum() - np.concatenate([[0], np.cumsum(ordered)])
    n_equal = int((size_of == 0).sum())
    last = np.flatnonzero(np.append(size_of[1:] > size_of[:-1], True)) + 1
    places = np.unique(np.concatenate([[n_equal], last[last >= n_equal]]))
    best = int(places[np.argmax(right[places])])
    return TieCalibration(
        value=float(right[best] / len(first)),
        epsilon=float(size_of[best - 1]) if best else 0.0,
        untied=float(right[n_equal] / len(first)),
        n_pairs=len(first),
        n_tied=int((theirs == 0).sum()),
        same_context=is_same,
    )
