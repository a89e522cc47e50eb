"""Calibration: accuracy of predicted values, and predictions combined with ratings.

Accuracy always uses each fold's own intercept. The common intercept includes the left-out bot's level: with it, a fit
without any features would reach Q² = 1 − ((K − 1) / K)².

Empirical Bayes combines a bot's ratings with its prediction. The prediction, made without the bot's own ratings, is the
prior of its true mean: a mixture over the grid of the process. The ratings update the components and their weights
(`gaussian_process.py`); the result is the posterior mixture's mean and an interval between its quantiles (Efron and
Morris 1975, "Data analysis using Stein's estimator and its generalizations", JASA 70). With a single component, and
raters who rated no other bots, precisions add up:

    mean = (p / t² + r / v) / (1 / t² + 1 / v),  variance = 1 / (1 / t² + 1 / v)

The prior comes from the other bots of the study. This saves ratings if the bots are similar. A bot unlike the others is
pulled towards them, so such a mean alone never supports "A is better than B", and `conflict` warns about it.
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
    """Number of ratings whose mean would be as accurate as the prediction.

    Attributes:
        stated: median over bots, based on the standard deviation that each prediction states.
        by_error: based on the actual errors: the variance of a rating divided by the mean squared error minus the noise
            of the human means. None if the errors do not exceed that noise.
        interval: 95 % interval of `by_error`, from the χ² distribution of the sum of squared errors, assumed to be
            normal; an end is None if it is unbounded. Bootstrap intervals over bots covered 72 to 85 % of simulated
            studies of 6 to 12 bots.
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
        predicted, human: by bot; each prediction is made without that bot's ratings.
        noise: by bot, the number of ratings behind its human mean, and the variance of that mean around the true mean.
        stated: by bot, the number of ratings that the prediction is worth according to its standard deviation.
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
    # Leave-one-out errors are slightly correlated, which costs one degree of freedom.
    free = len(bots) - 1
    high, low = free * squares.mean() / stats.chi2.ppf([0.025, 0.975], free) - noise_of_means

    def ratings(error: float) -> float | None:
        return single / error if error > 0 else None

    return EffectiveRatings(
        float(np.median([stated[bot] for bot in bots])), ratings(beyond), (ratings(float(high)), ratings(float(low)))
    )


FEWEST_BOTS = 3
FEWEST_BOTS_PARTIAL = 6
"""Minimum number of bots for an interval of the partial correlation given two variables."""
FEWEST_BOTS_ERRORS = 5
"""Minimum number of bots for an interval from the errors of the other bots."""
FEWEST_BOTS_SLOPE = 8
NO_GAIN = Reason(
    "no_gain_no_slope",
    "no interval: Q² is not above 0, and predictions close to the mean of the other bots make the slope negative",
)
"""Predictions close to the mean of the other bots have a slope near −(K − 1), because that mean falls as the bot's own
rises.
"""


@dataclass(frozen=True, slots=True)
class Interval95:
    """Predicted mean of a bot with its 95 % interval.

    Attributes:
        predicted: with each fold's own intercept; the intervals refer to this value.
        true_mean: interval of the bot's true mean; None if the fit only knows the distance from human means.
        new: interval of the mean of `n_new` further ratings.
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
    """Agreement of predicted values with human means.

    Attributes:
        q2: 1 − error / error of predicting the mean of the other bots (squared errors over bots). 1 is perfect, 0 is no
            gain.
        q2_null95: Q² that permuted ratings exceed 5 % of the time.
        mae, mae_of_mean: mean absolute error of the prediction, and of the mean of the other bots.
        slope: slope of human on predicted means; above 1, predicted differences are too small.
        slope_interval: 95 % interval, Student's t over bots. None if Q² is not above 0 or there are few bots, because
            its coverage would then be too low (43 to 83 % of simulated studies; 90 to 94 % with six bots).
        slope_reason: reason for a missing interval.
        inside, n_intervals: number of bots whose human mean lies in their `interval95_new`, and number of intervals.
        interval_score: score of these intervals; lower is better (Gneiting and Raftery 2007, equation 43).
        partial: r over bots, controlling for mean log turns and log words.
        within_bots: r of single conversations after subtracting each bot's mean.
        blocks: share of the variance between bots by block, under two priors.
        reason: reason why the first fields are undefined.
        worth: number of ratings that a prediction is worth, for fits with intervals.
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
        predicted: with each fold's own intercept, without the bot's own ratings.
        permuted: predictions for permuted means, with the same intercept.
        lengths: by bot, the length of its conversations: (2,) mean log turns and mean log words.
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
    """Return the mean of the other bots for each bot: (P, K) → (P, K)."""
    return np.asarray((y.sum(axis=1, keepdims=True) - y) / (y.shape[1] - 1))


def q_squared(predicted: np.ndarray, human: np.ndarray) -> np.ndarray:
    """Return Q² of each row, (P,), given (P, K) predictions and means."""
    error = ((human - predicted) ** 2).sum(axis=1)
    return np.asarray(1 - error / ((human - others_mean(human)) ** 2).sum(axis=1))


def calibration(predicted: np.ndarray, human: np.ndarray) -> tuple[float | None, tuple[float, float] | None]:
    """Return the slope of human on predicted means with its 95 % interval.

    None if undefined.
    """
    from scipy import stats

    if len(predicted) < 3 or np.ptp(predicted) <= 1e-12 * max(np.abs(predicted).max(), 1e-300):
        return None, None
    line = stats.linregress(predicted, human)
    half = float(stats.t.ppf(0.975, len(predicted) - 2) * line.stderr)
    return float(line.slope), (float(line.slope) - half, float(line.slope) + half)


def intervals_by_errors(
    predicted: Mapping[str, float], human: Mapping[str, float], n_ratings: Mapping[str, int]
) -> dict[str, Interval95]:
    """Return intervals of human means based on other bots' errors.

    The half width is Student's t with K − 2 degrees of freedom times the root mean square error of the other K − 1
    bots; each of these errors involves one mean estimated from K − 2 or more bots. In simulated studies of 5 to 12 bots
    such intervals cover 95 to 98 % of bots (`tests/evaluation/hybrid/test_calibration.py`). None with fewer than five
    bots.

    Args:
        predicted: with each fold's own intercept, without the bot's own ratings.
        n_ratings: by bot, number of conversations behind its human mean.
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
    """Return the interval score: width plus a penalty outside.

    The penalty is 2/alpha times the distance to the interval.
    """
    low, high = ends
    return high - low + 2 / alpha * max(low - value, value - high, 0.0)


def _partial(
    x: np.ndarray, y: np.ndarray, bots: Sequence[str], lengths: Mapping[str, np.ndarray]
) -> Correlation | None:
    """Return the partial correlation given the lengths, or None.

    None if the lengths are unknown.
    """
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
        reason = Reason("lengths_explain", "one side is fully explained by the lengths of the conversations")
        return Correlation(None, None, None, None, n, reason=reason)
    r = float(np.clip(rest[0] @ rest[1] / (size[0] * size[1]), -1, 1))
    # Two control variables reduce the degrees of freedom by two (Fisher 1924).
    free = n - 4
    t = r * np.sqrt(free / max(1 - r * r, 1e-300))
    p = float(2 * stats.t.sf(abs(t), free))
    low = high = None
    if n - 5 > 0 and abs(r) < 1:
        half = stats.norm.ppf(0.975) / np.sqrt(n - 5)
        low, high = (float(np.tanh(np.arctanh(r) + sign * half)) for sign in (-1, 1))
    return Correlation(r, p, low, high, n)


CONFLICT = 2.5
"""Distance in standard errors above which prediction and ratings conflict."""

NOT_ADJUSTED = Reason("not_adjusted", "no mean adjusted for raters: no bot has two of these ratings that differ")
NOT_COMBINED = Reason(
    "not_combined",
    "not combined with the prediction: these may not be the ratings of the fit, so the covariance of their "
    "errors is unknown",
)


@dataclass(frozen=True, slots=True)
class Combined:
    """Mean of a bot from its ratings, alone and combined with the prediction.

    Attributes:
        ratings, together: the two means.
        ratings_interval, together_interval: 95 % intervals of the bot's true mean.
        z: ratings minus prediction, in standard errors of the difference.
        worth: number of further ratings of the same kind that would narrow the interval as much as the prediction does;
            0 if combining does not improve on the ratings.
    """

    ratings: float
    ratings_interval: tuple[float, float]
    together: float
    together_interval: tuple[float, float]
    z: float
    worth: float

    @property
    def conflict(self) -> bool:
        """True if ratings and prediction conflict.

        The bot may then be unlike the others, which the model does not cover.
        """
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
    """Combine a bot's predicted true mean with its mean rating.

    Args:
        expected: one mixture, made without the bot's ratings.
        ratings: mean of the bot's ratings.
        noise: its error, given the ratings of the others.
        n: number of these ratings.
        variance: variance of the mean, from these ratings alone.
        df: its degrees of freedom.

    Raises:
        ValueError: if `variance` is not above 0.
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
