"""Human ratings of each item: its mean, or its majority grade.

Turn-level metrics are compared with items (Huang et al. 2020, Lan et al. 2020): a reply in its context, rated by
several people. Means of models are in `comparisons.py`, rater agreement in `agreement.py`.

Majority grades, and the three labels derived from them: Dziri et al. (2019). An item's grade is the most frequent one;
if several are equally frequent, the lowest is used and the item counts as a tie. The paper labels an item by that
grade, its code by the mean rating: both are reported, with the number of items on which they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.data.tables import SummarisedResult, text_table
from evaluation.findings import Reason
from evaluation.number_format import figure, share, span
from evaluation.stats.agreement import MOST_PAIRS
from evaluation.stats.agreement import rating_table as items_by_raters
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import SHARE, Interval, MeanSpread, interval_ends, mean_interval

_NONE = 1e-18
"""Share of the squared scale width below which a variance counts as a rounding error."""
LEAST_SHARED = 5
"""Minimum number of items that two raters must share for a correlation."""


@dataclass(frozen=True, slots=True)
class ItemMean:
    """Ratings of one item on one question.

    Attributes:
        bot: bot that gave the reply.
        low, high: interval of the mean over raters, as for all means on a scale; None for a single rating.
    """

    item: str
    bot: str
    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class HumanBound:
    """Correlation between single raters, a reference for metrics.

    Attributes:
        average, highest: Pearson's r of pairs of raters; None if no pair has one. Lan et al. (2020) call them Human
            (Avg) and Human (Max).
        n_pairs: pairs of raters who share at least `least` items and whose answers vary.
        reason: reason if there is none.
    """

    average: float | None
    highest: float | None
    n_pairs: int
    least: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class DimensionItems:
    """Items on one question, highest mean first, and the raters' correlation."""

    dimension: str
    items: tuple[ItemMean, ...]
    bound: HumanBound


@dataclass(frozen=True, slots=True, repr=False)
class ItemMeans(SummarisedResult):
    """Items of a study on every question, leading question first.

    Attributes:
        fewest, most: minimum and maximum number of ratings of an item.
    """

    dimensions: tuple[DimensionItems, ...]
    n_items: int
    fewest: int
    most: int

    def get_dimension(self, key: str) -> DimensionItems:
        """Return the items on one question.

        Raises:
            KeyError: if there is no such question.
        """
        for items in self.dimensions:
            if items.dimension == key:
                return items
        raise KeyError(key)

    def summary(self) -> str:
        """Return a table for a terminal: the items on the first question."""
        first = self.dimensions[0]
        rows = [
            [*(item.item, item.bot, figure(item.mean)), *(span(item.low, item.high), str(item.n))]
            for item in first.items
        ]
        bound = first.bound
        foot = (
            str(bound.reason)
            if bound.reason
            else f"two raters: r = {share(bound.average)}, at most {share(bound.highest)}"
        )
        title = f"{self.n_items:,} items on {first.dimension}"
        return text_table(title, ["item", "model", "mean", f"{RATING_LEVEL:.0%}", "n"], rows, foot)


def item_means(ratings: Ratings) -> ItemMeans:
    """Return the mean of every item on every question.

    Raises:
        ValueError: if the ratings answer no question.
    """
    if ratings.leading is None:
        raise ValueError("the study has no question to average")
    first = ratings.headline[0]
    keys = [first, *(d.key for d in ratings.dimensions if d.key != first)]
    _names, counts = np.unique(ratings.conversation.astype(str), return_counts=True)
    return ItemMeans(
        tuple(_dimension_items(ratings, key) for key in keys),
        len(counts),
        int(counts.min()) if len(counts) else 0,
        int(counts.max()) if len(counts) else 0,
    )


def _dimension_items(ratings: Ratings, key: str) -> DimensionItems:
    values = ratings.values(key)
    known = np.isfinite(values)
    names = ratings.conversation[known].astype(str)
    known_values, bots = values[known], ratings.bot[known]
    items, first_at, place = np.unique(names, return_index=True, return_inverse=True)
    n = np.bincount(place, minlength=len(items))
    means = np.bincount(place, weights=known_values, minlength=len(items)) / np.maximum(n, 1)
    squares = np.bincount(place, weights=(known_values - means[place]) ** 2, minlength=len(items))
    scale, bounds = ratings.scale(key), ratings.bounds(key)
    item_means = [
        ItemMean(
            str(items[i]),
            str(bots[first_at[i]]),
            int(n[i]),
            float(means[i]),
            *_ends(float(means[i]), int(n[i]), float(squares[i]), scale, bounds),
        )
        for i in range(len(items))
    ]
    item_means.sort(key=lambda item: (-item.mean, item.item))
    return DimensionItems(key, tuple(item_means), human_bound(ratings, key))


def _ends(
    mean: float, n: int, squares: float, scale: tuple[float, float], bounds: tuple[float, float] | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the ends of the interval of an item's mean.

    There are n raters with one rating each.

    Student's t would have too little coverage near an end of the scale or with few agreeing raters: 77 % for simulated
    items with three raters around 4.7 of 5.
    """
    if n < 2:
        return None, None
    variance = squares / (n - 1) / n
    spread = MeanSpread(variance if variance > _NONE * (scale[1] - scale[0]) ** 2 else 0.0, n - 1, n)
    return interval_ends(mean, spread, RATING_LEVEL, bounds) or (None, None)


def human_bound(
    ratings: Ratings, key: str | None = None, *, least: int = LEAST_SHARED, most_pairs: int = MOST_PAIRS, seed: int = 0
) -> HumanBound:
    """Return the mean and maximum correlation between two raters' answers.

    Args:
        key: key of the question; None for the ranking criterion.
        least: minimum number of items that a pair of raters must share.
        most_pairs: maximum number of pairs; a random sample is used if there are more.
    """
    once = ratings.select(ratings.is_named).once()
    values = once.values(key)
    keep = np.isfinite(values)
    if not keep.any():
        text = "no rater is identified in the data"
        return HumanBound(None, None, 0, least, Reason("nobody_named", text))
    table = items_by_raters(values[keep], once.conversation[keep].tolist(), once.rater[keep].tolist())
    present = np.isfinite(table).astype(np.float32)
    pairs = np.argwhere(np.triu(present.T @ present >= least, k=1))
    if len(pairs) > most_pairs:
        sample = np.random.default_rng(seed).choice(len(pairs), most_pairs, replace=False)
        pairs = pairs[np.sort(sample)]
    correlations = [r for i, j in pairs if (r := _pearson(table[:, i], table[:, j])) is not None]
    if not correlations:
        reason = Reason("no_pair_correlates", "no pair of raters has a correlation")
        if not len(pairs):
            text = f"no pair of raters shares {least} items"
            reason = Reason("no_pair_shares", text, min_items=least)
        return HumanBound(None, None, 0, least, reason)
    return HumanBound(float(np.mean(correlations)), float(max(correlations)), len(correlations), least)


def _pearson(first: np.ndarray, second: np.ndarray) -> float | None:
    """Return r over the items rated by both; None if constant."""
    in_both = np.isfinite(first) & np.isfinite(second)
    x, y = first[in_both] - first[in_both].mean(), second[in_both] - second[in_both].mean()
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y / spread) if spread > 0 else None


Label = Literal["contradiction", "neutral", "entailment"]
LABELS: tuple[Label, ...] = ("contradiction", "neutral", "entailment")
THRESHOLDS = (1.0, 2.0)
"""Steps above the lowest grade from which an item is neutral, and from which it is an entailment."""


@dataclass(frozen=True, slots=True)
class GradedItem:
    """One item.

    Attributes:
        counts: number of raters who gave each grade, lowest first.
        grade: most frequent grade; the lowest of several.
        is_tie: True if several were equally frequent.
        by_majority, by_mean: label by the majority grade, and by the mean rating.
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
    """Items of a model.

    Attributes:
        grades: number of items with each grade, lowest first.
        labels: share of its items with each majority label, in the order of `LABELS`, with intervals over items.
    """

    bot: str
    n_items: int
    grades: tuple[int, ...]
    labels: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Grades(SummarisedResult):
    """Majority grades of items and bots.

    Attributes:
        levels: the grades, lowest first.
        bots: highest share of entailments first.
        n_same_label: number of items with the same label under both rules.
    """

    dimension: str
    levels: tuple[float, ...]
    items: tuple[GradedItem, ...]
    bots: tuple[GradedBot, ...]
    n_ties: int
    n_same_label: int

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [[bot.bot, str(bot.n_items), *(share(interval.mean) for interval in bot.labels)] for bot in self.bots]
        foot = f"{self.n_ties} of {len(self.items)} items are ties; the lower grade is used"
        title = f"Labels by majority of {self.dimension}"
        return text_table(title, ["model", "items", *LABELS], rows, foot)


def majority(counts: Sequence[int] | np.ndarray) -> tuple[int, bool]:
    """Return the index of the most frequent grade, and True if tied.

    Of tied grades it is the lowest.

    Args:
        counts: number of raters who gave each grade, lowest first.

    Raises:
        ValueError: if there are none.
    """
    votes = np.asarray(counts)
    if not votes.sum():
        raise ValueError("no item has a grade")
    tops = np.flatnonzero(votes == votes.max())
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
    """Return majority grades of the items on a question with ordered grades.

    Args:
        key: key of the question; None for the ranking criterion.

    Raises:
        ValueError: if there is no question, or its grades are not whole numbers.
    """
    dimension = ratings.dimension(key) if key is not None else ratings.leading
    if dimension is None:
        raise ValueError("the study has no question with grades")
    values = ratings.values(dimension.key)
    keep = np.isfinite(values)
    if (values[keep] % 1 != dimension.low % 1).any():
        raise ValueError(f"the answers to {dimension.key} are not whole-number grades")
    low = dimension.low
    n_levels = round(dimension.high - low) + 1
    names = ratings.conversation[keep].astype(str)
    items, first_at, place = np.unique(names, return_index=True, return_inverse=True)
    steps = np.rint(values[keep] - low).astype(int)
    counts = np.zeros((len(items), n_levels), dtype=int)
    np.add.at(counts, (place, steps), 1)
    bots = ratings.bot[keep]
    graded = [_grade_item(str(items[i]), str(bots[first_at[i]]), counts[i], low) for i in range(len(items))]
    return Grades(
        dimension.key,
        tuple(low + step for step in range(n_levels)),
        tuple(graded),
        _grade_bots(graded, low, n_levels),
        sum(item.is_tie for item in graded),
        sum(item.by_majority == item.by_mean for item in graded),
    )


def _grade_item(item: str, bot: str, counts: np.ndarray, low: float) -> GradedItem:
    place, is_tie = majority(counts)
    grade = low + place
    mean = low + float(counts @ np.arange(len(counts)) / counts.sum())
    return GradedItem(
        item, bot, tuple(int(n) for n in counts), grade, is_tie, mean, label_of(grade, low), label_of(mean, low)
    )


def _grade_bots(items: Sequence[GradedItem], low: float, n_levels: int) -> tuple[GradedBot, ...]:
    bots = []
    for bot in dict.fromkeys(item.bot for item in items):
        bot_items = [item for item in items if item.bot == bot]
        places = np.array([round(item.grade - low) for item in bot_items])
        labels = tuple(
            mean_interval([float(item.by_majority == label) for item in bot_items], scale=SHARE) for label in LABELS
        )
        counts = tuple(int(n) for n in np.bincount(places, minlength=n_levels))
        bots.append(GradedBot(bot, len(bot_items), counts, labels))
    return tuple(sorted(bots, key=lambda bot: (-(bot.labels[-1].mean or 0.0), bot.bot)))
