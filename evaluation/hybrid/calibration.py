"""Calibration: accuracy of predicted values, and predictions combined with ratings.

All accuracy is by the fold's own intercept. The common one contains the left-out bot's level, and a fit without any
feature would reach Q² = 1 − ((K − 1) / K)² by it.

A bot's ratings and its prediction together, by empirical Bayes. The prediction, made without the bot's own ratings,
is the prior of its true mean: a mixture over the grid of the process. Its ratings weigh the components again and
are combined with each (`gaussian_process.py`); the mean is that of the mixture they make, the interval lies between
its quantiles (Efron and Morris 1975, "Data analysis using Stein's estimator and its generalizations", JASA 70).
With one component, and raters of whom none rated other bots, precisions add up:

    mean = (p / t² + r / v) / (1 / t² + 1 / v),  variance = 1 / (1 / t² + 1 / v)

The prior comes from the other bots of the study. Where bots are like the others, that saves ratings; a bot that is
unlike them is drawn towards them, so such a mean never stands alone behind "A is better than B", and `conflict`
warns of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from evaluation.findings import Reason
from evaluation.hybrid.bot_level import Permuted, with_reason
from evaluation.hybrid.gaussian_process import Mixture, Noise
from evaluation.stats.correlation import Correlation, null_point

FEWEST_BOTS_WORTH = 3


@dataclass(frozen=True, slots=True)
class EffectiveRatings:
    """The number of ratings whose mean would be as far off as the prediction.

    Attributes:
        stated: median over bots of what the prediction's own standard deviation says.
        by_error: what its errors say: the variance of a rating divided by the mean squared error less the noise of the
            human means; None where the errors are no larger than that noise.
        interval: 95 % of `by_error`, by the χ² distribution of the sum of squared errors, which are taken to be
            normal; an end is None where it is not bounded. Bots resampled held 72 to 85 % of simulated studies of 6
            to 12 bots.
    """

    stated: float
    by_error: float | None
    interval: tuple[float | None, float | None]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"stated": self.stated, "by_error": self.by_error, "ci95": list(self.interval)}


def effective_ratings(
    predicted: Mapping[str, float],
    human: Mapping[str, float],
    noise: Mapping[str, tuple[int, float]],
    stated: Mapping[str, float],
) -> EffectiveRatings | None:
    """Compare predictions with ratings; None for fewer than three bots.

    Args:
        predicted, human: by bot, each predicted without its ratings.
        noise: by bot how many ratings its human mean has, and that mean's variance around the bot's true mean.
        stated: by bot how many ratings the prediction's standard deviation makes it worth.
    """
    from scipy import stats

    bots = [bot for bot in predicted if bot in human and bot in noise and bot in stated]
    if len(bots) < FEWEST_BOTS_WORTH:
        return None
    count = np.array([noise[bot][0] for bot in bots])
    variance = np.array([noise[bot][1] for bot in bots])
    single = float((count * variance).mean())
    squares = np.array([(predicted[bot] - human[bot]) ** 2 for bot in bots])
    noise_of_means = float(variance.mean())
    beyond = float(squares.mean()) - noise_of_means
    # Errors of predictions without the bot itself hang together a little: one of their degrees of freedom is not there.
    free = len(bots) - 1
    high, low = free * squares.mean() / stats.chi2.ppf([0.025, 0.975], free) - noise_of_means

    def ratings(error: float) -> float | None:
        return single / error if error > 0 else None

    return EffectiveRatings(
        float(np.median([stated[bot] for bot in bots])), ratings(beyond), (ratings(float(high)), ratings(float(low)))
    )


FEWEST_BOTS = 3
FEWEST_BOTS_PARTIAL = 6
"""An interval of r given two variables needs as many."""
FEWEST_BOTS_ERRORS = 5
"""An interval by the errors of the other bots needs as many."""
FEWEST_BOTS_SLOPE = 8
NO_GAIN = Reason(
    "no_gain_no_slope",
    "no interval: Q² is not above 0; predictions near the mean of the other bots make the slope negative",
)
"""Predictions near the mean of the other bots have a slope near −(K − 1): that mean falls as the bot's own rises."""


@dataclass(frozen=True, slots=True)
class Interval95:
    """Expected mean of a bot, with its 95 % interval.

    Attributes:
        predicted: by the fold's own intercept; what the intervals are about.
        true_mean: of the bot's true mean; None for a fit that only knows its distance from human means.
        new: of the mean of `n_new` further ratings.
    """

    predicted: float
    true_mean: tuple[float, float] | None
    new: tuple[float, float]
    n_new: int

    def to_json(self) -> dict[str, Any]:
        return {
            "predicted_fold": self.predicted,
            "interval95": None if self.true_mean is None else list(self.true_mean),
            "interval95_new": list(self.new),
            "n_new": self.n_new,
        }


@dataclass(frozen=True, slots=True)
class PredictionAccuracy:
    """The agreement of predicted with human means as values.

    Attributes:
        q2: 1 − error / error of the mean of the other bots, squared errors over bots; 1 is perfect, 0 no gain.
        q2_null95: what permuted ratings pass once in twenty.
        mae, mae_of_mean: mean absolute error, and that of the mean of the other bots.
        slope: of human on predicted means; above 1, differences are predicted too small.
        slope_interval: 95 %, Student's t over bots; None where Q² is not above 0 or with few bots, for then it would
            hold less than it claims (in 43 to 83 % of simulated studies; in 90 to 94 % with six bots).
        slope_reason: why there is none.
        inside, n_intervals: number of bots whose human mean lies in their `interval95_new`, and number of intervals.
        interval_score: of these intervals, lower is better (Gneiting and Raftery 2007, equation 43).
        partial: r over bots given their mean log turns and log words.
        within_bots: r of single conversations after each bot's mean is taken away.
        blocks: share of the variance between bots by block, under two priors.
        reason: why the first of them are undefined.
        worth: how many ratings a prediction is worth, for fits with intervals.
    """

    q2: float | None
    q2_null95: float | None
    mae: float | None
    mae_of_mean: float | None
    slope: float | None
    slope_interval: tuple[float, float] | None
    inside: int | None
    n_intervals: int | None
    interval_score: float | None
    partial: Correlation | None
    within_bots: Correlation | None
    blocks: Mapping[str, Mapping[str, float]]
    reason: Reason | None = None
    worth: EffectiveRatings | None = None
    slope_reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        ends = self.slope_interval
        return {
            "q2": with_reason({"value": self.q2, "null95": self.q2_null95}, self.reason),
            "mae": self.mae,
            "mae_of_mean": self.mae_of_mean,
            "slope": with_reason(
                {"value": self.slope, "ci95": None if ends is None else list(ends)}, self.slope_reason
            ),
            "coverage95": None if self.n_intervals is None else {"inside": self.inside, "of": self.n_intervals},
            "interval_score95": self.interval_score,
            "partial_r": None if self.partial is None else self.partial.to_json(),
            "within_bots": None if self.within_bots is None else self.within_bots.to_json(),
            "ratings_worth": None if self.worth is None else self.worth.to_json(),
            "block_shares": {name: dict(shares) for name, shares in self.blocks.items()},
        }


def prediction_accuracy(
    predicted: Mapping[str, float],
    human: Mapping[str, float],
    intervals: Mapping[str, Interval95],
    *,
    permuted: Permuted = None,
    lengths: Mapping[str, np.ndarray] | None = None,
    within_bots: Correlation | None = None,
    blocks: Mapping[str, Mapping[str, float]] | None = None,
    worth: EffectiveRatings | None = None,
) -> PredictionAccuracy:
    """Compare predicted with human means of the rated bots.

    Args:
        predicted: by the fold's own intercept, each without the bot's ratings.
        permuted: predictions for permuted means, by the same intercept.
        lengths: by bot how long its conversations are, (2,) mean log turns and mean log words.
    """
    bots = [bot for bot in predicted if bot in human]
    x = np.array([predicted[bot] for bot in bots])
    y = np.array([human[bot] for bot in bots])
    ends = [(intervals[bot].new, human[bot]) for bot in bots if bot in intervals]
    inside = sum(low <= value <= high for (low, high), value in ends)
    fields: dict[str, Any] = {
        "inside": inside if ends else None,
        "n_intervals": len(ends) if ends else None,
        "interval_score": float(np.mean([interval_score(*pair) for pair in ends])) if ends else None,
        "within_bots": within_bots,
        "blocks": blocks or {},
        "worth": worth,
    }
    names = ("q2", "q2_null95", "mae", "mae_of_mean", "slope", "slope_interval", "partial")
    undefined: dict[str, Any] = dict.fromkeys(names)
    if len(bots) < FEWEST_BOTS or y.min() == y.max():
        reason = _few_bots(len(bots), FEWEST_BOTS)
        return PredictionAccuracy(**undefined, **fields, reason=reason, slope_reason=reason)
    q2 = float(q_squared(x[None], y[None])[0])
    slope, slope_ends = calibration(x, y)
    slope_reason = _few_bots(len(bots), FEWEST_BOTS_SLOPE) if len(bots) < FEWEST_BOTS_SLOPE else None
    if slope_reason is None and q2 <= 0:
        slope_reason = NO_GAIN
    null = None if permuted is None else null_point(q_squared(*permuted))
    return PredictionAccuracy(
        q2=q2,
        q2_null95=null,
        mae=float(np.abs(y - x).mean()),
        mae_of_mean=float(np.abs(y - others_mean(y[None])[0]).mean()),
        slope=slope,
        slope_interval=slope_ends if slope_reason is None else None,
        slope_reason=slope_reason,
        partial=_partial(x, y, bots, lengths or {}),
        **fields,
    )


def _few_bots(n: int, needed: int) -> Reason:
    text = f"values of {n} bots; {needed} that differ are needed"
    return Reason("few_bots_for_values", text, n_bots=n, needed=needed)


def others_mean(y: np.ndarray) -> np.ndarray:
    """Return for each bot the mean of the others, (P, K) from (P, K)."""
    return np.asarray((y.sum(axis=1, keepdims=True) - y) / (y.shape[1] - 1))


def q_squared(predicted: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Return Q² of each row, (P,), from (P, K) predictions and means."""
    error = ((human - predicted) ** 2).sum(axis=1)
    return np.asarray(1 - error / ((human - others_mean(human)) ** 2).sum(axis=1))


def calibration(predicted: np.ndarray, human: np.ndarray) -> tuple[float | None, tuple[float, float] | None]:
    """Return the slope of human on predicted means with its 95 % interval, None where it is undefined."""
    from scipy import stats

    if len(predicted) < 3 or np.ptp(predicted) <= 1e-12 * max(np.abs(predicted).max(), 1e-300):
        return None, None
    line = stats.linregress(predicted, human)
    half = float(stats.t.ppf(0.975, len(predicted) - 2) * line.stderr)
    return float(line.slope), (float(line.slope) - half, float(line.slope) + half)


def intervals_by_errors(
    predicted: Mapping[str, float], human: Mapping[str, float], n_ratings: Mapping[str, int]
) -> dict[str, Interval95]:
    """Return an interval of each bot's human mean, by the prediction errors of the other bots.

    The half width is Student's t with K − 2 degrees of freedom times the root mean square error of the other K − 1
    bots; each of these errors has one mean of K − 2 or more estimated in it. In simulated studies of 5 to 12 bots
    such intervals hold 95 to 98 % of bots (`tests/evaluation/hybrid/test_calibration.py`). None for fewer than five
    bots.

    Args:
        predicted: by the fold's own intercept, each without the bot's ratings.
        n_ratings: by bot, conversations that its human mean is of.
    """
    from scipy import stats

    bots = [bot for bot in predicted if bot in human]
    if len(bots) < FEWEST_BOTS_ERRORS:
        return {}
    squares = np.array([(human[bot] - predicted[bot]) ** 2 for bot in bots])
    t = float(stats.t.ppf(0.975, len(bots) - 2))
    halves = t * np.sqrt((squares.sum() - squares) / (len(bots) - 1))
    return {
        bot: Interval95(predicted[bot], None, (predicted[bot] - half, predicted[bot] + half), n_ratings[bot])
        for bot, half in zip(bots, halves.tolist(), strict=True)
    }


def interval_score(ends: tuple[float, float], value: float, alpha: float = 0.05) -> float:
    """Return the width of an interval and, where the value lies outside, 2/alpha times how far."""
    low, high = ends
    return high - low + 2 / alpha * max(low - value, value - high, 0.0)


def _partial(
    x: np.ndarray, y: np.ndarray, bots: Sequence[str], lengths: Mapping[str, np.ndarray]
) -> Correlation | None:
    """Correlate what the lengths leave of both sides; None where they are unknown."""
    if any(bot not in lengths for bot in bots):
        return None
    n = len(bots)
    if n < FEWEST_BOTS_PARTIAL:
        reason = _few_bots(n, FEWEST_BOTS_PARTIAL)
        return Correlation(None, None, None, None, n, reason=reason)
    from scipy import stats

    predictors = np.column_stack([np.ones(n), np.stack([lengths[bot] for bot in bots])])
    rest = [values - predictors @ np.linalg.lstsq(predictors, values, rcond=None)[0] for values in (x, y)]
    size = [float(np.linalg.norm(values)) for values in rest]
    if min(size) <= 1e-9 * float(np.linalg.norm(x - x.mean()) + np.linalg.norm(y - y.mean())):
        reason = Reason("lengths_explain", "the lengths of the conversations leave nothing of one side")
        return Correlation(None, None, None, None, n, reason=reason)
    r = float(np.clip(rest[0] @ rest[1] / (size[0] * size[1]), -1, 1))
    # Two variables are given: their number comes off the degrees of freedom (Fisher 1924).
    free = n - 4
    t = r * np.sqrt(free / max(1 - r * r, 1e-300))
    p = float(2 * stats.t.sf(abs(t), free))
    low = high = None
    if n - 5 > 0 and abs(r) < 1:
        half = stats.norm.ppf(0.975) / np.sqrt(n - 5)
        low, high = (float(np.tanh(np.arctanh(r) + sign * half)) for sign in (-1, 1))
    return Correlation(r, p, low, high, n)


CONFLICT = 2.5
"""From so many standard errors between prediction and ratings on they contradict each other."""

NOT_ADJUSTED = Reason("not_adjusted", "no mean less the habits of raters: no bot has two of these ratings that differ")
NOT_COMBINED = Reason(
    "not_combined",
    "not combined with the prediction: these are not known to be the ratings of the fit, and so neither is how far "
    "both err together",
)


@dataclass(frozen=True, slots=True)
class Combined:
    """The mean of a bot by its ratings alone, and by ratings and prediction together.

    Attributes:
        ratings, together: the means.
        ratings_interval, together_interval: 95 %, of the bot's true mean.
        z: ratings less prediction, in standard errors of that difference.
        worth: how many further ratings of the same kind would have narrowed the interval as much as the prediction
            does; 0 where prediction and ratings together are no surer than the ratings.
    """

    ratings: float
    ratings_interval: tuple[float, float]
    together: float
    together_interval: tuple[float, float]
    z: float
    worth: float

    @property
    def conflict(self) -> bool:
        """True if ratings and prediction conflict: the bot may be unlike the others, which is not covered."""
        return abs(self.z) > CONFLICT

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "mean": self.together,
            "ci95": list(self.together_interval),
            "ratings_mean": self.ratings,
            "ratings_ci95": list(self.ratings_interval),
            "z": self.z,
            "conflict": self.conflict,
            "ratings_worth": self.worth,
        }


def combine(expected: Mixture, ratings: float, noise: Noise, n: int, *, variance: float, df: float) -> Combined:
    """Combine the prediction of a bot's true mean with the mean of its ratings.

    Args:
        expected: one mixture, without the bot's ratings.
        ratings: the mean of the bot's ratings; noise: how far it is off, given the ratings of the others.
        n: how many ratings these are.
        variance: of the ratings' mean, by these ratings alone; df: its degrees of freedom.

    Raises:
        ValueError: variance is not above 0.
    """
    from scipy import stats

    if not variance > 0:
        raise ValueError(f"variance is {variance:g}; it must be above 0")
    expected_ratings = expected.rated(noise)
    together = expected.updated(ratings, noise)
    half = float(stats.t.ppf(0.975, df)) * sqrt(variance)
    return Combined(
        ratings=ratings,
        ratings_interval=(ratings - half, ratings + half),
        together=float(together.mean[0]),
        together_interval=together.first_interval(0.95),
        z=(ratings - float(expected_ratings.mean[0])) / sqrt(float(expected_ratings.variance[0])),
        worth=n * max(0.0, variance / float(together.variance[0]) - 1),
    )
