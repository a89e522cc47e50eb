"""Means of bots by their ratings and a prediction of their unrated conversations, with the ratings saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import Units, units_of
from evaluation.analysis.tables import number_or_reason, text_table
from evaluation.printing import figure, span
from evaluation.ratings import Ratings
from evaluation.stats.ppi import Powered, powered_mean

LEVEL = 0.90
NOTHING = 0.01
"""Less of the variance saved than this is nothing."""
UNLIKE = 2.5
"""Predictions of rated and unrated conversations further apart than so many standard errors were not drawn alike."""


@dataclass(frozen=True, slots=True, repr=False)
class PoweredMeans:
    """Every bot's mean with and without predictions.

    Attributes:
        dimension: what was rated.
        by: what predicts, by name.
        bots: by name.
        units: within which ratings are not assumed independent: raters, conversations if raters are unnamed, or both.
    """

    dimension: str
    by: str
    level: float
    bots: Mapping[str, Powered]
    units: Units = "raters"

    @property
    def saved(self) -> float | None:
        """Share by which predictions make the bots' variances smaller together; None where no bot has a weight."""
        both = [(one.ratings_error, one.saved) for one in self.bots.values()]
        known = [(error**2, saved) for error, saved in both if error and saved is not None]
        if not known:
            return None
        return sum(variance * saved for variance, saved in known) / sum(v for v, _saved in known)

    @property
    def gains(self) -> bool:
        """True if predictions save enough for a table of them."""
        return self.saved is not None and self.saved >= NOTHING

    @property
    def unlike(self) -> list[str]:
        """Bots whose rated and unrated conversations differ significantly in their predictions."""
        shifts = {bot: one.shift for bot, one in self.bots.items()}
        return [bot for bot, shift in shifts.items() if shift is not None and abs(shift) > UNLIKE]

    @property
    def sentence(self) -> str:
        """Summary of the gain by predictions, in words."""
        if self.saved is None:
            reasons = dict.fromkeys(str(one.reason) for one in self.bots.values() if one.reason)
            return f"Predictions by {self.by} cannot be used: {'; '.join(reasons) or 'no bot is rated'}."
        if not self.gains:
            return f"Predictions by {self.by} gain nothing here: report the means of the ratings alone."
        gained = (
            f"Predictions by {self.by} of unrated conversations make the variances of the means {self.saved:.0%} "
            f"smaller, as {1 / (1 - self.saved) - 1:.0%} more ratings would."
        )
        if not self.unlike:
            return gained
        return (
            f"{gained} But rated and unrated conversations of {', '.join(self.unlike)} differ beyond chance: where "
            "people chose what to rate, report the means of the ratings alone."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null, with a reason."""
        rows = {
            bot: {
                "ratings_mean": one.ratings,
                "ratings_error": one.ratings_error,
                "ratings_low": one.ratings_low,
                "ratings_high": one.ratings_high,
                "mean": one.mean,
                "low": one.low,
                "high": one.high,
                "weight": one.weight,
                "saved": one.saved,
                "shift": one.shift,
                "n": one.n,
                "n_predicted": one.n_predicted,
                "n_unrated": one.n_unrated,
                **number_or_reason(one.reason),
            }
            for bot, one in self.bots.items()
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
                *(bot, str(one.n), str(one.n_unrated)),
                *(figure(one.ratings), span(one.ratings_low, one.ratings_high)),
                *(figure(one.mean), span(one.low, one.high)),
                str(one.reason) if one.saved is None else f"{one.saved:.0%}",
            ]
            for bot, one in self.bots.items()
        ]
        ends = f"{self.level:.0%}"
        headers = ["bot", "ratings", "unrated", "mean", ends, "powered", ends, "saved"]
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
    return powered_by(ratings, conversations, bots, {by: predicted}, level=level)[by]


def powered_by(
    ratings: Ratings,
    conversations: Sequence[str],
    bots: Sequence[str],
    predicted: Mapping[str, Sequence[float] | np.ndarray],
    *,
    level: float = LEVEL,
) -> dict[str, PoweredMeans]:
    """Return `powered_means` by each of several predictions.

    Args:
        predicted: by name, (c,) each.

    Raises:
        ValueError: there is no dimension, or lengths differ.
    """
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension to estimate means of")
    for by, numbers in predicted.items():
        if not len(conversations) == len(bots) == len(numbers):
            raise ValueError(
                f"{len(conversations)} conversations, {len(bots)} bots and {len(numbers)} predictions by {by}; there "
                "must be one each"
            )
    at = {str(name): place for place, name in enumerate(conversations)}
    values = ratings.values()
    # Place −1 stands for a conversation that is rated and not among these: it has no prediction.
    place = np.array([at.get(name, -1) for name in ratings.conversation.tolist()], dtype=int)
    is_unrated = np.ones(len(conversations) + 1, dtype=bool)
    is_unrated[place[np.isfinite(values)]] = False
    of_bot = np.asarray(bots, dtype=object).astype(str)
    rows = {bot: ratings.bot == bot for bot in sorted(ratings.bots)}
    more = {bot: np.flatnonzero((of_bot == bot) & is_unrated[:-1]) for bot in rows}
    units = {bot: ratings.unit[mine].tolist() for bot, mine in rows.items()}
    of_whom = units_of(ratings.where(np.isfinite(values)))
    found = {}
    for by, numbers in predicted.items():
        known = np.append(np.asarray(numbers, dtype=float), np.nan)
        means = {
            bot: powered_mean(
                values[mine], known[place[mine]], known[more[bot]], units[bot], level=level
            )
            for bot, mine in rows.items()
        }
        found[by] = PoweredMeans(leading.key, by, level, means, of_whom)
    return found
