"""Accuracy of predicted values, not only of their order, which every fit reports next to its correlation.

All of it is by the fold's own intercept. The common one contains the left-out bot's level, and a fit without any
feature would reach Q² = 1 − ((K − 1) / K)² by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.hybrid.bot_level import Permuted, with_reason
from evaluation.hybrid.worth import Worth
from evaluation.reasons import Reason
from evaluation.stats.correlation import Correlation, null_point

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
class Values:
    """The agreement of predicted with human means as values.

    Attributes:
        q2: 1 − error / error of the mean of the other bots, squared errors over bots; 1 is perfect, 0 no gain.
        q2_null95: what permuted ratings pass once in twenty.
        mae, mae_of_mean: mean absolute error, and that of the mean of the other bots.
        slope: of human on predicted means; above 1, differences are predicted too small.
        slope_interval: 95 %, Student's t over bots; None where Q² is not above 0 or with few bots, for then it would
            hold less than it claims (in 43 to 83 % of simulated studies; in 90 to 94 % with six bots).
        slope_reason: why there is none.
        inside, of: bots whose human mean lies in their `interval95_new`, of so many.
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
    of: int | None
    interval_score: float | None
    partial: Correlation | None
    within_bots: Correlation | None
    blocks: Mapping[str, Mapping[str, float]]
    reason: Reason | None = None
    worth: Worth | None = None
    slope_reason: Reason | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        ends = self.slope_interval
        return {
            "q2": with_reason({"value": self.q2, "null95": self.q2_null95}, self.reason),
            "mae": self.mae,
            "mae_of_mean": self.mae_of_mean,
            "slope": with_reason(
                {"value": self.slope, "ci95": None if ends is None else list(ends)},
                self.slope_reason,
            ),
            "coverage95": None if self.of is None else {"inside": self.inside, "of": self.of},
            "interval_score95": self.interval_score,
            "partial_r": None if self.partial is None else self.partial.to_json(),
            "within_bots": None if self.within_bots is None else self.within_bots.to_json(),
            "ratings_worth": None if self.worth is None else self.worth.to_json(),
            "block_shares": {name: dict(shares) for name, shares in self.blocks.items()},
        }


def values_of(
    predicted: Mapping[str, float],
    human: Mapping[str, float],
    intervals: Mapping[str, Interval95],
    *,
    permuted: Permuted = None,
    lengths: Mapping[str, np.ndarray] | None = None,
    within_bots: Correlation | None = None,
    blocks: Mapping[str, Mapping[str, float]] | None = None,
    worth: Worth | None = None,
) -> Values:
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
    found: dict[str, Any] = {
        "inside": inside if ends else None,
        "of": len(ends) if ends else None,
        "interval_score": float(np.mean([interval_score(*one) for one in ends])) if ends else None,
        "within_bots": within_bots,
        "blocks": blocks or {},
        "worth": worth,
    }
    names = ("q2", "q2_null95", "mae", "mae_of_mean", "slope", "slope_interval", "partial")
    undefined: dict[str, Any] = dict.fromkeys(names)
    if len(bots) < FEWEST_BOTS or y.min() == y.max():
        why = _few_bots(len(bots), FEWEST_BOTS)
        return Values(**undefined, **found, reason=why, slope_reason=why)
    q2 = float(q_squared(x[None], y[None])[0])
    slope, slope_ends = calibration(x, y)
    why_none = _few_bots(len(bots), FEWEST_BOTS_SLOPE) if len(bots) < FEWEST_BOTS_SLOPE else None
    if why_none is None and q2 <= 0:
        why_none = NO_GAIN
    null = None if permuted is None else null_point(q_squared(*permuted))
    return Values(
        q2=q2,
        q2_null95=null,
        mae=float(np.abs(y - x).mean()),
        mae_of_mean=float(np.abs(y - others_mean(y[None])[0]).mean()),
        slope=slope,
        slope_interval=slope_ends if why_none is None else None,
        slope_reason=why_none,
        partial=_partial(x, y, bots, lengths or {}),
        **found,
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


def calibration(
    predicted: np.ndarray, human: np.ndarray
) -> tuple[float | None, tuple[float, float] | None]:
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
    such intervals hold 95 to 98 % of bots (`tests/evaluation/hybrid/test_values.py`). None for fewer than five bots.

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
        bot: Interval95(
            predicted[bot], None, (predicted[bot] - half, predicted[bot] + half), n_ratings[bot]
        )
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
        why = _few_bots(n, FEWEST_BOTS_PARTIAL)
        return Correlation(None, None, None, None, n, reason=why)
    from scipy import stats

    by = np.column_stack([np.ones(n), np.stack([lengths[bot] for bot in bots])])
    rest = [values - by @ np.linalg.lstsq(by, values, rcond=None)[0] for values in (x, y)]
    size = [float(np.linalg.norm(values)) for values in rest]
    if min(size) <= 1e-9 * float(np.linalg.norm(x - x.mean()) + np.linalg.norm(y - y.mean())):
        why = Reason(
            "lengths_explain", "the lengths of the conversations leave nothing of one side"
        )
        return Correlation(None, None, None, None, n, reason=why)
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
