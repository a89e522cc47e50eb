"""Means of bots by their ratings and by a prediction of their unrated conversations, with what that saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.tables import number_or_reason, text_table
from evaluation.printing import figure, span
from evaluation.ratings import Ratings
from evaluation.stats.ppi import Powered, powered_mean

LEVEL = 0.90
NOTHING = 0.01
"""Less of the variance saved than this is nothing."""


@dataclass(frozen=True, slots=True, repr=False)
class PoweredMeans:
    """Every bot's mean with and without predictions.

    Attributes:
        dimension: what was rated.
        by: what predicts, by name.
        bots: by name.
    """

    dimension: str
    by: str
    level: float
    bots: Mapping[str, Powered]

    @property
    def saved(self) -> float | None:
        """Share by which predictions make the bots' variances smaller together; None where no bot has a weight."""
        both = [(one.ratings_error, one.saved) for one in self.bots.values()]
        known = [(error**2, saved) for error, saved in both if error and saved is not None]
        if not known:
            return None
        return sum(variance * saved for variance, saved in known) / sum(v for v, _saved in known)

    @property
    def sentence(self) -> str:
        """What predictions gain, in words."""
        if self.saved is None:
            reasons = dict.fromkeys(str(one.reason) for one in self.bots.values() if one.reason)
            return f"Predictions by {self.by} cannot be used: {'; '.join(reasons) or 'no bot is rated'}."
        if self.saved < NOTHING:
            return f"Predictions by {self.by} gain nothing here: report the means of the ratings alone."
        return (
            f"Predictions by {self.by} of unrated conversations make the variances of the means {self.saved:.0%} smaller, "
            f"as {1 / (1 - self.saved) - 1:.0%} more ratings would."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        rows = {
            bot: {
                "ratings_mean": one.ratings,
                "ratings_error": one.ratings_error,
                "mean": one.mean,
                "low": one.low,
                "high": one.high,
                "weight": one.weight,
                "saved": one.saved,
                "n": one.n,
                "n_unrated": one.n_unrated,
                **number_or_reason(one.reason),
            }
            for bot, one in self.bots.items()
        }
        return {
            "dimension": self.dimension,
            "by": self.by,
            "level": self.level,
            "saved": self.saved,
            "sentence": self.sentence,
            "bots": rows,
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(bot, str(one.n), str(one.n_unrated), figure(one.ratings), figure(one.mean)),
                span(one.low, one.high),
                str(one.reason) if one.saved is None else f"{one.saved:.0%}",
            ]
            for bot, one in self.bots.items()
        ]
        headers = ["bot", "rated", "unrated", "ratings", "powered", f"{self.level:.0%}", "saved"]
        title = f"{self.dimension} with predictions by {self.by}"
        return text_table(title, headers, rows, self.sentence)

    def __repr__(self) -> str:
        return self.summary()


def powered_means(
    ratings: Ratings,
    conversations: Sequence[str],
    bots: Sequence[str],
    predicted: Sequence[float] | np.ndarray,
    *,
    by: str,
    level: float = LEVEL,
) -> PoweredMeans:
    """Return the bots' means of what they are ranked by, helped by predictions of unrated conversations.

    Args:
        conversations, bots: (c,) all conversations, rated or not, drawn alike; whose each is.
        predicted: (c,) a number that goes with the ratings, such as a metric; made without the ratings it is held
            against.
        by: what predicts.
        level: of the intervals.

    Raises:
        ValueError: there is no dimension, or lengths differ.
    """
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension to estimate means of")
    if not len(conversations) == len(bots) == len(predicted):
        raise ValueError(
            f"{len(conversations)} conversations, {len(bots)} bots and {len(predicted)} predictions; there must be one each"
        )
    numbers = np.asarray(predicted, dtype=float)
    of = dict(zip(map(str, conversations), numbers.tolist(), strict=True))
    values = ratings.values()
    rated = set(ratings.conversation[np.isfinite(values)].tolist())
    found = {}
    for bot in sorted(ratings.bots):
        mine = ratings.bot == bot
        unrated = [
            number
            for name, other, number in zip(conversations, bots, numbers, strict=True)
            if str(other) == bot and str(name) not in rated
        ]
        found[bot] = powered_mean(
            values[mine],
            [of.get(name, np.nan) for name in ratings.conversation[mine].tolist()],
            unrated,
            ratings.unit[mine].tolist(),
            level=level,
        )
    return PoweredMeans(leading.key, by, level, found)
