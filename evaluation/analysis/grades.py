"""Ordered grades by majority, and the three labels made of them: Dziri et al. (2019).

An item's grade is the one that most raters gave; of several, the lowest of them, and the item counts as a tie. Their
paper labels an item by that grade, their code by the mean rating: both are here, and on how many items they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.analysis.tables import plain, text_table
from evaluation.printing import share
from evaluation.ratings import Ratings
from evaluation.stats.intervals import SHARE, Interval, mean_interval

Label = Literal["contradiction", "neutral", "entailment"]
LABELS: tuple[Label, ...] = ("contradiction", "neutral", "entailment")
THRESHOLDS = (1.0, 2.0)
"""Steps above the lowest grade from which an item is neutral, and from which it is an entailment."""


@dataclass(frozen=True, slots=True)
class GradedItem:
    """One item.

    Attributes:
        counts: raters who gave each grade, the lowest first.
        grade: given by most of them; of several the lowest.
        is_tie: whether there were several.
        by_majority, by_mean: its label by the grade, and by the mean rating.
    """

    item: str
    bot: str
    counts: tuple[int, ...]
    grade: float
    is_tie: bool
    mean: float
    by_majority: Label
    by_mean: Label


@dataclass(frozen=True, slots=True)
class GradedBot:
    """A model's items.

    Attributes:
        grades: items of each grade, the lowest first.
        labels: share of its items with each label by majority, in the order of `LABELS`, with intervals over items.
    """

    bot: str
    n_items: int
    grades: tuple[int, ...]
    labels: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Grades:
    """All items by majority.

    Attributes:
        levels: the grades, the lowest first.
        bots: highest share of entailments first.
        n_same_label: items that both rules label alike.
    """

    dimension: str
    levels: tuple[float, ...]
    items: tuple[GradedItem, ...]
    bots: tuple[GradedBot, ...]
    n_ties: int
    n_same_label: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = plain(self)
        return found

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [bot.bot, str(bot.n_items), *(share(one.mean) for one in bot.labels)]
            for bot in self.bots
        ]
        foot = f"{self.n_ties} of {len(self.items)} items are ties; the lower grade counts"
        title = f"Labels by majority of {self.dimension}"
        return text_table(title, ["model", "items", *LABELS], rows, foot)

    def __repr__(self) -> str:
        return self.summary()


def majority(counts: Sequence[int] | np.ndarray) -> tuple[int, bool]:
    """Return the place of the grade that most raters gave, the lowest of several, and whether there were several.

    Args:
        counts: raters who gave each grade, the lowest first.

    Raises:
        ValueError: there are none.
    """
    given = np.asarray(counts)
    if not given.sum():
        raise ValueError("nobody gave a grade")
    tops = np.flatnonzero(given == given.max())
    return int(tops[0]), len(tops) > 1


def label_of(value: float, low: float, thresholds: tuple[float, float] = THRESHOLDS) -> Label:
    """Return the label of a grade or a mean rating.

    Args:
        low: the lowest grade.
        thresholds: steps above it.
    """
    neutral, entailment = thresholds
    if value - low >= entailment:
        return "entailment"
    return "neutral" if value - low >= neutral else "contradiction"


def grades(ratings: Ratings, key: str | None = None) -> Grades:
    """Return the items of a question with ordered grades by majority.

    Args:
        key: of the question; None for what models are ranked by.

    Raises:
        ValueError: without a question, or for one whose grades are no whole numbers.
    """
    dimension = ratings.dimension(key) if key is not None else ratings.leading
    if dimension is None:
        raise ValueError("there is no question with grades")
    values = ratings.values(dimension.key)
    keep = np.isfinite(values)
    if (values[keep] % 1 != dimension.low % 1).any():
        raise ValueError(f"the answers to {dimension.key} are no whole grades")
    low = dimension.low
    n_levels = round(dimension.high - low) + 1
    names = ratings.conversation[keep].astype(str)
    items, first_at, place = np.unique(names, return_index=True, return_inverse=True)
    steps = np.rint(values[keep] - low).astype(int)
    counted = np.zeros((len(items), n_levels), dtype=int)
    np.add.at(counted, (place, steps), 1)
    bots = ratings.bot[keep]
    found = [
        _graded(str(items[i]), str(bots[first_at[i]]), counted[i], low) for i in range(len(items))
    ]
    return Grades(
        dimension.key,
        tuple(low + step for step in range(n_levels)),
        tuple(found),
        _bots(found, low, n_levels),
        sum(one.is_tie for one in found),
        sum(one.by_majority == one.by_mean for one in found),
    )


def _graded(item: str, bot: str, counts: np.ndarray, low: float) -> GradedItem:
    place, is_tie = majority(counts)
    grade = low + place
    mean = low + float(counts @ np.arange(len(counts)) / counts.sum())
    return GradedItem(
        item,
        bot,
        tuple(int(n) for n in counts),
        grade,
        is_tie,
        mean,
        label_of(grade, low),
        label_of(mean, low),
    )


def _bots(items: Sequence[GradedItem], low: float, n_levels: int) -> tuple[GradedBot, ...]:
    found = []
    for bot in dict.fromkeys(one.bot for one in items):
        own = [one for one in items if one.bot == bot]
        places = np.array([round(one.grade - low) for one in own])
        labels = tuple(
            mean_interval([float(one.by_majority == label) for one in own], scale=SHARE)
            for label in LABELS
        )
        counts = tuple(int(n) for n in np.bincount(places, minlength=n_levels))
        found.append(GradedBot(bot, len(own), counts, labels))
    return tuple(sorted(found, key=lambda bot: (-(bot.labels[-1].mean or 0.0), bot.bot)))
