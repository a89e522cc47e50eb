"""Anytime-valid intervals for means and differences of bots.

A fixed-sample 90 % interval contains the true value in 90 % of studies if it is computed once; if it is computed after
every rating, it misses the value at some point in far more than 10 %. The intervals here contain it at all looks
simultaneously in 90 % of studies: they are confidence sequences, by the normal mixture of Robbins (1970), Annals of
Mathematical Statistics 41, with the variance estimated (asymptotic confidence sequences: Waudby-Smith, Arbour, Sinha,
Kennedy & Ramdas, 2024, Annals of Statistics 52, theorem 2.2). After n raters with mean m and variance s², the evidence
against a mean mu is

    log E(mu) = n² r² (m − mu)² / (2 s² (1 + n r²)) − ½ log(1 + n r²),

and the interval contains every mu with E(mu) < 1 / alpha. Two bots with separate raters each have such evidence, and
the product of both is also valid evidence, even if past data determined the assignment of raters to bots. A difference
is excluded if the product is at least 1 / alpha for every pair of means with that difference; the smallest such product
has a closed form. The interval is therefore valid under adaptive assignment.

Means and differences are the same as in all other comparisons: generalised least squares with raters as a random effect
(`evaluation.stats.gls`); without raters who rate several times these are the plain means. The sample size is the number
of raters, not ratings; a rater's ratings of several bots enter through the cluster-robust covariance of the means.
Three corrections keep the coverage with few raters on a bounded scale, as simulations in the tests show: the variance
of each mean includes three pseudo-raters, each half the scale away from it (a bot with only top ratings can still get
lower ones); the factor n / (n − 1) for raters; and the smaller of two bots' numbers of raters in the factor before the
variance. If one person rates several bots, the smallest product is no longer exact; simulations cover this case as
well.

Where several people rate the same things (replies to one context), ratings are also correlated within things. The
variance is then the largest of three: over raters, over things, and over both (Cameron, Gelbach & Miller, 2011, Journal
of Business & Economic Statistics 29), and the sample size is the smaller of the numbers of raters and things, because
more people cannot compensate for few things. Two bots that answered the same contexts are compared within them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.comparisons import (
    ONE_JUDGEMENT,
    Comparison,
    correct_comparisons,
    difference_or_reason,
    iterate_pair_scores,
)
from evaluation.stats.conditions import conditions_or_none, fit_bots
from evaluation.stats.gls import label_codes
from evaluation.stats.means import NO_VALUE, Interval
from evaluation.stats.zscores import rater_codes

MIXING = 0.2
"""r² of the mixture, which must not depend on the data; intervals are narrowest at about 25 to 100 raters per bot."""
IMAGINED = 3
"""Number of pseudo-raters, half the scale away from the mean, added to the variance of each mean."""
MOST_MORE = 5000
"""Maximum number of further raters per bot in a plan."""

Unit = Literal["raters", "things"]
"""Unit of counting: raters, or the rated objects if there are fewer."""
RATERS: Unit = "raters"
THINGS: Unit = "things"


@dataclass(frozen=True, slots=True)
class Preference:
    """Preference between two bots.

    Attributes:
        pair: a minus b: share of judgements won minus share lost.
        unit: unit of `more`.
        more: further units needed to detect the smallest difference of interest; None if they already differ or no
            number is enough.
    """

    pair: Comparison
    unit: Unit
    more: int | None


@dataclass(frozen=True, slots=True)
class SequentialMeans:
    """Means of bots, with everything needed for their intervals.

    Attributes:
        labels: names of the bots.
        means: (bots,) means for the average rater; for a single bot the plain mean.
        n_units: (bots,) number of raters, or of things if there are fewer.
        covariances: (groupings, bots, bots) covariances of the means, clustered by raters and, if several people rate
            the same things, by things and by both; the variances include the pseudo-raters.
        unit: unit of `n_units`, for the bot with the fewest.
        rater_share: share of the variance around the bot means that is due to raters (0 … 1).
        imagined: squared distance of an imagined rater from the mean.
    """

    labels: tuple[str, ...]
    means: np.ndarray
    n_units: np.ndarray
    covariances: np.ndarray
    unit: Unit = RATERS
    rater_share: float = 0.0
    imagined: float = 0.0

    def unit_covariance(self) -> np.ndarray:
        """(bots, bots) covariance of the means over raters, times the raters; without the imagined raters.

        A bot whose ratings do not vary keeps the imagined ones: its next ratings may differ.
        """
        root = np.sqrt(self.n_units)
        unit = self.covariances[0] * root[:, None] * root
        with_imagined = np.diag(unit)
        observed = (with_imagined * (self.n_units + IMAGINED) - IMAGINED * self.imagined) / self.n_units
        np.fill_diagonal(unit, np.where(observed > 1e-9 * self.imagined, observed, with_imagined))
        return np.asarray(unit)

    def project_difference(self, i: int, j: int, n_more: float) -> tuple[float, float, float]:
        """Return the variance of a difference of two bots, and their units.

        After `n_more` units each.
        """
        n_i, n_j = self.n_units[i] + n_more, self.n_units[j] + n_more
        share_i, share_j = self.n_units[i] / n_i, self.n_units[j] / n_j
        variances = (
            self.covariances[:, i, i] * share_i
            + self.covariances[:, j, j] * share_j
            - 2 * self.covariances[:, i, j] * np.sqrt(share_i * share_j)
        )
        return float(variances.max()), float(n_i), float(n_j)

    def project_mean(self, i: int, n_more: float) -> tuple[float, float]:
        """Return the variance and units of a mean after `n_more` units."""
        n = self.n_units[i] + n_more
        return float(self.covariances[:, i, i].max() * self.n_units[i] / n), float(n)


def means_of(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
    conditions: Sequence[Any] | np.ndarray | None = None,
) -> SequentialMeans:
    """Return the mean of every bot with the covariance of the means.

    Args:
        values: (k,) ratings; undefined ones are excluded.
        bots: (k,) bot of each rating.
        raters: (k,) rater of each; None stands for a rater with this rating only.
        things: (k,) rated object, if several people rate the same one; None if all objects differ.
        low, high: ends of the scale.
        conditions: (k,) as in `comparisons.pairwise`.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    keep = np.isfinite(array)
    people = np.arange(len(array)) if raters is None else rater_codes(raters)
    labels = np.unique(names[keep])
    if not len(labels):
        empty = np.zeros(0)
        return SequentialMeans((), empty, empty, np.zeros((1, 0, 0)))
    within = conditions_or_none(conditions)
    condition = None if within is None else within[keep]
    fit = fit_bots(array[keep], label_codes(names[keep]), label_codes(people[keep]), condition)
    rater = fit.fit.rater
    covariance, n = fit.clustered(rater)
    groupings, unit = [(covariance, n)], RATERS
    if things is not None:
        thing = label_codes(np.asarray(things, dtype=object).astype(str)[keep])
        of_things, n_things = fit.clustered(thing)
        rater_thing = label_codes(rater.astype(np.int64) * (int(thing.max()) + 1) + thing)
        crossed = covariance + of_things - fit.clustered(rater_thing)[0]
        unit = THINGS if n_things.min() < n.min() else RATERS
        n_both = np.minimum(n, n_things)
        groupings += [(of_things, n_things), (crossed, n_both)]
        n = n_both
    end = ((high - low) / 2) ** 2
    for matrix, number in groupings:
        variances = np.maximum(np.diag(matrix), 0)
        np.fill_diagonal(matrix, (variances * number + IMAGINED * end / number) / (number + IMAGINED))
    covariances = np.stack([matrix for matrix, _number in groupings])
    return SequentialMeans(tuple(labels.tolist()), fit.means, n, covariances, unit, fit.fit.share, end)


def mean_always(
    values: Sequence[float] | np.ndarray,
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
    level: float = 0.90,
    conditions: Sequence[Any] | np.ndarray | None = None,
) -> Interval:
    """Compute the mean of one bot's ratings with an anytime-valid interval.

    Args:
        values, raters, things, low, high, conditions: as in `means_of`.
        level: probability that the interval contains the truth at every look.
    """
    array = np.asarray(values, dtype=float)
    means = means_of(array, ["all"] * len(array), raters, things, low=low, high=high, conditions=conditions)
    if not means.labels:
        return Interval(None, None, None, 0, NO_VALUE)
    variance, _n = means.project_mean(0, 0)
    half = float(np.sqrt(variance) * _get_half_width(means.n_units[:1], 1 - level))
    mean = float(means.means[0])
    return Interval(mean, max(low, mean - half), min(high, mean + half), int(np.isfinite(array).sum()))


def half_planned(half: float, n: float, n_planned: float, *, level: float = 0.90) -> float:
    """Return the half width of a mean's interval with other raters.

    Args:
        half: its current half width, not clipped to the scale.
        n: current number of raters.
        n_planned: planned number of raters; their ratings are assumed to have the same spread as those so far.
        level: confidence level of both intervals.
    """
    now, then = (_get_half_width(np.array([float(count)]), 1 - level) for count in (n, n_planned))
    return half * then / now * float(np.sqrt(n / n_planned))


def pairwise_always(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
    level: float = 0.95,
    conditions: Sequence[Any] | None = None,
) -> list[Comparison]:
    """Compare every pair of bots like `comparisons.pairwise`, but anytime-valid.

    Returns:
        All pairs, sorted by name: p is an always-valid p-value, corrected by Holm; the interval is not corrected.

    Args:
        values, bots, raters, things, low, high, conditions: as in `means_of`.
        level: confidence level of the intervals; 1 − level is the accepted probability of any wrong order, at any look.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    keep = np.isfinite(array)
    means = means_of(array, names.tolist(), raters, things, low=low, high=high, conditions=conditions)
    place = {label: i for i, label in enumerate(means.labels)}
    pairs = []
    for a, b in combinations(sorted(set(names.tolist())), 2):
        gap, reason = difference_or_reason(array[keep], names[keep], a, b)
        if a in place and b in place:
            gap = float(means.means[place[a]] - means.means[place[b]])
        pair = Comparison(a, b, gap, None, None, None, None, ordered=False, reason=reason)
        if reason is None and gap is not None:
            i, j = place[a], place[b]
            variance, n_a, n_b = means.project_difference(i, j, 0)
            n = np.array([n_a, n_b])
            half = float(np.sqrt(variance) * _get_half_width(n, 1 - level))
            p = _p_value(gap, variance, n)
            pair = replace(pair, low=gap - half, high=gap + half, p=p)
        pairs.append(pair)
    return correct_comparisons(pairs, level)


def preferences_always(
    scores: Sequence[float] | np.ndarray,
    first: Sequence[str],
    second: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    smallest: float,
    level: float = 0.95,
) -> list[Preference]:
    """Return the preferred bot of every compared pair, anytime-valid.

    The evidence on each pair is that of a single mean, of its scores 1, 0 and -1, which no other pair shares. It is
    therefore valid for any assignment of pairs that depends only on the past.

    Returns:
        Pairs sorted by name; p is corrected by Holm as in `pairwise_always`.

    Args:
        scores, first, second: as in `iterate_pair_scores`.
        raters, things: as in `means_of`; a thing is the object of a comparison: a context, or two conversations.
        smallest: smallest difference of interest, between shares of judgements.
        level: confidence level of the intervals; 1 − level is the accepted probability of any wrong order, at any look.
    """
    pairs, means = [], []
    for a, b, pair_scores, people, thing_codes in iterate_pair_scores(scores, first, second, raters, things):
        of_pair, of_things = [a] * len(pair_scores), None if thing_codes is None else thing_codes.tolist()
        estimate = means_of(pair_scores, of_pair, people.tolist(), of_things, low=-1, high=1)
        means.append(estimate)
        if len(pair_scores) < 2:
            reason = ONE_JUDGEMENT if len(pair_scores) else NO_VALUE
            pairs.append(_make_undefined(a, b, float(pair_scores[0]) if len(pair_scores) else None, reason))
            continue
        variance, n = estimate.project_mean(0, 0)
        gap, half = (float(estimate.means[0]), float(np.sqrt(variance) * _get_half_width(np.array([n]), 1 - level)))
        p = _p_value(gap, variance, np.array([n]))
        pair = Comparison(a, b, gap, max(-1.0, gap - half), min(1.0, gap + half), p, None, ordered=False)
        pairs.append(pair)
    n_tested = sum(pair.p is not None for pair in pairs)
    return [
        Preference(
            pair,
            estimate.unit,
            None if pair.p is None or pair.ordered else _count_units_needed(estimate, smallest, (1 - level) / n_tested),
        )
        for pair, estimate in zip(correct_comparisons(pairs, level), means, strict=True)
    ]


def pair_score_means(
    scores: Sequence[float] | np.ndarray,
    first: Sequence[str],
    second: Sequence[str],
    raters: Sequence[Any],
    things: Sequence[Any],
) -> tuple[SequentialMeans, int]:
    """Return the mean score of every directly compared pair, named by `pair_label`, and the number of raters.

    Pairs are taken as independent. Things are ignored if each was compared once.

    Args:
        scores, first, second, raters, things: as in `preferences_always`.
    """
    is_shared = len(set(things)) < len(things)
    estimates = {
        pair_label(a, b): means_of(pair_scores, [""] * len(pair_scores), people.tolist(), codes, low=-1, high=1)
        for a, b, pair_scores, people, thing_codes in iterate_pair_scores(scores, first, second, raters, things)
        if len(pair_scores) > 1
        for codes in [thing_codes.tolist() if is_shared and thing_codes is not None else None]
    }
    columns = [
        (estimate.means[0], estimate.n_units[0], estimate.covariances[:, 0, 0]) for estimate in estimates.values()
    ]
    means, n_units, variances = (
        (np.array(column) for column in zip(*columns, strict=True)) if columns else [np.zeros(0)] * 3
    )
    covariances = np.stack([np.diag(row) for row in variances.T]) if columns else np.zeros((1, 0, 0))
    return SequentialMeans(tuple(estimates), means, n_units, covariances, imagined=1.0), len(set(rater_codes(raters)))


def pair_label(a: str, b: str) -> str:
    """Return the label of the mean score of a directly compared pair."""
    return f"{a}\n{b}"


def _make_undefined(a: str, b: str, gap: float | None, reason: Reason) -> Comparison:
    return Comparison(a, b, gap, None, None, None, None, ordered=False, reason=reason)


def _count_units_needed(means: SequentialMeans, difference: float, alpha: float) -> int | None:
    """Return the further units until a pair's mean excludes 0.

    All else equal.
    """

    def is_enough(n_more: int) -> bool:
        variance, n = means.project_mean(0, n_more)
        return bool(np.sqrt(variance) * _get_half_width(np.array([n]), alpha) < difference)

    return _find_fewest(is_enough)


def count_further_raters(means: SequentialMeans, a: str, b: str, *, difference: float, alpha: float) -> int | None:
    """Return the further units of each bot needed to detect a difference.

    All else equal.

    Args:
        means: its `unit` names the unit.
        difference: smallest difference of interest, above 0; the observed one is no basis for planning.
        alpha: level of this pair, after a correction for all pairs.

    Returns:
        0 if there are enough; None if even `MOST_MORE` would not suffice.
    """
    i, j = means.labels.index(a), means.labels.index(b)

    def is_enough(n_more: int) -> bool:
        variance, n_a, n_b = means.project_difference(i, j, n_more)
        return bool(np.sqrt(variance) * _get_half_width(np.array([n_a, n_b]), alpha) < difference)

    return _find_fewest(is_enough)


def _find_fewest(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest sufficient number; None if `MOST_MORE` is not enough."""
    if not is_enough(MOST_MORE):
        return None
    few, many = -1, MOST_MORE
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many


def _get_half_width(n: np.ndarray, alpha: float) -> float:
    """Return the half width of the interval in standard errors.

    Args:
        n: number of raters of the one mean or of the two.
    """
    spread = 1 + 1 / (n.min() * MIXING)
    return float(np.sqrt(2 * spread * (np.log(1 / alpha) + _get_mixing_cost(n))))


def _p_value(gap: float, variance: float, n: np.ndarray) -> float:
    spread = 1 + 1 / (n.min() * MIXING)
    return float(min(1.0, np.exp(_get_mixing_cost(n) - gap**2 / (2 * variance * spread))))


def _get_mixing_cost(n: np.ndarray) -> float:
    """Return the evidence lost by mixing over all sizes of an effect."""
    return float(np.log1p(n * MIXING).sum() / 2)
