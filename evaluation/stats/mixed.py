"""A mixed model of ratings: bots fixed, raters random, for studies whose raters rate several bots.

rating = bot + rater + error, raters and errors normal. Some raters are strict and some kind; the model takes that
from the comparison as far as the design allows, and does not count a rater's ratings as independent. The
variances are fitted by restricted maximum likelihood. With one random effect its likelihood is a function of
the raters' share of the variance alone and needs sums per rater only, so the optimum is found exactly, in
one dimension, for any number of ratings. Degrees of freedom as in Pinheiro and Bates (2000), section 2.4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.compare import NO_SPREAD, Comparison, holm
from evaluation.stats.zscores import rater_codes
from evaluation.wording import counted

_TOP = 1 - 1e-7  # of the raters' share


@dataclass(frozen=True, slots=True)
class BotMean:
    """A bot's mean for the average rater.

    Attributes:
        mean, low, high: by the model, with its interval.
        raw_mean: plain mean of the bot's ratings.
        n, n_raters: ratings, and who gave them.
    """

    bot: str
    mean: float
    low: float
    high: float
    raw_mean: float
    n: int
    n_raters: int


@dataclass(frozen=True, slots=True)
class MixedModel:
    """The fit.

    Attributes:
        bots: sorted by name; empty where there is no fit.
        comparisons: every pair, p-values also corrected by Holm.
        f, df1, df2, p: test of no difference between the bots.
        rater_sd, residual_sd: standard deviations, in points of the scale.
        rater_share: of the variance around the bots' means, how much is the raters' (0 … 1).
        share_low, share_high: its profile likelihood interval.
        n, n_raters: used.
        converged: whether the optimum was found; then `reason` is empty.
        reason: why there is no fit.
    """

    bots: tuple[BotMean, ...]
    comparisons: tuple[Comparison, ...]
    f: float | None
    df1: int
    df2: int
    p: float | None
    rater_sd: float | None
    residual_sd: float | None
    rater_share: float | None
    share_low: float | None
    share_high: float | None
    n: int
    n_raters: int
    converged: bool
    reason: Reason | None = None

    @property
    def raters_are_alike(self) -> bool:
        """Whether no variance between raters was found."""
        return self.rater_share is not None and self.rater_share <= 1e-6


def mixed_model(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any],
    *,
    level: float = 0.95,
) -> MixedModel:
    """Estimate the bots' means and differences with raters as a random effect.

    Args:
        values: (k,) ratings; undefined ones are left out.
        bots: (k,) whom each rates.
        raters: (k,) who rated; None: somebody who rated only this.
        level: of all intervals.

    Raises:
        ValueError: lengths that differ.
    """
    array = np.asarray(values, dtype=float)
    if not len(array) == len(bots) == len(raters):
        raise ValueError(
            f"{len(array)} values, {len(bots)} bots and {len(raters)} raters; there must be one each"
        )
    keep = np.isfinite(array)
    y = array[keep]
    labels, bot = np.unique(np.asarray(bots, dtype=object)[keep].astype(str), return_inverse=True)
    _, rater = np.unique(rater_codes(raters)[keep], return_inverse=True)
    n, n_raters, n_bots = len(y), int(rater.max(initial=-1)) + 1, len(labels)

    def nothing(reason: Reason) -> MixedModel:
        empty = (None,) * 5
        return MixedModel((), (), None, 0, 0, None, *empty, n, n_raters, False, reason=reason)

    if n_bots < 2:
        return nothing(few_bots(n_bots))
    if n_raters < 2:
        return nothing(Reason("one_rater_only", "one rater only: nothing can be said about others"))
    if n_raters == n:
        why = "every rater gave one rating: raters and chance cannot be told apart; compare the bots without raters"
        return nothing(Reason("one_rating_each", why))
    likelihood = _Likelihood(y, bot, rater, n_bots, n_raters)
    within = bool(((likelihood.counts > 0).sum(axis=1) > 1).any())
    df = n - n_raters - n_bots + 1 if within else n_raters - n_bots
    if df < 1:
        why = (
            f"{counted(n, 'rating')} by {counted(n_raters, 'rater')}: nothing left to judge "
            f"{counted(n_bots, 'bot')} by"
        )
        return nothing(Reason("nothing_left", why, n_ratings=n, n_raters=n_raters, n_bots=n_bots))
    if likelihood.no_error():
        why = "the ratings do not vary around the bots' and raters' means"
        return nothing(Reason("no_error", why))

    share, low, high = _share(likelihood, level)
    coefficients, covariance, variance = likelihood.solve(share)
    means = _bot_means(
        labels.tolist(), coefficients, covariance, likelihood, n_raters - 1, level, y, bot
    )
    comparisons = wald_comparisons(labels.tolist(), coefficients, covariance, df, level)
    f, p = _test(coefficients, covariance, df)
    ratio = share / (1 - share)
    return MixedModel(
        means,
        comparisons,
        f,
        n_bots - 1,
        df,
        p,
        float(np.sqrt(ratio * variance)),
        float(np.sqrt(variance)),
        share,
        low,
        high,
        n,
        n_raters,
        True,
    )


def few_bots(n_bots: int) -> Reason:
    """Return why fewer than two bots have no model."""
    why = f"ratings of {counted(n_bots, 'bot')}; at least 2 are needed"
    return Reason("few_bots", why, n_bots=n_bots)


class _Likelihood:
    """Restricted likelihood as a function of the raters' share, from sums per rater and bot.

    With θ = rater variance / error variance, a rater with m ratings has V⁻¹ = I − θ/(1 + mθ) · 11ᵀ.
    """

    def __init__(
        self, y: np.ndarray, bot: np.ndarray, rater: np.ndarray, n_bots: int, n_raters: int
    ) -> None:
        self.n, self.n_bots = len(y), n_bots
        self.centre = float(y.mean())
        y = y - self.centre
        self.counts = np.zeros((n_raters, n_bots))
        np.add.at(self.counts, (rater, bot), 1.0)
        self.size = self.counts.sum(axis=1)
        self.sums = np.bincount(rater, weights=y, minlength=n_raters)
        self.by_bot = np.bincount(bot, weights=y, minlength=n_bots)
        self.squares = float(y @ y)

    def _parts(self, share: float) -> tuple[np.ndarray, np.ndarray, float, float]:
        ratio = share / (1 - share)
        c = ratio / (1 + self.size * ratio)
        normal = np.diag(self.counts.sum(axis=0)) - self.counts.T @ (c[:, None] * self.counts)
        right = self.by_bot - self.counts.T @ (c * self.sums)
        solution = np.linalg.solve(normal, right)
        rest = self.squares - float(c @ self.sums**2) - float(solution @ right)
        return normal, solution, max(rest, 0.0), float(np.log1p(self.size * ratio).sum())

    def no_error(self) -> bool:
        """Tell whether bots and raters explain everything, so that no error is left."""
        return self._parts(_TOP)[2] <= 1e-12 * max(self.squares, 1e-300)

    def minus_twice_log(self, share: float) -> float:
        """Return −2 log restricted likelihood up to a constant, the error variance profiled out."""
        normal, _, rest, log_v = self._parts(share)
        return (self.n - self.n_bots) * np.log(rest) + log_v + float(np.linalg.slogdet(normal)[1])

    def solve(self, share: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the bots' means, their covariance, and the error variance."""
        normal, solution, rest, _ = self._parts(share)
        variance = rest / (self.n - self.n_bots)
        return solution + self.centre, variance * np.linalg.inv(normal), variance


def _share(likelihood: _Likelihood, level: float) -> tuple[float, float, float]:
    """Return the raters' share of the variance and its profile likelihood interval."""
    from scipy import optimize, stats

    grid = np.concatenate([[0.0], np.linspace(0.005, 0.99, 60), [0.999, _TOP]])
    values = [likelihood.minus_twice_log(share) for share in grid]
    best = int(np.argmin(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(
        likelihood.minus_twice_log, bounds=around, method="bounded", options={"xatol": 1e-10}
    )
    share, least = float(found.x), float(found.fun)
    if values[best] <= least:
        share, least = float(grid[best]), values[best]
    target = least + float(stats.chi2.ppf(level, 1))

    def above(at: float) -> float:
        return likelihood.minus_twice_log(at) - target

    low = 0.0 if above(0.0) <= 0 else float(optimize.brentq(above, 0.0, share))
    high = 1.0 if above(_TOP) <= 0 else float(optimize.brentq(above, share, _TOP))
    return share, low, high


def _bot_means(
    labels: Sequence[str],
    coefficients: np.ndarray,
    covariance: np.ndarray,
    likelihood: _Likelihood,
    df: int,
    level: float,
    y: np.ndarray,
    bot: np.ndarray,
) -> tuple[BotMean, ...]:
    """Return each bot's mean with its interval.

    Another sample of raters would move all means together, so their degrees of freedom are the raters'.
    """
    from scipy import stats

    half = float(stats.t.ppf(0.5 + level / 2, df)) * np.sqrt(np.diag(covariance))
    n_raters = (likelihood.counts > 0).sum(axis=0)
    return tuple(
        BotMean(
            label,
            float(coefficients[i]),
            float(coefficients[i] - half[i]),
            float(coefficients[i] + half[i]),
            float(y[bot == i].mean()),
            int((bot == i).sum()),
            int(n_raters[i]),
        )
        for i, label in enumerate(labels)
    )


def wald_comparisons(
    labels: Sequence[str], estimates: np.ndarray, covariance: np.ndarray, df: float, level: float
) -> tuple[Comparison, ...]:
    """Test all pairs of estimates by Wald's test, against Student's t with df (or the normal, inf).

    Of two whose difference has no error, as where nobody's answers vary, there is no p-value.
    """
    from scipy import stats

    quantile = float(stats.t.ppf(0.5 + level / 2, df))
    rows = []
    for i, j in combinations(range(len(labels)), 2):
        gap = float(estimates[i] - estimates[j])
        error = float(np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))
        p = float(2 * stats.t.sf(abs(gap) / error, df)) if error > 0 else None
        rows.append((labels[i], labels[j], gap, error, p))
    adjusted = holm([row[-1] for row in rows])
    return tuple(
        Comparison(
            a,
            b,
            gap,
            gap - quantile * error,
            gap + quantile * error,
            p,
            p_holm,
            p_holm is not None and p_holm < 1 - level,
            NO_SPREAD if p is None else None,
        )
        for (a, b, gap, error, p), p_holm in zip(rows, adjusted, strict=True)
    )


def _test(coefficients: np.ndarray, covariance: np.ndarray, df: int) -> tuple[float, float]:
    """Test by F whether all bots' means are the same; return F and its p-value."""
    from scipy import stats

    k = len(coefficients) - 1
    contrast = np.hstack([np.eye(k), -np.ones((k, 1))])
    gaps = contrast @ coefficients
    f = float(gaps @ np.linalg.solve(contrast @ covariance @ contrast.T, gaps)) / k
    return f, float(stats.f.sf(f, k, df))
