"""Proportional odds for Likert ratings: bots compared without taking the points for equal steps.

McCullagh (1980), Journal of the Royal Statistical Society B 42: logit P(rating ≤ j | bot b) = κ_j − β_b. A bot's
effect β is a log odds: e^(β_a − β_b) times the odds of a rating above any point. Fitted by Fisher scoring on the
table of counts (bots × points), so the number of ratings does not matter. Where raters are given, the errors
are clustered by rater, right for few of them, with degrees of freedom of their own (`clustered_scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.clustered_scores import Clustered, clustered_scores
from evaluation.stats.compare import Comparison
from evaluation.stats.mixed import few_bots, wald_comparisons
from evaluation.stats.wald import hotelling_test
from evaluation.stats.zscores import rater_codes
from evaluation.wording import counted

_MAX_STEPS = 100
_ALIKE = 1e-12
"""A variance below this share of the largest is none."""
_TOLERANCE = 1e-9  # of the gain that another step promises, in log-likelihood


@dataclass(frozen=True, slots=True)
class BotEffect:
    """A bot's place among the bots.

    Attributes:
        effect, low, high: log odds against the average bot (effects add up to 0), with the interval.
        probabilities: of each point, by the model.
        n: ratings.
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
        points: of the scale, those that were given, ascending.
        thresholds: κ between them, for the average bot.
        bots: sorted by name; empty where there is no fit.
        comparisons: every pair's difference of log odds, p-values also corrected by Holm.
        chi2, df: Wald's statistic of no difference between the bots, and how many differences it is of.
        f, df2, p: the test by it, as Hotelling's T² where errors are clustered (`wald`); f and df2 are None where
            ratings count as independent and the statistic is chi-squared, and all are None where raters are too few
            for a test.
        deviance, deviance_df, deviance_p: of the fit against free proportions per bot: a small p says that
            the odds are not proportional (meant for independent ratings).
        n, n_raters: used; n_raters is None where ratings count as independent, else errors are clustered by rater.
        converged: whether the fit was found; then `reason` is empty.
        reason: why there is none.
        test_reason: why a fit has no test.
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
        """Return P(a rating of a above one of b) + ½ P(the same), by the model; .5 means no difference.

        Raises:
            KeyError: one of the bots is not in the fit.
        """
        found = {bot.bot: np.array(bot.probabilities) for bot in self.bots}
        for name in (a, b):
            if name not in found:
                raise KeyError(f"no bot {name!r} in the fit; there are {sorted(found)}")
        below = np.cumsum(found[b]) - found[b]
        return float(found[a] @ (below + found[b] / 2))


def ordinal_model(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    *,
    level: float = 0.95,
) -> OrdinalModel:
    """Fit proportional odds with one effect per bot.

    Args:
        values: (k,) ratings on a scale of points; undefined ones are left out.
        bots: (k,) whom each rates.
        raters: (k,) rater of each, None for a rater of this one only; without, all ratings count as
            independent.
        level: of all intervals.

    Raises:
        ValueError: lengths that differ.
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
        return OrdinalModel(
            tuple(points.tolist()), *empty, n, n_raters, converged=False, reason=reason
        )

    if n_bots < 2:
        return nothing(few_bots(n_bots))
    if n_points < 2:
        why = f"every rating is {points[0]:g}: nothing tells the bots apart"
        return nothing(Reason("one_answer", why, answer=float(points[0])))
    if n_raters is not None and n_raters <= n_bots:
        why = f"{counted(n_raters, 'rater')}: too few to judge {counted(n_bots, 'bot')} by"
        return nothing(Reason("too_few_for_bots", why, n_raters=n_raters, n_bots=n_bots))
    counts = np.bincount(bot * n_points + point, minlength=n_bots * n_points)
    counts = counts.reshape(n_bots, n_points).astype(float)
    by_rater = None if rater is None else _counted(rater, bot, n_bots)
    if by_rater is not None:
        for i in np.flatnonzero((by_rater > 0).sum(axis=0) < 2).tolist():
            why = (
                f"{labels[i]} was rated by one rater only: how far its odds can be off is not known"
            )
            return nothing(Reason("one_rater_of_bot", why, bot=str(labels[i])))
    for i, label in enumerate(labels):
        for end, name in ((0, "lowest"), (-1, "highest")):
            if counts[i, end] == counts[i].sum():
                why = f"every rating of {label} is the {name} one: its effect is infinite"
                return nothing(Reason(f"always_{name}", why, bot=str(label)))
    apart = _separated(counts)
    if apart is not None:
        upper, lower = (", ".join(labels[side].tolist()) for side in apart[:2])
        at = points[apart[2]]
        why = (
            f"no rating of {upper} is below {at:g} and none of {lower} above: "
            "their difference is infinite"
        )
        return nothing(Reason("separated", why, upper=str(upper), lower=str(lower), at=float(at)))
    fit = _fisher_scoring(counts)
    if fit is None:
        why = "no optimum found: the bots' ratings hardly overlap"
        return nothing(Reason("no_optimum", why))

    parameters, information = fit
    inverse = np.linalg.inv(information)
    centring, pairs = np.eye(n_bots) - 1 / n_bots, list(combinations(range(n_bots), 2))
    differences = np.array([np.eye(n_bots)[i] - np.eye(n_bots)[j] for i, j in pairs])
    # Directions along which effects are uncorrelated, were ratings independent: for the test of all at once.
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
            why = "the few raters of a bot answer alike: nothing tells how far its odds can be off"
            return nothing(Reason("raters_alike", why))
    return _result(labels, points, counts, parameters, errors, contrasts, n_raters, level)


def _counted(rater: np.ndarray, bot: np.ndarray, n_bots: int) -> np.ndarray:
    """Return the number of ratings by each rater of each bot: (raters, bots)."""
    size = (int(rater.max()) + 1) * n_bots
    return np.bincount(rater * n_bots + bot, minlength=size).reshape(-1, n_bots).astype(float)


def _separated(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Find a point at which the bots separate: no rating of one side is above it, none of the other below it.

    The likelihood then grows for ever as the two sides move apart.

    Returns:
        The bots above, the bots below, and the point's place; None if the bots overlap everywhere.
    """
    lowest = (counts > 0).argmax(axis=1)
    highest = counts.shape[1] - 1 - (counts[:, ::-1] > 0).argmax(axis=1)
    for t in range(counts.shape[1]):
        above, below = lowest >= t, highest <= t
        if (above | below).all() and not above.all() and not below.all():
            return above, ~above, t
    return None


def _split(parameters: np.ndarray, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Split the parameters into thresholds (n_points − 1,) and effects (n_bots,), the first bot's being 0."""
    return parameters[: n_points - 1], np.concatenate([[0.0], parameters[n_points - 1 :]])


def _probabilities(parameters: np.ndarray, n_points: int) -> np.ndarray:
    """Return the probability of each point by bot: (n_bots, n_points)."""
    from scipy.special import expit

    thresholds, effects = _split(parameters, n_points)
    below = expit(thresholds[None] - effects[:, None])
    above = expit(effects[:, None] - thresholds[None])
    # A difference of two numbers near 1 loses digits: on that side take the upper tails.
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
    """Return the parameters and their expected information at the optimum; None if there is none."""
    n_bots, n_points = counts.shape
    below = np.cumsum(counts.sum(axis=0))[:-1] / counts.sum()
    parameters = np.concatenate([np.log(below / (1 - below)), np.zeros(n_bots - 1)])

    def log_likelihood(at: np.ndarray) -> float:
        if (np.diff(at[: n_points - 1]) <= 0).any():
            return -np.inf
        p = _probabilities(at, n_points)
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
    own = np.zeros((n_bots, n_bots))
    own[1:, 1:] = errors.covariance[n_points - 1 :, n_points - 1 :]
    p = _probabilities(parameters, n_points)
    chi2 = float(effects[1:] @ np.linalg.solve(own[1:, 1:], effects[1:]))
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
        wald_comparisons(names, effects, own, errors.df[n_bots:][:n_pairs], level),
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
