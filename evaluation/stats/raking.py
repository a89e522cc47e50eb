"""Raking: weights that give raters the shares of a population, and errors of weighted means.

Iterative proportional fitting (Deming and Stephan 1940, Annals of Mathematical Statistics 11): for one question after
the other, every group's weights are multiplied so that the group has its share of the total, until nothing changes.
Weights above a limit are cut to it in every round, and the others make up for them as far as they can.

A raked mean is estimated as precisely as the regression estimator with the same groups (Deville, Särndal and Sautory
1993, Journal of the American Statistical Association 88). With u_i the change of the mean per unit of rater i's weight
w_i, x_i the groups of the rater minus their shares t, and B the coefficients of the weighted regression of u on x,

    v = n / (n − 1 − rank x) Σ (w_i (u_i − x_i B))²

This is Taylor's linearisation as in the R package survey, and it contains the raking: the shares are fixed and not
estimated. Where a share depends on the share f of raters without an answer, which is estimated, B · dt/df (a_i − f) is
added inside the square, with a_i = 1 for those raters. Tests compare v with a bootstrap that rakes every resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.stats.conditions import BotFit

MOST_WEIGHT = 5.0
"""Maximum weight of a rater; the mean is 1. Larger ones let a few raters decide the result."""
MOST_ROUNDS = 1000
TOLERANCE = 1e-10
LARGEST_GAP = 1e-6
"""Difference of a share from its target that counts as rounding error."""


@dataclass(frozen=True, eq=False)
class RakingMargin:
    """Raters by their group for one question, with the shares of the groups.

    Attributes:
        group: (n,) number of each rater's group; every group has raters.
        shares: (L,) share that each group should have; they sum to 1.
        unanswered: (n,) True for raters without an answer.
        slopes: (L,) change of the shares with the share of raters without an answer.
    """

    group: np.ndarray
    shares: np.ndarray
    unanswered: np.ndarray
    slopes: np.ndarray


@dataclass(frozen=True, eq=False)
class RakedWeights:
    """Weights of the raters.

    Attributes:
        weights: (n,) with mean 1, apart from cut weights.
        n_trimmed: number of raters whose weight was cut to the limit.
        is_converged: False if no weights give all groups their shares; they then have no meaning.
        gap: largest difference between a group's weighted share and the share it should have.
    """

    weights: np.ndarray
    n_trimmed: int
    is_converged: bool
    gap: float

    @property
    def design_effect(self) -> float:
        """Kish's design effect of all raters."""
        return design_effect(self.weights)


def design_effect(weights: np.ndarray) -> float:
    """Return Kish's design effect, n Σ w² / (Σ w)²: the loss of precision by unequal weights."""
    return float(len(weights) * (weights**2).sum() / weights.sum() ** 2)


def rake(margins: Sequence[RakingMargin], *, most: float = MOST_WEIGHT) -> RakedWeights:
    """Return weights with which every group has its share.

    Args:
        margins: one for each question, of the same raters.
        most: maximum weight; infinite for no limit.

    Raises:
        ValueError: for no margin, or a group without raters or with a share that is not above 0.
    """
    if not margins:
        raise ValueError("there is no question to weight by; at least one is needed")
    for number, margin in enumerate(margins):
        n = np.bincount(margin.group, minlength=len(margin.shares))
        if (n == 0).any() or not (margin.shares > 0).all():
            raise ValueError(f"question {number} has a group without raters or without a share; leave the group out")
    weights, is_converged = np.ones(len(margins[0].group)), False
    for _round in range(MOST_ROUNDS):
        before = weights
        for margin in margins:
            totals = np.bincount(margin.group, weights, len(margin.shares))
            weights = weights * (margin.shares * weights.sum() / totals)[margin.group]
        weights = np.minimum(weights / weights.mean(), most)
        is_converged = bool(np.abs(weights - before).max() <= TOLERANCE)
        if is_converged:
            break
    gaps = [np.bincount(margin.group, weights) / weights.sum() - margin.shares for margin in margins]
    n_trimmed, gap = int((weights >= most * (1 - 1e-9)).sum()), float(max(np.abs(gap).max() for gap in gaps))
    # Contradictory shares give the same weights after every round, although only the last question has its shares.
    is_converged = is_converged and (n_trimmed > 0 or gap < LARGEST_GAP)
    return RakedWeights(weights, n_trimmed, is_converged, gap)


@dataclass(frozen=True, eq=False)
class WeightedMeans:
    """Bots' means for the average rater of the population.

    Attributes:
        means: (B,) the means.
        parts: (n, B) contribution of each rater to their errors.
        n_lost: degrees of freedom that the groups cost.
    """

    means: np.ndarray
    parts: np.ndarray
    n_lost: int

    def spread(self, toward: np.ndarray) -> tuple[float, float]:
        """Return the variance of a sum of means, and its degrees of freedom.

        Args:
            toward: (B,) factors of the means.
        """
        from evaluation.stats.resampling import freedom_of

        parts, n = self.parts @ toward, len(self.parts)
        variance = n / (n - 1 - self.n_lost) * float((parts**2).sum())
        return variance, min(freedom_of(parts), float(n - 1 - self.n_lost)) if variance > 0 else 1.0


def weighted_means(
    fit: BotFit, values: np.ndarray, raked: RakedWeights, margins: Sequence[RakingMargin]
) -> WeightedMeans:
    """Return the means of a fit with weighted raters.

    With equal weights these are the means of the fit: generalised least squares with its share of raters' variance.

    Args:
        fit: fit of the same ratings.
        values: (k,) its ratings.
        raked, margins: of the raters, by their number in the fit.

    Raises:
        ValueError: if there are too few raters for the groups.
    """
    cells, rater, counts, weights = fit.fit.bot, fit.fit.rater, fit.fit.counts, raked.weights
    groups = [np.eye(len(margin.shares))[margin.group] - margin.shares for margin in margins]
    x = np.hstack(groups)
    n_lost = int(np.linalg.matrix_rank(x))
    if len(x) < n_lost + 5:
        raise ValueError(f"{len(x)} raters are too few for weights by {n_lost + len(margins)} groups")
    sums = np.zeros_like(counts)
    np.add.at(sums, (rater, cells), values)
    ratio = fit.fit.share / (1 - fit.fit.share)
    c = (ratio / (1 + counts.sum(axis=1) * ratio))[:, None]
    scaled = weights[:, None] * counts
    normal = np.linalg.inv(np.diag(scaled.sum(axis=0)) - counts.T @ (c * scaled))
    means = normal @ (weights @ (sums - c * counts * sums.sum(axis=1, keepdims=True)))
    apart = sums - counts * means
    influence = (apart - c * counts * apart.sum(axis=1, keepdims=True)) @ normal @ fit.weights.T
    coefficients = np.linalg.pinv(x.T @ (weights[:, None] * x), hermitian=True) @ (x.T @ (weights[:, None] * influence))
    parts = weights[:, None] * (influence - x @ coefficients)
    slopes = np.split(coefficients, np.cumsum([len(margin.shares) for margin in margins])[:-1])
    for margin, of_groups in zip(margins, slopes, strict=True):
        absent = margin.unanswered - margin.unanswered.mean()
        parts += absent[:, None] * (margin.slopes @ of_groups)
    return WeightedMeans(fit.weights @ means, parts, n_lost)
