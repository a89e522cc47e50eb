"""Mixed model of ratings with fixed bots and random raters.

rating = bot + rater + error, raters and errors normal. Raters differ in severity; the model removes this from
comparisons as far as the design allows, and accounts for the correlation of a rater's ratings. The variances are fitted
by restricted maximum likelihood. With one random effect, the likelihood depends only on the raters' share of the
variance and on sums per rater, so a one-dimensional search finds the exact optimum for any number of ratings. Degrees
of freedom of the test as in Pinheiro and Bates (2000), section 2.4.2.

The model's own errors assume equal variance for all bots; if this is wrong, 90 % intervals of the most variable bot
cover 75 to 85 % in simulated studies. Means therefore use the rater-clustered errors and degrees of freedom of `gls`,
and on a bounded scale the score interval of `means`.

The joint test of several differences, for few raters who rate several bots, is Wald's test as Hotelling's T². With q
differences d = C m of the bots' means and their covariance V = C Cov(m) Cᵀ, clustered by rater (`gls`), Q = dᵀ V⁻¹ d. V
is estimated, so Q is not chi-squared: if V behaves like a Wishart matrix with eta degrees of freedom,

    F = (eta − q + 1) / (eta q) · Q

has the F distribution with q and eta − q + 1 degrees of freedom (Pustejovsky and Tipton 2018, Journal of Business &
Economic Statistics 36). Their eta needs the variance of every entry of V. Here it is the harmonic mean of
Satterthwaite's degrees of freedom of the q uncorrelated differences along the eigenvectors of V, so that q = 1 gives
the t-test of `gls`, and complete designs with one rating each give Hotelling's T². With few raters and unequal numbers
of ratings the test is conservative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import pluralise
from evaluation.stats.comparisons import NO_SPREAD, Comparison, holm
from evaluation.stats.gls import MOST_SHARE, Likelihood, RaterGls, left_open, rater_share
from evaluation.stats.means import ALL_ALIKE, ONE_GROUP, MeanSpread, interval_ends
from evaluation.stats.zscores import rater_codes


@dataclass(frozen=True, slots=True)
class ModelBotMean:
    """A bot's mean for the average rater.

    Attributes:
        mean, low, high: model mean with its interval; None if there is none.
        raw_mean: plain mean of the bot's ratings.
        n, n_raters: number of ratings and of raters.
        reason: reason for a missing interval.
    """

    bot: str
    mean: float
    low: float | None
    high: float | None
    raw_mean: float
    n: int
    n_raters: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class MixedModel:
    """The fit.

    Attributes:
        bots: sorted by name; empty without a fit.
        f, df1, df2, p: test of the hypothesis that bots do not differ.
        rater_sd, residual_sd: standard deviations, in points of the scale.
        rater_share: share of the variance around the bot means that is due to raters (0 … 1).
        share_low, share_high: interval of `rater_share`, exact for normal ratings.
        n, n_raters: number of ratings and raters used.
        converged: True if the optimum was found; `reason` is then empty.
        reason: reason for a missing fit.
    """

    bots: tuple[ModelBotMean, ...]
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
        """True if the estimated variance between raters is 0."""
        return self.rater_share is not None and self.rater_share <= 1e-6


def mixed_model(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any],
    *,
    level: float = 0.95,
    scale: tuple[float, float] | None = None,
) -> MixedModel:
    """Estimate the bots' means with raters as a random effect.

    Args:
        values: (k,) ratings; undefined ones are excluded.
        bots: (k,) bot of each rating.
        raters: (k,) rater of each; None for a rater with this rating only.
        level: confidence level of all intervals.
        scale: limits of the ratings, if there are any.

    Raises:
        ValueError: if lengths differ.
    """
    array = np.asarray(values, dtype=float)
    if not len(array) == len(bots) == len(raters):
        raise ValueError(f"{len(array)} values, {len(bots)} bots and {len(raters)} raters; there must be one each")
    keep = np.isfinite(array)
    y = array[keep]
    labels, bot = np.unique(np.asarray(bots, dtype=object)[keep].astype(str), return_inverse=True)
    _, rater = np.unique(rater_codes(raters)[keep], return_inverse=True)
    n, n_raters, n_bots = len(y), int(rater.max(initial=-1)) + 1, len(labels)

    def nothing(reason: Reason) -> MixedModel:
        empty = (None,) * 5
        return MixedModel((), None, 0, 0, None, *empty, n, n_raters, False, reason=reason)

    if n_bots < 2:
        return nothing(few_bots(n_bots))
    if n_raters < 2:
        return nothing(Reason("one_rater_only", "only one rater, so results cannot be generalised to others"))
    if n_raters == n:
        text = (
            "every rater gave one rating: rater effects and chance cannot be separated; compare the bots without raters"
        )
        return nothing(Reason("one_rating_each", text))
    likelihood = Likelihood(y, bot, rater, n_bots, n_raters)
    within = bool(((likelihood.counts > 0).sum(axis=1) > 1).any())
    df = n - n_raters - n_bots + 1 if within else n_raters - n_bots
    if df < 1:
        counts = f"{pluralise(n, 'rating')} by {pluralise(n_raters, 'rater')}"
        text = f"{counts} are too few to compare {pluralise(n_bots, 'bot')}"
        return nothing(Reason("nothing_left", text, n_ratings=n, n_raters=n_raters, n_bots=n_bots))
    if likelihood.no_error():
        text = "the ratings do not vary around the bots' and raters' means"
        return nothing(Reason("no_error", text))

    share, low, high = rater_share(likelihood, level)
    coefficients, covariance, variance = likelihood.solve(share)
    used = min(share, MOST_SHARE)
    apart = y - coefficients[bot]
    unsure = left_open(likelihood, coefficients)
    fit = RaterGls(coefficients, bot, rater, apart, likelihood.counts, used, unsure)
    means = _bot_means(labels.tolist(), fit, y, level, scale)
    f, p = _test(coefficients, covariance, df)
    ratio = share / (1 - share)
    return MixedModel(
        means,
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
    """Return the reason why the model needs at least two bots."""
    text = f"only {pluralise(n_bots, 'bot')} with ratings; at least 2 are needed"
    return Reason("few_bots", text, n_bots=n_bots)


def _bot_means(
    labels: Sequence[str], fit: RaterGls, y: np.ndarray, level: float, scale: tuple[float, float] | None
) -> tuple[ModelBotMean, ...]:
    """Return each bot's mean with its interval."""
    means = []
    for i, label in enumerate(labels):
        bot_values = y[fit.bot == i]
        estimate = fit.combined(np.eye(len(labels))[i])
        n_raters, mean = int(fit.n_raters[i]), estimate.difference
        ends, reason = None, ONE_GROUP
        if n_raters > 1:
            # If raters do not differ, use their degrees of freedom.
            df = estimate.df if estimate.error else n_raters - 1
            ends = interval_ends(mean, MeanSpread(estimate.error**2, df, n_raters), level, scale)
            reason = ALL_ALIKE
        low, high = ends or (None, None)
        missing = None if ends else reason
        means.append(ModelBotMean(label, mean, low, high, float(bot_values.mean()), len(bot_values), n_raters, missing))
    return tuple(means)


def wald_comparisons(
    labels: Sequence[str], estimates: np.ndarray, covariance: np.ndarray, df: float | np.ndarray, level: float
) -> tuple[Comparison, ...]:
    """Test all pairs of estimates by Wald's test.

    It uses Student's t with df (inf for normal), one per pair if there are several. If the difference has no error,
    e.g. because all answers are equal, there is no p-value and no interval.
    """
    from scipy import stats

    pairs = list(combinations(range(len(labels)), 2))
    free = np.broadcast_to(np.asarray(df, dtype=float), len(pairs))
    quantiles = stats.t.ppf(0.5 + level / 2, free)
    rows: list[tuple[str, str, float, float | None, float | None]] = []
    for (i, j), pair_df, quantile in zip(pairs, free.tolist(), quantiles.tolist(), strict=True):
        gap = float(estimates[i] - estimates[j])
        error = float(np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]))
        p = float(2 * stats.t.sf(abs(gap) / error, pair_df)) if error > 0 else None
        rows.append((labels[i], labels[j], gap, quantile * error if error > 0 else None, p))
    adjusted = holm([row[-1] for row in rows])
    return tuple(
        Comparison(
            a,
            b,
            gap,
            None if half is None else gap - half,
            None if half is None else gap + half,
            p,
            p_holm,
            p_holm is not None and p_holm < 1 - level,
            NO_SPREAD if p is None else None,
        )
        for (a, b, gap, half, p), p_holm in zip(rows, adjusted, strict=True)
    )


def _test(coefficients: np.ndarray, covariance: np.ndarray, df: int) -> tuple[float, float]:
    """Test by F whether all bot means are equal; return F and p."""
    from scipy import stats

    k = len(coefficients) - 1
    contrast = np.hstack([np.eye(k), -np.ones((k, 1))])
    gaps = contrast @ coefficients
    f = float(gaps @ np.linalg.solve(contrast @ covariance @ contrast.T, gaps)) / k
    return f, float(stats.f.sf(f, k, df))


ONE_RATER = Reason("one_rater_of_some", "one rater gave all ratings of a bot, so the error of its mean is unknown")
CONSTANT = Reason("constant_cells", "the ratings do not vary within the cells, so the effects cannot be tested")
_SINGULAR = 1e-10
"""Share of the largest eigenvalue of V below which an eigenvalue counts as 0, for a constant difference."""


@dataclass(frozen=True, slots=True)
class WaldTest:
    """Test of q differences.

    Attributes:
        f, p: None without a test.
        df1, df2: degrees of freedom; df2 is None without a test, or if the covariance is known (chi-squared).
        reason: reason for a missing test.
    """

    f: float | None
    p: float | None
    df1: int
    df2: float | None
    reason: Reason | None = None


def wald_test(fit: RaterGls, contrasts: np.ndarray) -> WaldTest:
    """Test whether all differences of the bots' means are 0.

    Args:
        contrasts: (q, K) weights of the bot means in each difference; linearly independent.
    """

    used = np.abs(contrasts).max(axis=0) > 1e-9 * np.abs(contrasts).max()
    if (fit.n_raters[used] < 2).any():
        return WaldTest(None, None, len(contrasts), None, ONE_RATER)
    covariance = fit.covariance + np.diag(fit.borrowed)
    # Use orthonormal contrasts, so that no eigenvalue is small just because of a difference's units.
    rows = np.linalg.qr(contrasts.T)[0].T
    variances, vectors = np.linalg.eigh(rows @ covariance @ rows.T)
    if variances[0] <= _SINGULAR * variances[-1] or variances[-1] <= 0:
        return WaldTest(None, None, len(contrasts), None, CONSTANT)
    along = vectors.T @ rows
    squared = float(((along @ fit.means) ** 2 / variances).sum())
    return hotelling_test(squared, np.array([fit.combined(row).df for row in along]))


def hotelling_test(squared: float, df: np.ndarray) -> WaldTest:
    """Test q differences by their squared distance from 0.

    Args:
        squared: Q, in units of the differences' estimated covariance.
        df: (q,) degrees of freedom of the variances of q uncorrelated differences.
    """
    from scipy import stats

    q = len(df)
    eta = q / float((1 / df).sum()) if np.isfinite(df).any() else np.inf
    if np.isinf(eta):
        return WaldTest(squared / q, float(stats.chi2.sf(squared, q)), q, None)
    df2 = eta - q + 1
    if df2 <= 0:
        text = f"too few raters to test {pluralise(q, 'difference')} at once"
        return WaldTest(None, None, q, None, Reason("few_raters_for_test", text, n_differences=q))
    f = df2 / (eta * q) * squared
    return WaldTest(f, float(stats.f.sf(f, q, df2)), q, df2)
