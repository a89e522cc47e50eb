"""A bot's ratings and its prediction together: empirical Bayes.

The prediction, made without the bot's own ratings, is the prior of its true mean: a mixture over the grid of the
process. Its ratings weigh the components again and are combined with each (`evaluation.hybrid.mixture`); the mean is
that of the mixture they make, the interval lies between its quantiles (Efron and Morris 1975, "Data analysis using
Stein's estimator and its generalizations", JASA 70). With one component, and raters of whom none rated other bots,
precisions add up:

    mean = (p / t² + r / v) / (1 / t² + 1 / v),  variance = 1 / (1 / t² + 1 / v)

The prior comes from the other bots of the study. Where bots are like the others, that saves ratings; a bot that is
unlike them is drawn towards them, so such a mean never stands alone behind "A is better than B", and `conflict` warns
of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from evaluation.hybrid.mixture import Mixture, Noise
from evaluation.reasons import Reason

CONFLICT = 2.5
"""From so many standard errors between prediction and ratings on they contradict each other."""

NOT_ADJUSTED = Reason(
    "not_adjusted",
    "no mean less the habits of raters: no bot has two of these ratings that differ",
)
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


def combine(
    expected: Mixture, ratings: float, noise: Noise, n: int, *, variance: float, df: float
) -> Combined:
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
    told = expected.rated(noise)
    together = expected.given(ratings, noise)
    half = float(stats.t.ppf(0.975, df)) * sqrt(variance)
    return Combined(
        ratings=ratings,
        ratings_interval=(ratings - half, ratings + half),
        together=float(together.mean[0]),
        together_interval=together.first_interval(0.95),
        z=(ratings - float(told.mean[0])) / sqrt(float(told.variance[0])),
        worth=n * max(0.0, variance / float(together.variance[0]) - 1),
    )
