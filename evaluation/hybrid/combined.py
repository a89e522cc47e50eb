"""A bot's ratings and its prediction together: empirical Bayes.

The prediction, made without the bot's own ratings, is the prior of its true mean, N(p, t²); its ratings say N(r, v). Their
precisions add up:

    mean = (p / t² + r / v) / (1 / t² + 1 / v),  variance = 1 / (1 / t² + 1 / v)

(Efron and Morris 1975, "Data analysis using Stein's estimator and its generalizations", JASA 70). The prior comes from
the other bots of the study. Where bots are like the others, that saves ratings; a bot that is unlike them is drawn
towards them, so such a mean never stands alone behind "A is better than B", and `conflict` warns of it: of bots like the
others it sounds for one in sixty, and then both intervals hold the true mean less often than they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from evaluation.hybrid.values import normal_interval

CONFLICT = 2.5
"""From so many standard errors between prediction and ratings on they contradict each other."""


@dataclass(frozen=True, slots=True)
class Combined:
    """The mean of a bot by its ratings alone, and by ratings and prediction together.

    Attributes:
        ratings, together: the means.
        ratings_interval, together_interval: 95 %, of the bot's true mean.
        z: ratings less prediction, in standard errors of that difference.
        worth: how many further ratings of the same kind would have narrowed the interval as much as the prediction does.
    """

    ratings: float
    ratings_interval: tuple[float, float]
    together: float
    together_interval: tuple[float, float]
    z: float
    worth: float

    @property
    def conflict(self) -> bool:
        """Whether ratings and prediction contradict each other: neither interval holds as often as it says then."""
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


def combine(predicted: float, spread: float, ratings: float, error: float, n: int) -> Combined:
    """Combine what is predicted of a bot's true mean with the mean of its ratings.

    Args:
        predicted: without the bot's ratings; spread: the standard deviation of the true mean around it.
        ratings: the mean of the bot's ratings; error: its standard error.
        n: how many ratings these are.

    Raises:
        ValueError: spread or error is not above 0.
    """
    if not (spread > 0 and error > 0):
        raise ValueError(f"spread is {spread:g} and error {error:g}; both must be above 0")
    prior, data = spread**-2, error**-2
    together = (prior * predicted + data * ratings) / (prior + data)
    return Combined(
        ratings=ratings,
        ratings_interval=normal_interval(ratings, error, 0.95),
        together=together,
        together_interval=normal_interval(together, sqrt(1 / (prior + data)), 0.95),
        z=(ratings - predicted) / sqrt(spread**2 + error**2),
        worth=n * prior / data,
    )
