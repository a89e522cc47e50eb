"""Prediction-powered bot means, from ratings and predictions of unrated conversations.

Prediction-powered inference with a tuned weight. With n rated conversations (rating y, prediction f) and N unrated
ones (prediction f'),

    mean = mean(y) − lambda (mean(f) − mean(f')),
    lambda = cov(y, f) / ((1 + n / N) var(f, f')),
    variance = var(y − lambda f) / n + lambda² var(f') / N

(Angelopoulos, Duchi & Zrnic, 2023, PPI++, arXiv 2311.01453, example 6.1). The estimate is unbiased even with poor
predictions, as long as rated and unrated conversations come from the same distribution; poor predictions just save
nothing. Predictions can be on any scale, because lambda can be any number, so a metric is sufficient. Ratings are
clustered by rater.

The library `ppi-python` gives the same means (a test checks this), but it requires numba, includes a downloader, and
clips lambda to 0 … 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import Units, units_of
from evaluation.data.ratings import Ratings
from evaluation.data.tables import SummarisedResult, number_or_reason, text_table
from evaluation.findings import Reason
from evaluation.number_format import figure, span
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.gls import label_codes
from evaluation.stats.means import ALL_ALIKE
from evaluation.stats.zscores import rater_codes

FEWEST = 5
"""Minimum number of rated conversations and of raters for estimating the weight."""
FEW_RATED = Reason("few_raters_for_weight", f"fewer than {FEWEST} raters: no weight can be estimated")
NO_UNRATED = Reason("no_unrated", "no unrated conversation is predicted")
CONSTANT = Reason("constant_prediction", "the predictions do not vary")


@dataclass(frozen=True, slots=True)
class Powered:
    """Mean with and without predictions.

    Attributes:
        ratings: mean of the ratings alone.
        ratings_error: its standard error.
        ratings_low, ratings_high: by Student's t.
        mean, low, high: with predictions; None with a reason.
        weight: lambda; 0 if predictions save nothing.
        saved: share of the variance removed by predictions; 0 if they would increase it.
        shift: mean prediction of rated minus unrated conversations, in standard errors; values far from 0 mean that the
            two differ in distribution.
        n: number of ratings.
        n_predicted: ratings with a prediction.
        n_unrated: unrated conversations with a prediction.
    """

    ratings: float | None
    ratings_error: float | None
    ratings_low: float | None
    ratings_high: float | None
    mean: float | None
    low: float | None
    high: float | None
    weight: float | None
    saved: float | None
    shift: float | None
    n: int
    n_predicted: int
    n_unrated: int
    reason: Reason | None = None


def powered_mean(
    values: Sequence[float] | np.ndarray,
    predicted: Sequence[float] | np.ndarray,
    unrated: Sequence[float] | np.ndarray,
    raters: Sequence[Any] | None = None,
    *,
    level: float = 0.90,
) -> Powered:
    """Estimate a mean from ratings and predictions.

    Args:
        values, predicted: (n,) ratings and their predictions; a rating without a prediction only enters the mean of the
            ratings.
        unrated: (N,) predictions of unrated conversations; undefined ones are ignored.
        raters: (n,) rater of each; None for a rater with this rating only.
        level: confidence level of the intervals, by Student's t with the number of raters minus one degrees of freedom,
            minus two with predictions.

    Raises:
        ValueError: if lengths differ.
    """
    from scipy import stats

    y, f = np.asarray(values, dtype=float), np.asarray(predicted, dtype=float)
    people = np.arange(len(y)) if raters is None else rater_codes(raters)
    if not len(y) == len(f) == len(people):
        raise ValueError(f"{len(y)} ratings, {len(f)} predictions and {len(people)} raters; there must be one each")
    rated = np.isfinite(y)
    y, f, people = y[rated], f[rated], people[rated]
    alone, error, low, high = _alone(y, label_codes(people), level)
    predicted_too = np.isfinite(f)
    n_ratings = len(y)
    y, f, people = y[predicted_too], f[predicted_too], label_codes(people[predicted_too])
    unrated_predictions = np.asarray(unrated, dtype=float)
    unrated_predictions = unrated_predictions[np.isfinite(unrated_predictions)]
    n, n_more = len(y), len(unrated_predictions)
    n_people = int(people.max(initial=-1)) + 1
    from_ratings = (alone, error, low, high)
    counts = (n_ratings, n, n_more)

    def without_prediction(reason: Reason) -> Powered:
        return Powered(*from_ratings, None, None, None, None, None, None, *counts, reason)

    if n_people < FEWEST:
        return without_prediction(FEW_RATED)
    if error is None:
        return without_prediction(ALL_ALIKE)
    if n_more < 2:
        return without_prediction(NO_UNRATED)
    spread = float(np.concatenate([f, unrated_predictions]).var(ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(f).max()) ** 2):
        return without_prediction(CONSTANT)
    weight = float(((y - y.mean()) * (f - f.mean())).mean() / ((1 + n / n_more) * spread))
    gap = float(f.mean() - unrated_predictions.mean())
    rest = float(unrated_predictions.var(ddof=1)) / n_more
    mean = float(y.mean()) - weight * gap
    variance = _variance(y - weight * f, people, 2) + weight**2 * rest
    half = float(stats.t.ppf(0.5 + level / 2, n_people - 2)) * float(np.sqrt(variance))
    saved = 1 - variance / error**2
    apart = _variance(f, people, 1) + rest
    shift = gap / float(np.sqrt(apart)) if apart > 0 else None
    if saved < 0:  # the weight is also estimated; with few raters its error outweighs the gain
        return Powered(*from_ratings, alone, low, high, 0.0, 0.0, shift, *counts)
    return Powered(*from_ratings, mean, mean - half, mean + half, weight, saved, shift, *counts)


def _alone(
    y: np.ndarray, people: np.ndarray, level: float
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return the ratings' mean, standard error and interval; None if undefined."""
    from scipy import stats

    if not len(y):
        return None, None, None, None
    mean, n_people = float(y.mean()), int(people.max()) + 1
    if n_people < 2:
        return mean, None, None, None
    error = float(np.sqrt(_variance(y, people, 1)))
    if not error > 1e-9 * max(abs(mean), 1e-300):
        return mean, None, None, None  # equal ratings contain no information about the error
    half = float(stats.t.ppf(0.5 + level / 2, n_people - 1)) * error
    return mean, error, mean - half, mean + half


def _variance(values: np.ndarray, groups: np.ndarray, n_lost: int) -> float:
    """Return the cluster-robust variance of a mean."""
    sums = np.bincount(groups, values - values.mean())
    return float((sums**2).sum() / len(values) ** 2 * len(sums) / (len(sums) - n_lost))


NOTHING = 0.01
"""Minimum share of the variance that counts as a gain."""
UNLIKE = 2.5
"""Difference in standard errors above which predictions of rated and unrated conversations differ in distribution."""


@dataclass(frozen=True, slots=True, repr=False)
class PoweredMeans(SummarisedResult):
    """Means of all bots with and without predictions.

    Attributes:
        dimension: rated dimension.
        by: name of the predictor.
        bots: means by bot name.
        units: groups of ratings not assumed to be independent: raters, conversations if raters are unnamed, or both.
    """

    dimension: str
    by: str
    level: float
    bots: Mapping[str, Powered]
    units: Units = "raters"

    @property
    def saved(self) -> float | None:
        """Share of the bots' total variance removed by predictions, or None."""
        savings = [(powered.ratings_error, powered.saved) for powered in self.bots.values()]
        known = [(error**2, saved) for error, saved in savings if error and saved is not None]
        if not known:
            return None
        return sum(variance * saved for variance, saved in known) / sum(v for v, _saved in known)

    @property
    def gains(self) -> bool:
        """True if predictions save enough to show a table."""
        return self.saved is not None and self.saved >= NOTHING

    @property
    def unlike(self) -> list[str]:
        """Bots with significantly different predictions of rated and unrated conversations."""
        shifts = {bot: powered.shift for bot, powered in self.bots.items()}
        return [bot for bot, shift in shifts.items() if shift is not None and abs(shift) > UNLIKE]

    @property
    def sentence(self) -> str:
        """Summary of the gain from predictions as text."""
        if self.saved is None:
            reasons = dict.fromkeys(str(powered.reason) for powered in self.bots.values() if powered.reason)
            return f"Predictions by {self.by} cannot be used: {'; '.join(reasons) or 'no bot is rated'}."
        if not self.gains:
            return f"Predictions by {self.by} bring no gain here: report the means of the ratings alone."
        gained = (
            f"Predictions by {self.by} of unrated conversations reduce the variances of the means by "
            f"{self.saved:.0%}, as {1 / (1 - self.saved) - 1:.0%} more ratings would."
        )
        if not self.unlike:
            return gained
        return (
            f"{gained} But rated and unrated conversations of {', '.join(self.unlike)} differ significantly: if "
            "people chose what to rate, report the means of the ratings alone."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        rows = {
            bot: {
                "ratings_mean": powered.ratings,
                "ratings_error": powered.ratings_error,
                "ratings_low": powered.ratings_low,
                "ratings_high": powered.ratings_high,
                "mean": powered.mean,
                "low": powered.low,
                "high": powered.high,
                "weight": powered.weight,
                "saved": powered.saved,
                "shift": powered.shift,
                "n": powered.n,
                "n_predicted": powered.n_predicted,
                "n_unrated": powered.n_unrated,
                **number_or_reason(powered.reason),
            }
            for bot, powered in self.bots.items()
        }
        return {
            "dimension": self.dimension,
            "by": self.by,
            "level": self.level,
            "clusters": self.units,
            "saved": self.saved,
            "gains": self.gains,
            "unlike": self.unlike,
            "sentence": self.sentence,
            "bots": rows,
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(bot, str(powered.n), str(powered.n_unrated)),
                *(figure(powered.ratings), span(powered.ratings_low, powered.ratings_high)),
                *(figure(powered.mean), span(powered.low, powered.high)),
                str(powered.reason) if powered.saved is None else f"{powered.saved:.0%}",
            ]
            for bot, powered in self.bots.items()
        ]
        ends = f"{self.level:.0%}"
        headers = ["bot", "ratings", "unrated", "mean", ends, "powered", ends, "saved"]
        title = f"{self.dimension} with predictions by {self.by}"
        return text_table(title, headers, rows, self.sentence)


def powered_means(
    ratings: Ratings,
    conversations: Sequence[str],
    bots: Sequence[str],
    predicted: Sequence[float] | np.ndarray,
    *,
    predictor: str,
    level: float = RATING_LEVEL,
) -> PoweredMeans:
    """Return prediction-powered means of all bots for the leading question.

    Args:
        conversations, bots: (c,) all conversations, rated or not, from the same distribution, and their bots.
        predicted: (c,) predictor correlated with the ratings, such as a metric, computed without these ratings.
        predictor: name of the predictor.
        level: confidence level of the intervals.

    Raises:
        ValueError: there is no dimension, or lengths differ.
    """
    return powered_by(ratings, conversations, bots, {predictor: predicted}, level=level)[predictor]


def powered_by(
    ratings: Ratings,
    conversations: Sequence[str],
    bots: Sequence[str],
    predicted: Mapping[str, Sequence[float] | np.ndarray],
    *,
    level: float = RATING_LEVEL,
) -> dict[str, PoweredMeans]:
    """Return `powered_means` for each of several predictors.

    Args:
        predicted: (c,) predictions by name.

    Raises:
        ValueError: there is no dimension, or lengths differ.
    """
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension whose means could be estimated")
    for predictor, numbers in predicted.items():
        if not len(conversations) == len(bots) == len(numbers):
            raise ValueError(
                f"{len(conversations)} conversations, {len(bots)} bots and {len(numbers)} predictions by {predictor}; "
                "there must be one each"
            )
    row_of_name = {str(name): place for place, name in enumerate(conversations)}
    values = ratings.values()
    # Index −1 marks a rated conversation without a prediction.
    place = np.array([row_of_name.get(name, -1) for name in ratings.conversation.tolist()], dtype=int)
    is_unrated = np.ones(len(conversations) + 1, dtype=bool)
    is_unrated[place[np.isfinite(values)]] = False
    of_bot = np.asarray(bots, dtype=object).astype(str)
    rows = {bot: ratings.bot == bot for bot in sorted(ratings.bots)}
    unrated_rows = {bot: np.flatnonzero((of_bot == bot) & is_unrated[:-1]) for bot in rows}
    units = {bot: ratings.unit[of_bot_rows].tolist() for bot, of_bot_rows in rows.items()}
    of_whom = units_of(ratings.select(np.isfinite(values)))
    means_by_predictor = {}
    for predictor, numbers in predicted.items():
        known = np.append(np.asarray(numbers, dtype=float), np.nan)
        means = {
            bot: powered_mean(
                values[of_bot_rows], known[place[of_bot_rows]], known[unrated_rows[bot]], units[bot], level=level
            )
            for bot, of_bot_rows in rows.items()
        }
        means_by_predictor[predictor] = PoweredMeans(leading.key, predictor, level, means, of_whom)
    return means_by_predictor
