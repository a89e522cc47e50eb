"""Proportional odds model for Likert ratings, with errors clustered by rater.

Errors are clustered by rater and valid for few raters. The sandwich of the raters' scores S_g (Liang and Zeger 1986) is
too small with few raters, because each pulls the fit towards its own ratings. With M the inverse information and I_g
the information of rater g, S_g is approximately (I − I_g M) times its value at the true parameters, so that

    Cov = M Σ_g B_g S_g S_gᵀ B_gᵀ M,  B_g = (I − I_g M)^(−1/2)

is unbiased for independent ratings (Kauermann and Carroll 2001, Journal of the American Statistical Association 96; CR2
of Bell and McCaffrey for linear models). A contrast is tested by Student's t with Satterthwaite's degrees of freedom,
tr(Q)² / tr(Q²) with Q_gh = a_gᵀ (δ_gh I_g − I_g M I_h) a_h and a_g = B_gᵀ M times the contrast (Fay and Graubard 2001,
Biometrics 57).

Proportional odds compare bots without assuming equal steps between points. McCullagh (1980), Journal of the Royal
Statistical Society B 42: logit P(rating ≤ j | bot b) = κ_j − β_b. A bot's effect β is a log odds: e^(β_a − β_b) times
the odds of a rating above any point. Fitted by Fisher scoring on the table of counts (bots × points), so the number of
ratings does not matter. If raters are given, errors are clustered by rater, with their own degrees of freedom
(`clustered_scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import pluralise
from evaluation.stats.comparisons import Comparison
from evaluation.stats.constants import MOST_NUMBERS
from evaluation.stats.mixed import few_bots, hotelling_test, wald_comparisons
from evaluation.stats.zscores import rater_codes

_NONE = 1e-9
"""Share below which the rest of a rater's score counts as 0, so that the rater alone determined a parameter."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """Errors clustered by rater.

    Attributes:
        covariance: (p, p) of the parameters.
        df: (c,) degrees of freedom of the variance of each contrast.
    """

    covariance: np.ndarray
    df: np.ndarray


def clustered_scores(
    inverse: np.ndarray, scores: np.ndarray, counts: np.ndarray, informations: np.ndarray, contrasts: np.ndarray
) -> Clustered:
    """Return the errors of a fit.

    Args:
        inverse: (p, p) of the information of all ratings.
        scores: (G, p) score of each rater at the fit.
        counts: (G, K) number of ratings of each kind by each rater.
        informations: (K, p, p) contribution of one rating of a kind to the information.
        contrasts: (p, c).
    """
    rows, which, times = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    root = np.linalg.cholesky(inverse)  # M = root rootᵀ
    n_parameters, n_contrasts = contrasts.shape
    aimed = root.T @ contrasts
    adjusted = np.empty_like(scores)
    trace, squares = np.zeros((2, n_contrasts))
    crossed = np.zeros((n_contrasts, n_parameters, n_parameters))
    step = max(1, MOST_NUMBERS // (n_parameters * max(n_parameters, n_contrasts)))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        added = root.T @ np.tensordot(rows[part], informations, 1) @ root
        values, vectors = np.linalg.eigh(np.eye(n_parameters) - added)
        is_positive = values > _NONE
        power = np.where(is_positive, np.where(is_positive, values, 1.0) ** -0.5, 0.0)
        middle = (vectors * power[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        members = np.flatnonzero((which >= start) & (which < start + step))
        adjusted[members] = np.einsum(
            "gij,gj->gi", middle[which[members] - start], scores[members] @ root, optimize=True
        )
        turned = middle @ aimed  # a_g is root times it
        pulls = added @ turned  # Q_gh is minus their product, Q_gg `diagonal` less it
        diagonal, n = (turned * pulls).sum(axis=1), times[part].astype(float)
        less = (pulls**2).sum(axis=1)
        trace += n @ (diagonal - less)
        squares += n @ (diagonal * (diagonal - 2 * less))
        crossed += np.einsum("u,upc,uqc->cpq", n, pulls, pulls, optimize=True)
    squares += (crossed**2).sum(axis=(1, 2))
    df = np.divide(trace**2, squares, out=np.full(n_contrasts, np.inf), where=squares > 0)
    return Clustered(root @ (adjusted.T @ adjusted) @ root.T, df)


_MAX_STEPS = 100
_ALIKE = 1e-12
"""Share of the largest variance below which a variance counts as 0."""
_TOLERANCE = 1e-9  # tolerance of the expected gain in log-likelihood from another step


@dataclass(frozen=True, slots=True)
class BotEffect:
    """Effect of a bot relative to the others.

    Attributes:
        effect, low, high: log odds relative to the average bot (effects sum to 0), with the interval.
        probabilities: model probability of each point.
        n: number of ratings.
    """

    bot: str
    effect: float
    low: float
    high: float
    probabilities: tuple[float, ...]
    n: int


@dataclass(frozen=True, slots=True)
class OrdinalModel:
    """The fit.

    Attributes:
        points: points of the scale that were used, ascending.
        thresholds: κ between the points, for the average bot.
        bots: sorted by name; empty without a fit.
        comparisons: difference of log odds for every pair, with p-values also corrected by Holm.
        chi2, df: Wald statistic of the hypothesis that bots do not differ, and the number of differences tested.
        f, df2, p: the test based on it, as Hotelling's T² if errors are clustered (`wald`). f and df2 are None if
            ratings count as independent and the statistic is chi-squared; all are None if there are too few raters.
        deviance, deviance_df, deviance_p: fit against free proportions per bot. A small p means that the odds are not
            proportional (valid for independent ratings).
        n, n_raters: numbers used; n_raters is None if ratings count as independent, otherwise errors are clustered by
            rater.
        converged: True if the fit was found; `reason` is then empty.
        reason: reason for a missing fit.
        test_reason: reason for a missing test.
    """

    points: tuple[float, ...]
    thresholds: tuple[float, ...]
    bots: tuple[BotEffect, ...]
    comparisons: tuple[Comparison, ...]
    chi2: float | None
    df: int
    f: float | None
    df2: float | None
    p: float | None
    deviance: float | None
    deviance_df: int
    deviance_p: float | None
    n: int
    n_raters: int | None
    converged: bool
    reason: Reason | None = None
    test_reason: Reason | None = None

    def probability_higher(self, a: str, b: str) -> float:
        """Return P(a's rating is above b's) + ½ P(equal), by the model.

        .5 means no difference.

        Raises:
            KeyError: if one of the bots is not in the fit.
        """
        probabilities = {bot.bot: np.array(bot.probabilities) for bot in self.bots}
        for name in (a, b):
            if name not in probabilities:
                raise KeyError(f"no bot {name!r} in the fit; available: {sorted(probabilities)}")
        below = np.cumsum(probabilities[b]) - probabilities[b]
        return float(probabilities[a] @ (below + probabilities[b] / 2))


def ordinal_model(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    *,
    level: float = 0.95,
) -> OrdinalModel:
    """Fit proportional odds with one effect per bot.

    Args:
        values: (k,) ratings on a scale of points; undefined ones are excluded.
        bots: (k,) bot of each rating.
        raters: (k,) rater of each, None for a rater with this rating only. Without raters, all ratings count as
            independent.
        level: confidence level of all intervals.

    Raises:
        ValueError: if lengths differ.
    """
    array = np.asarray(values, dtype=float)
    if len(array) != len(bots) or (raters is not None and len(raters) != len(array)):
        raise ValueError(f"{len(array)} values for {len(bots)} bots; there must be one bot each")
    keep = np.isfinite(array)
    labels, bot = np.unique(np.asarray(bots, dtype=object)[keep].astype(str), return_inverse=True)
    points, point = np.unique(array[keep], return_inverse=True)
    rater = None if raters is None else np.unique(rater_codes(raters)[keep], return_inverse=True)[1]
    n_bots, n_points, n = len(labels), len(points), len(point)
    n_raters = None if rater is None else int(rater.max(initial=-1)) + 1

    def nothing(reason: Reason) -> OrdinalModel:
        empty = ((), (), (), None, 0, None, None, None, None, 0, None)
        return OrdinalModel(tuple(points.tolist()), *empty, n, n_raters, converged=False, reason=reason)

    if n_bots < 2:
        return nothing(few_bots(n_bots))
    if n_points < 2:
        text = f"every rating is {points[0]:g}, so the bots cannot be distinguished"
        return nothing(Reason("one_answer", text, answer=float(points[0])))
    if n_raters is not None and n_raters <= n_bots:
        text = f"{pluralise(n_raters, 'rater')}: too few to compare {pluralise(n_bots, 'bot')}"
        return nothing(Reason("too_few_for_bots", text, n_raters=n_raters, n_bots=n_bots))
    counts = np.bincount(bot * n_points + point, minlength=n_bots * n_points)
    counts = counts.reshape(n_bots, n_points).astype(float)
    by_rater = None if rater is None else _count_ratings(rater, bot, n_bots)
    if by_rater is not None:
        for i in np.flatnonzero((by_rater > 0).sum(axis=0) < 2).tolist():
            text = f"{labels[i]} was rated by one rater only, so the error of its odds is unknown"
            return nothing(Reason("one_rater_of_bot", text, bot=str(labels[i])))
    for i, label in enumerate(labels):
        for end, name in ((0, "lowest"), (-1, "highest")):
            if counts[i, end] == counts[i].sum():
                text = f"every rating of {label} is the {name} one, so its effect is infinite"
                return nothing(Reason(f"always_{name}", text, bot=str(label)))
    apart = _find_separation(counts)
    if apart is not None:
        upper, lower = (", ".join(labels[side].tolist()) for side in apart[:2])
        boundary = points[apart[2]]
        text = f"no rating of {upper} is below {boundary:g} and none of {lower} above, so their difference is infinite"
        return nothing(Reason("separated", text, upper=str(upper), lower=str(lower), at=float(boundary)))
    fit = _fisher_scoring(counts)
    if fit is None:
        text = "the fit did not converge: the bots' ratings hardly overlap"
        return nothing(Reason("no_optimum", text))

    parameters, information = fit
    inverse = np.linalg.inv(information)
    centring, pairs = np.eye(n_bots) - 1 / n_bots, list(combinations(range(n_bots), 2))
    differences = np.array([np.eye(n_bots)[i] - np.eye(n_bots)[j] for i, j in pairs])
    # Directions with uncorrelated effects under independence, for the joint test.
    along = np.linalg.eigh(inverse[n_points - 1 :, n_points - 1 :])[1]
    contrasts = np.zeros((len(parameters), n_bots + len(pairs) + n_bots - 1))
    contrasts[n_points - 1 :] = np.hstack([centring.T[1:], differences.T[1:], along])
    errors = Clustered(inverse, np.full(contrasts.shape[1], np.inf))
    if rater is not None and by_rater is not None:
        of_rating = _scores(parameters, n_bots, n_points)
        scores = np.zeros((len(by_rater), len(parameters)))
        np.add.at(scores, rater, of_rating[bot, point])
        chances = _probabilities(parameters, n_points)
        each = np.einsum("bj,bjk,bjl->bkl", chances, of_rating, of_rating)
        errors = clustered_scores(inverse, scores, by_rater, each, contrasts)
        values = np.linalg.eigvalsh(errors.covariance[n_points - 1 :, n_points - 1 :])
        if values[0] <= _ALIKE * values[-1]:
            text = "the few raters of a bot agree completely, so the error of its odds is unknown"
            return nothing(Reason("raters_alike", text))
    return _result(labels, points, counts, parameters, errors, contrasts, n_raters, level)


def _count_ratings(rater: np.ndarray, bot: np.ndarray, n_bots: int) -> np.ndarray:
    """Return the number of ratings by rater and bot, (raters, bots)."""
    size = (int(rater.max()) + 1) * n_bots
    return np.bincount(rater * n_bots + bot, minlength=size).reshape(-1, n_bots).astype(float)


def _find_separation(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Find a point that separates the bots, or return None.

    One side has no rating above it, the other none below it, so the likelihood increases without limit as the two sides
    move apart.

    Returns:
        The bots above, the bots below, and the index of the point; None if the bots overlap everywhere.
    """
    lowest = (counts > 0).argmax(axis=1)
    highest = counts.shape[1] - 1 - (counts[:, ::-1] > 0).argmax(axis=1)
    for t in range(counts.shape[1]):
        above, below = lowest >= t, highest <= t
        if (above | below).all() and not above.all() and not below.all():
            return above, ~above, t
    return None


def _split(parameters: np.ndarray, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Split the parameters into thresholds and effects.

    (n_points − 1,) and (n_bots,); the first bot's effect is 0.
    """
    return parameters[: n_points - 1], np.concatenate([[0.0], parameters[n_points - 1 :]])


def _probabilities(parameters: np.ndarray, n_points: int) -> np.ndarray:
    """Return the probability of each point by bot: (n_bots, n_points)."""
    from scipy.special import expit

    thresholds, effects = _split(parameters, n_points)
    below = expit(thresholds[None] - effects[:, None])
    above = expit(effects[:, None] - thresholds[None])
    # Subtracting two numbers near 1 loses precision, so use upper tails there.
    edge = np.zeros((len(effects), 1))
    low = np.hstack([edge, below]), np.hstack([below, edge + 1])
    high = np.hstack([edge + 1, above]), np.hstack([above, edge])
    return np.where(low[1] < 0.5, low[1] - low[0], high[0] - high[1])


def _scores(parameters: np.ndarray, n_bots: int, n_points: int) -> np.ndarray:
    """Return the gradient of log P(point | bot): (n_bots, n_points, n_parameters)."""
    from scipy.special import expit

    thresholds, effects = _split(parameters, n_points)
    z = thresholds[None] - effects[:, None]
    density = expit(z) * expit(-z)  # (n_bots, n_points − 1)
    p = _probabilities(parameters, n_points)
    out = np.zeros((n_bots, n_points, len(parameters)))
    for j in range(n_points - 1):
        out[:, j, j] += density[:, j]
        out[:, j + 1, j] -= density[:, j]
    for b in range(1, n_bots):
        out[b, :, n_points - 2 + b] = -out[b, :, : n_points - 1].sum(axis=1)
    return out / p[:, :, None]


def _fisher_scoring(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the optimal parameters and their expected information, or None."""
    n_bots, n_points = counts.shape
    below = np.cumsum(counts.sum(axis=0))[:-1] / counts.sum()
    parameters = np.concatenate([np.log(below / (1 - below)), np.zeros(n_bots - 1)])

    def log_likelihood(parameters: np.ndarray) -> float:
        if (np.diff(parameters[: n_points - 1]) <= 0).any():
            return -np.inf
        p = _probabilities(parameters, n_points)
        seen = counts > 0
        if (p[seen] <= 0).any():
            return -np.inf
        return float((counts[seen] * np.log(p[seen])).sum())

    now = log_likelihood(parameters)
    for _ in range(_MAX_STEPS):
        score = _scores(parameters, n_bots, n_points)
        gradient = np.einsum("bj,bjk->k", counts, score)
        weights = counts.sum(axis=1, keepdims=True) * _probabilities(parameters, n_points)
        information = np.einsum("bj,bjk,bjl->kl", weights, score, score)
        if not np.isfinite(information).all() or np.linalg.cond(information) > 1e14:
            return None
        step = np.linalg.solve(information, gradient)
        if gradient @ step < _TOLERANCE:
            return (parameters, information) if np.abs(parameters).max() < 30 else None
        size = 1.0
        while (then := log_likelihood(parameters + size * step)) < now:
            size /= 2
            if size < 1e-8:
                return None
        parameters, now = parameters + size * step, then
    return None


def _result(
    labels: np.ndarray,
    points: np.ndarray,
    counts: np.ndarray,
    parameters: np.ndarray,
    errors: Clustered,
    contrasts: np.ndarray,
    n_raters: int | None,
    level: float,
) -> OrdinalModel:
    """Return the fit with its intervals.

    Args:
        contrasts: (p, c) the bots against their average, all pairs of them, and uncorrelated directions, of which
            `errors` knows the degrees of freedom.
    """
    from scipy import stats

    n_bots, n_points = counts.shape
    n_pairs = n_bots * (n_bots - 1) // 2
    thresholds, effects = _split(parameters, n_points)
    spread = np.sqrt(np.einsum("pc,pq,qc->c", contrasts, errors.covariance, contrasts))
    half = stats.t.ppf(0.5 + level / 2, errors.df[:n_bots]) * spread[:n_bots]
    centred = effects - effects.mean()
    covariance = np.zeros((n_bots, n_bots))
    covariance[1:, 1:] = errors.covariance[n_points - 1 :, n_points - 1 :]
    p = _probabilities(parameters, n_points)
    chi2 = float(effects[1:] @ np.linalg.solve(covariance[1:, 1:], effects[1:]))
    test = hotelling_test(chi2, errors.df[n_bots + n_pairs :])
    seen = counts > 0
    free = counts / counts.sum(axis=1, keepdims=True)
    deviance = float(2 * (counts[seen] * np.log(free[seen] / p[seen])).sum())
    rest = (n_bots - 1) * (n_points - 2)
    names = labels.tolist()
    return OrdinalModel(
        tuple(points.tolist()),
        tuple((thresholds - effects.mean()).tolist()),
        tuple(
            BotEffect(
                name,
                float(centred[i]),
                float(centred[i] - half[i]),
                float(centred[i] + half[i]),
                tuple(p[i].tolist()),
                int(counts[i].sum()),
            )
            for i, name in enumerate(names)
        ),
        wald_comparisons(names, effects, covariance, errors.df[n_bots:][:n_pairs], level),
        chi2,
        n_bots - 1,
        test.f if test.df2 else None,
        test.df2,
        test.p,
        deviance,
        rest,
        float(stats.chi2.sf(deviance, rest)) if rest else None,
        int(counts.sum()),
        n_raters,
        converged=True,
        test_reason=test.reason,
    )
