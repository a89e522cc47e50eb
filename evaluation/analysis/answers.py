"""Distribution of the answers to each question, and shares of chosen options.

Importance of options: the share of people who chose each option, and weights derived from these shares. Shi et al.
(2023) let 100 people choose the four most important of six sub-metrics; the weight of a sub-metric is the softmax of
its share, over those that apply to an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.data.ratings import MEAN_KEY, RatingDimension, Ratings
from evaluation.data.tables import SummarisedResult, text_table, to_plain
from evaluation.findings import Reason
from evaluation.number_format import figure, share, span
from evaluation.stats.constants import SCORE_LEVEL
from evaluation.stats.means import SHARE, mean_interval, wilson

MOST_STEPS = 11
"""Number of steps shown for a scale with more points."""


@dataclass(frozen=True, slots=True)
class BotAnswers:
    """Distribution of one bot's answers to a question.

    Attributes:
        counts: number of answers at each step; an answer between two steps counts for the nearer one.
        mean: mean answer; None if there are none.
    """

    bot: str
    counts: tuple[int, ...]
    mean: float | None

    @property
    def n(self) -> int:
        """Number of answers."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class SharedRatings:
    """Difference between ratings of the same conversation by two raters.

    Attributes:
        n_conversations: conversations with two or more raters.
        difference: mean absolute difference of two of their ratings; None without such conversations.
        by_chance: the same for any two ratings.
    """

    n_conversations: int
    difference: float | None
    by_chance: float | None


@dataclass(frozen=True, slots=True)
class DimensionAnswers:
    """The answers to one question.

    Attributes:
        steps: values of its scale, lowest first.
        bots: highest mean first, then bots without answers.
    """

    dimension: str
    steps: tuple[float, ...]
    bots: tuple[BotAnswers, ...]
    shared: SharedRatings


@dataclass(frozen=True, slots=True, repr=False)
class AnswerDistributions(SummarisedResult):
    """The answers to every question of a study."""

    dimensions: tuple[DimensionAnswers, ...]

    def get_dimension(self, key: str) -> DimensionAnswers:
        """Return the answers to one question.

        Raises:
            KeyError: if there is no such question.
        """
        for answers in self.dimensions:
            if answers.dimension == key:
                return answers
        raise KeyError(key)

    def to_json(self) -> dict[str, Any]:
        """Return plain values by dimension; undefined ones are null."""
        return {answers.dimension: to_plain(answers) for answers in self.dimensions}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(answers.dimension, f"{answers.shared.n_conversations:,}"),
                *(figure(answers.shared.difference), figure(answers.shared.by_chance)),
            ]
            for answers in self.dimensions
        ]
        headers = ["dimension", "rated by several", "they differ by", "any two by"]
        return text_table("Answers", headers, rows)


def answers(ratings: Ratings, bots: Sequence[str] = ()) -> AnswerDistributions:
    """Return the distribution of the answers to every question.

    Args:
        bots: bots to include even without an answer.
    """
    return AnswerDistributions(tuple(dimension_answers(ratings, d.key, bots) for d in ratings.dimensions))


def dimension_answers(ratings: Ratings, key: str | None = None, bots: Sequence[str] = ()) -> DimensionAnswers:
    """Return the distribution of the answers to one question.

    Args:
        key: key of the dimension; None for the ranking criterion.
        bots: bots to include in any case, in the order that breaks ties.

    Raises:
        ValueError: if the dimension is unknown.
    """
    dimension = ratings.leading if key in (None, MEAN_KEY) else ratings.dimension(str(key))
    if dimension is None:
        raise ValueError("the study has no rating dimension")
    values = ratings.values(dimension.key)
    steps = scale_steps(dimension, values)
    names = dict.fromkeys([*bots, *ratings.bots])
    of_bots = [_of_bot(bot, values[ratings.bot == bot], steps) for bot in names]
    of_bots.sort(key=lambda bot_answers: float("inf") if bot_answers.mean is None else -bot_answers.mean)
    return DimensionAnswers(dimension.key, steps, tuple(of_bots), shared_ratings(ratings, dimension.key))


def scale_steps(dimension: RatingDimension, values: np.ndarray) -> tuple[float, ...]:
    """Return the steps at which answers are counted.

    These are the scale's whole numbers, the observed values if it has no ends, or eleven equidistant steps.
    """
    low, high = float(dimension.low), float(dimension.high)
    if low.is_integer() and high.is_integer() and high - low < MOST_STEPS:
        return tuple(low + i for i in range(int(high - low) + 1))
    seen = sorted(set(values[np.isfinite(values)].tolist()))
    if 0 < len(seen) <= MOST_STEPS:
        return tuple(seen)
    return tuple(np.linspace(dimension.low, dimension.high, MOST_STEPS).round(2).tolist())


def shared_ratings(ratings: Ratings, key: str) -> SharedRatings:
    """Return the mean difference of two raters' ratings of one conversation.

    A rater's repeated ratings are ignored.
    """
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


@dataclass(frozen=True, slots=True)
class OptionApproval:
    """One option.

    Attributes:
        n: number of people who chose it.
        approval: their share, with the ends of its interval (Wilson 1927).
        weight: softmax of the shares, with the ends of its interval over people; None for a single person.
    """

    option: str
    n: int
    approval: float
    low: float
    high: float
    weight: float
    weight_low: float | None
    weight_high: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Approval(SummarisedResult):
    """All options, in the order of the question.

    Attributes:
        reason: reason if there are no results.
    """

    n_people: int
    options: tuple[OptionApproval, ...]
    reason: Reason | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each option."""
        return {option.option: option.weight for option in self.options}

    def summary(self) -> str:
        """Return a table for a terminal."""
        if self.reason is not None:
            return f"Choices of participants: {self.reason}"
        rows = [
            [
                *(option.option, share(option.approval), span(option.low, option.high, shares=True)),
                *(share(option.weight, 3), str(option.n)),
            ]
            for option in self.options
        ]
        title = f"Choices of {self.n_people:,} participants"
        return text_table(title, ["option", "share", f"{SCORE_LEVEL:.0%}", "weight", "n"], rows)


def softmax_weights(shares: Mapping[str, float]) -> dict[str, float]:
    """Return softmax weights of shares, which sum to 1."""
    if not shares:
        return {}
    raw = _softmax(np.array([list(shares.values())], dtype=float))[0]
    return dict(zip(shares, (float(weight) for weight in raw), strict=True))


def approval(chosen: np.ndarray, options: Sequence[str], *, level: float = SCORE_LEVEL) -> Approval:
    """Return the share of people who chose each option.

    Args:
        chosen: (people, options) 1 if the person chose it, otherwise 0.
        level: confidence level of the intervals.

    Raises:
        ValueError: if the table has another shape or values other than 0 and 1.
    """
    table = np.asarray(chosen, dtype=float).reshape(len(chosen), -1) if len(chosen) else None
    if table is None:
        return Approval(0, (), Reason("nobody_chose", "no participant has made a choice yet"))
    if table.shape[1] != len(options) or not np.isin(table, (0, 1)).all():
        raise ValueError(
            f"chosen has shape {table.shape}; it must contain 0 or 1 for each person and each of {len(options)} options"
        )
    n = len(table)
    shares = table.mean(axis=0)
    low, high = wilson(shares, n, level)
    weights = _softmax(shares[None])[0]
    ends = _weight_ends(table, weights, level)
    approvals = [
        OptionApproval(
            option,
            int(table[:, j].sum()),
            float(shares[j]),
            float(low[j]),
            float(high[j]),
            float(weights[j]),
            None if ends is None else float(ends[0][j]),
            None if ends is None else float(ends[1][j]),
        )
        for j, option in enumerate(options)
    ]
    return Approval(n, tuple(approvals))


def _weight_ends(table: np.ndarray, weights: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the ends of each weight's interval; None for a single person.

    log(w / (1 − w)) of a weight is the difference between the option's share and a weighted mean of the others. Its
    interval is derived from those of the shares (MOVER; Zou and Donner 2008, Statistics in Medicine 27), which stay on
    their scale even if everybody or nobody chose an option.

    Args:
        table: (people, options).
        weights: (options,).
    """
    n, n_options = table.shape
    if n < 2:
        return None
    if n_options < 2:
        return weights, weights  # a single option has all the weight
    shares = table.mean(axis=0)
    intervals = [mean_interval(column, level=level, scale=SHARE) for column in table.T]
    down = np.array([mean - interval.low for mean, interval in zip(shares, intervals, strict=True)])
    up = np.array([interval.high - mean for mean, interval in zip(shares, intervals, strict=True)])
    spread = table.std(axis=0)
    apart = (table - shares) / np.where(spread > 0, spread, 1.0)
    together = apart.T @ apart / n
    np.fill_diagonal(together, 1.0)
    # For option j: 1 for its own share, minus the others' weights.
    moves = np.eye(n_options) - (1 - np.eye(n_options)) * weights / (1 - weights)[:, None]
    logits = np.log(weights / (1 - weights))
    ends = []
    for sign in (-1, 1):
        reach = moves * np.where(moves * sign > 0, up, down)
        half = np.sqrt(np.maximum(np.einsum("ji,ik,jk->j", reach, together, reach), 0.0))
        odds = np.exp(logits + sign * half)
        ends.append(odds / (1 + odds))
    return np.minimum(ends[0], weights), np.maximum(ends[1], weights)  # rounding


def _softmax(shares: np.ndarray) -> np.ndarray:
    raised = np.exp(shares - shares.max(axis=1, keepdims=True))  # (B, options)
    result: np.ndarray = raised / raised.sum(axis=1, keepdims=True)
    return result
