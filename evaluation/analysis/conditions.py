"""Means and comparisons of bots for every level of every factor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.analysis.bot_means import BotMeans, bot_means
from evaluation.analysis.comparisons import Comparisons, compare
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.tables import SummarisedResult, text_table
from evaluation.number_format import figure, span
from evaluation.stats.means import NO_VALUE, Interval


@dataclass(frozen=True, slots=True)
class LevelResult:
    """Bots under one level of a factor.

    Attributes:
        n_conversations: rated conversations by bot.
        means, compared: results for the ratings under this level, by the headline score; conditions of the other
            factors are weighted equally.
    """

    factor: str
    level: str
    n_conversations: dict[str, int]
    means: BotMeans
    compared: Comparisons

    def interval(self, bot: str, key: str) -> Interval:
        """Return a bot's mean of a dimension; undefined if unrated."""
        row = self.means.rows.get((bot, key))
        return row.interval if row is not None else Interval(None, None, None, 0, NO_VALUE)


@dataclass(frozen=True, slots=True, repr=False)
class ConditionResults(SummarisedResult):
    """Bots under every level; empty without factors.

    Attributes:
        dimension: dimension that bots are ranked by.
        bots: rated bots, by name.
    """

    dimension: RatingDimension | None
    bots: tuple[str, ...]
    levels: tuple[LevelResult, ...]

    def get_level(self, factor: str, level: str) -> LevelResult | None:
        """Return the result of a level; None if it has no ratings."""
        for level_result in self.levels:
            if (level_result.factor, level_result.level) == (factor, level):
                return level_result
        return None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        return {
            "dimension": self.dimension.key if self.dimension else None,
            "levels": [
                {
                    "factor": level_result.factor,
                    "level": level_result.level,
                    "n_conversations": level_result.n_conversations,
                    "means": level_result.means.to_json(),
                    "compared": level_result.compared.to_json(),
                }
                for level_result in self.levels
            ],
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                level_result.factor,
                level_result.level,
                bot,
                str(interval.n),
                figure(interval.mean),
                span(interval.low, interval.high),
            ]
            for level_result in self.levels
            for bot in self.bots
            for interval in [level_result.interval(bot, self.dimension.key if self.dimension else "")]
        ]
        return text_table("Bots by condition", ["factor", "level", "bot", "n", "mean", "interval"], rows)


def condition_results(ratings: Ratings) -> ConditionResults:
    """Return means and comparisons for every level, by the headline score."""
    leading = ratings.leading
    if leading is None or not ratings.condition:
        return ConditionResults(leading, (), ())
    known = ratings.select(np.isfinite(ratings.values()))
    level_results = []
    for factor, levels in known.condition.items():
        other_factors = {name: values for name, values in known.condition.items() if name != factor}
        for level in sorted(set(levels.tolist()) - {""}):
            level_ratings = replace(known, condition=other_factors).select(levels == level)
            pairs = set(zip(level_ratings.bot.tolist(), level_ratings.conversation.tolist(), strict=True))
            n = {bot: sum(rated_bot == bot for rated_bot, _chat in pairs) for bot in sorted(level_ratings.bots)}
            level_results.append(
                LevelResult(factor, level, n, bot_means(level_ratings), compare(level_ratings, plans=False))
            )
    return ConditionResults(leading, tuple(sorted(known.bots)), tuple(level_results))
