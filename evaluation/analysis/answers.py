"""Distribution of each bot's answers to each question, and the difference between two raters of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.analysis.tables import plain, text_table
from evaluation.printing import figure
from evaluation.ratings import MEAN_KEY, Dimension, Ratings

MOST_STEPS = 11
"""A scale with more points is shown by its values, or by so many steps."""


@dataclass(frozen=True, slots=True)
class BotAnswers:
    """Distribution of one bot's answers to a question.

    Attributes:
        counts: answers at each step; an answer between two steps counts for the nearer one.
        mean: of the answers; None without one.
    """

    bot: str
    counts: tuple[int, ...]
    mean: float | None

    @property
    def n(self) -> int:
        """Answers given."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class SharedRatings:
    """Difference between the ratings of two raters of the same conversation.

    Attributes:
        n_conversations: rated by two raters or more.
        difference: mean absolute difference of two of their ratings; None without such conversations.
        by_chance: the same of any two ratings.
    """

    n_conversations: int
    difference: float | None
    by_chance: float | None


@dataclass(frozen=True, slots=True)
class DimensionAnswers:
    """The answers to one question.

    Attributes:
        steps: values of its scale, lowest first.
        bots: highest mean first, then those without an answer.
    """

    dimension: str
    steps: tuple[float, ...]
    bots: tuple[BotAnswers, ...]
    shared: SharedRatings


@dataclass(frozen=True, slots=True, repr=False)
class Answers:
    """The answers to every question of a study."""

    dimensions: tuple[DimensionAnswers, ...]

    def of(self, key: str) -> DimensionAnswers:
        """Return the answers to one question.

        Raises:
            KeyError: there is no such question.
        """
        for found in self.dimensions:
            if found.dimension == key:
                return found
        raise KeyError(key)

    def to_json(self) -> dict[str, Any]:
        """Return plain values by dimension; undefined is null."""
        return {found.dimension: plain(found) for found in self.dimensions}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(found.dimension, f"{found.shared.n_conversations:,}"),
                *(figure(found.shared.difference), figure(found.shared.by_chance)),
            ]
            for found in self.dimensions
        ]
        headers = ["dimension", "rated by several", "they differ by", "any two by"]
        return text_table("Answers", headers, rows)

    def __repr__(self) -> str:
        return self.summary()


def answers(ratings: Ratings, bots: Sequence[str] = ()) -> Answers:
    """Return the distribution of the answers to every question.

    Args:
        bots: to include in any case, also without an answer.
    """
    return Answers(tuple(dimension_answers(ratings, d.key, bots) for d in ratings.dimensions))


def dimension_answers(
    ratings: Ratings, key: str | None = None, bots: Sequence[str] = ()
) -> DimensionAnswers:
    """Return the distribution of the answers to one question.

    Args:
        key: of the dimension; None: the one that bots are ranked by.
        bots: to include in any case, in the order that breaks ties.

    Raises:
        ValueError: for an unknown dimension.
    """
    dimension = ratings.leading if key in (None, MEAN_KEY) else ratings.dimension(str(key))
    if dimension is None:
        raise ValueError("there is no dimension to tell the answers of")
    values = ratings.values(dimension.key)
    steps = scale_steps(dimension, values)
    names = dict.fromkeys([*bots, *ratings.bots])
    of_bots = [_of_bot(bot, values[ratings.bot == bot], steps) for bot in names]
    of_bots.sort(key=lambda found: float("inf") if found.mean is None else -found.mean)
    return DimensionAnswers(
        dimension.key, steps, tuple(of_bots), shared_ratings(ratings, dimension.key)
    )


def scale_steps(dimension: Dimension, values: np.ndarray) -> tuple[float, ...]:
    """Return whole steps of the scale; the values seen where it has none; else eleven in equal distances."""
    low, high = float(dimension.low), float(dimension.high)
    if low.is_integer() and high.is_integer() and high - low < MOST_STEPS:
        return tuple(low + i for i in range(int(high - low) + 1))
    seen = sorted(set(values[np.isfinite(values)].tolist()))
    if 0 < len(seen) <= MOST_STEPS:
        return tuple(seen)
    return tuple(np.linspace(dimension.low, dimension.high, MOST_STEPS).round(2).tolist())


def shared_ratings(ratings: Ratings, key: str) -> SharedRatings:
    """Return the mean difference of two ratings of one conversation, without a rater's repeated ratings."""
    once = ratings.once()
    groups: dict[str, list[float]] = {}
    for conversation, value in zip(once.conversation, once.values(key).tolist(), strict=True):
        if value == value:
            groups.setdefault(conversation, []).append(value)
    shared = [np.sort(np.array(group)) for group in groups.values() if len(group) > 1]
    if not shared:
        return SharedRatings(0, None, None)
    within = float(np.mean([_mean_difference(group) for group in shared]))
    everything = np.sort(np.concatenate([np.array(group) for group in groups.values()]))
    return SharedRatings(len(shared), within, _mean_difference(everything))


def _of_bot(bot: str, values: np.ndarray, steps: Sequence[float]) -> BotAnswers:
    known = values[np.isfinite(values)]
    nearest = np.abs(known[:, None] - np.asarray(steps, dtype=float)).argmin(axis=1)
    counts = np.bincount(nearest, minlength=len(steps)).tolist()
    return BotAnswers(bot, tuple(counts), float(known.mean()) if len(known) else None)


def _mean_difference(ordered: np.ndarray) -> float:
    """Return the mean absolute difference of all pairs of a sorted array."""
    n = len(ordered)
    weights = 2 * np.arange(n) - n + 1
    return float((weights * ordered).sum() / (n * (n - 1) / 2))
