"""Means and differences of bots with intervals that stay right however often one looks, and whenever one stops.

A fixed-sample interval of 90 % contains the truth at one look in 90 % of studies; looked at after every rating, it
leaves it out at some time in far more. The intervals here contain it at all looks together in 90 % of studies: they
are confidence sequences, by the normal mixture of Robbins (1970), Annals of Mathematical Statistics 41, with the
variance estimated (asymptotic confidence sequences: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, 2024, Annals of
Statistics 52, theorem 2.2). After n raters with mean m and variance s², the evidence against a mean mu is

    log E(mu) = n² r² (m − mu)² / (2 s² (1 + n r²)) − ½ log(1 + n r²),

and the interval holds every mu with E(mu) < 1 / alpha. Of two bots, each has such evidence from raters of its own,
and the product of the two is evidence too, whoever was given which bot for whatever reason of the past. So a
difference is left out where the product is at least 1 / alpha for every pair of means with that difference: the
smallest such product has a closed form. That is why the interval also holds under adaptive assignment.

Raters, not ratings, are counted; what one rater says of several bots enters by the cluster-robust covariance. Three
things keep it right with few raters on a bounded scale, as simulations in the tests show: the variance of each mean
gets three imagined raters, each half the scale away from it (a bot that has had only top marks is not certain to get
no other); n / (n − 1) for raters; and of two bots' numbers of raters the smaller one in the factor before the variance.
Where one person rates several bots, the smallest product is no longer exact; the simulations hold it there, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.stats.bootstrap import NO_VALUE, Interval
from evaluation.stats.compare import Comparison, difference_or_reason, holm
from evaluation.stats.zscores import rater_codes

MIXING = 0.2
"""r² of the mixture, which must not depend on the data: intervals are narrowest from about 25 to 100 raters a bot."""
IMAGINED = 3
"""Imagined raters, half the scale away from the mean, in the variance of each mean."""
MOST_MORE = 5000
"""From so many further raters per bot on nobody plans for a difference."""


@dataclass(frozen=True, slots=True)
class Means:
    """Means of bots with what their intervals are made of.

    Attributes:
        labels: the bots, by name.
        means, n_raters: (bots,).
        covariance: (bots, bots) of the means, over raters; the variances hold the imagined raters.
    """

    labels: tuple[str, ...]
    means: np.ndarray
    n_raters: np.ndarray
    covariance: np.ndarray

    def more(self, i: int, j: int, n_more: float) -> tuple[float, float, float]:
        """Return the variance of the difference of two bots, and each one's raters, after `n_more` raters each."""
        n_i, n_j = self.n_raters[i] + n_more, self.n_raters[j] + n_more
        share_i, share_j = self.n_raters[i] / n_i, self.n_raters[j] / n_j
        variance = (
            self.covariance[i, i] * share_i
            + self.covariance[j, j] * share_j
            - 2 * self.covariance[i, j] * np.sqrt(share_i * share_j)
        )
        return float(variance), float(n_i), float(n_j)


def means_of(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
) -> Means:
    """Return every bot's mean with the covariance of the means.

    Args:
        values: (k,) ratings; undefined ones are left out.
        bots: (k,) whom each rates.
        raters: (k,) who rated; None as an entry stands for somebody who rated only this.
        low, high: ends of the scale.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    keep = np.isfinite(array)
    people = np.arange(len(array)) if raters is None else rater_codes(raters)
    labels, column = np.unique(names[keep], return_inverse=True)
    person, who = np.unique(people[keep], return_inverse=True)
    sums, counts = np.zeros((2, len(person), len(labels)))
    np.add.at(sums, (who, column), array[keep])
    np.add.at(counts, (who, column), 1.0)
    number, n = counts.sum(axis=0), (counts > 0).sum(axis=0).astype(float)
    means = sums.sum(axis=0) / number
    apart = (sums - counts * means) / number
    factor = np.sqrt(n / np.maximum(n - 1, 1))
    covariance = (apart.T @ apart) * factor[:, None] * factor[None]
    end = ((high - low) / 2) ** 2
    own = (np.diag(covariance) * n + IMAGINED * end / n) / (n + IMAGINED)
    np.fill_diagonal(covariance, own)
    return Means(tuple(labels.tolist()), means, n, covariance)


def mean_always(
    values: Sequence[float] | np.ndarray,
    raters: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
    level: float = 0.90,
) -> Interval:
    """Return the mean of one bot's ratings with an interval that holds at all looks together.

    Args:
        values, raters, low, high: as `means_of`.
        level: chance that the interval contains the truth at every look.
    """
    array = np.asarray(values, dtype=float)
    found = means_of(array, ["all"] * len(array), raters, low=low, high=high)
    if not found.labels:
        return Interval(None, None, None, 0, NO_VALUE)
    half = float(np.sqrt(found.covariance[0, 0]) * _times(found.n_raters[:1], 1 - level))
    mean = float(found.means[0])
    ends = max(low, mean - half), min(high, mean + half)
    return Interval(mean, *ends, int(np.isfinite(array).sum()))


def half_planned(half: float, n: float, n_planned: float, *, level: float = 0.90) -> float:
    """Return half the width that the interval of a mean would have after another number of raters.

    Args:
        half: half its width now, not cut at the ends of the scale.
        n: raters it has now.
        n_planned: raters it is to have; what they say is taken to spread as it does now.
        level: of both intervals.

    Raises:
        ValueError: without raters.
    """
    if min(n, n_planned) <= 0:
        raise ValueError(f"{n:g} and {n_planned:g} raters; both must be more than 0")
    now, then = (_times(np.array([float(one)]), 1 - level) for one in (n, n_planned))
    return half * then / now * float(np.sqrt(n / n_planned))


def pairwise_always(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    *,
    low: float,
    high: float,
    level: float = 0.95,
) -> list[Comparison]:
    """Compare every pair of bots as `compare.pairwise` does, right at all looks together.

    Returns:
        All pairs, sorted by name: p is an always-valid p-value, corrected by Holm; the interval, not corrected.

    Args:
        values, bots, raters, low, high: as `means_of`.
        level: of the intervals; 1 − level is the chance allowed of any wrong order, at any look.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    keep = np.isfinite(array)
    found = means_of(array, names.tolist(), raters, low=low, high=high)
    place = {label: i for i, label in enumerate(found.labels)}
    pairs = []
    for a, b in combinations(sorted(set(names.tolist())), 2):
        gap, reason = difference_or_reason(array[keep], names[keep], a, b)
        pair = Comparison(a, b, gap, None, None, None, None, ordered=False, reason=reason)
        if reason is None and gap is not None:
            i, j = place[a], place[b]
            variance, n_a, n_b = found.more(i, j, 0)
            n = np.array([n_a, n_b])
            half = float(np.sqrt(variance) * _times(n, 1 - level))
            p = _p_value(gap, variance, n)
            pair = replace(pair, low=gap - half, high=gap + half, p=p)
        pairs.append(pair)
    corrected = holm([pair.p for pair in pairs])
    return [
        replace(pair, p_holm=p, ordered=p is not None and p < 1 - level)
        for pair, p in zip(pairs, corrected, strict=True)
    ]


def more_raters(found: Means, a: str, b: str, *, alpha: float) -> int | None:
    """Return how many further raters each of two bots needs until they are told apart, if nothing else changes.

    Args:
        alpha: of this pair, after a correction for all pairs.

    Returns:
        0 where they are told apart; None where `MOST_MORE` would not be enough, as for two equal means.
    """
    i, j = found.labels.index(a), found.labels.index(b)
    gap = abs(float(found.means[i] - found.means[j]))

    def is_enough(n_more: int) -> bool:
        variance, n_a, n_b = found.more(i, j, n_more)
        return bool(np.sqrt(variance) * _times(np.array([n_a, n_b]), alpha) < gap)

    if not is_enough(MOST_MORE):
        return None
    few, many = -1, MOST_MORE
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many


def _times(n: np.ndarray, alpha: float) -> float:
    """Return how many standard errors wide half the interval is.

    Args:
        n: raters of the one mean or of the two.
    """
    spread = 1 + 1 / (n.min() * MIXING)
    return float(np.sqrt(2 * spread * (np.log(1 / alpha) + _lost(n))))


def _p_value(gap: float, variance: float, n: np.ndarray) -> float:
    spread = 1 + 1 / (n.min() * MIXING)
    return float(min(1.0, np.exp(_lost(n) - gap**2 / (2 * variance * spread))))


def _lost(n: np.ndarray) -> float:
    """Return the evidence that mixing over all sizes of an effect costs."""
    return float(np.log1p(n * MIXING).sum() / 2)
