"""Mean ratings of each bot, and selection of ratings under shared conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from evaluation.analysis.levels import interval_level
from evaluation.data.ratings import MEAN_KEY, Ratings
from evaluation.data.tables import number_or_reason, text_table
from evaluation.number_format import BY_TUPLE, figure, span
from evaluation.stats.conditions import mean_within, shared_conditions
from evaluation.stats.gls import label_codes
from evaluation.stats.means import NO_SCALE, Interval
from evaluation.stats.sequential import mean_always


def within_conditions(ratings: Ratings) -> Ratings:
    """Return the ratings used to compare bots.

    These are the ratings under conditions that all bots share, with two raters of every bot. If there is no such
    condition, all ratings count and conditions are ignored. Ratings without a value are kept.
    """
    conditions = ratings.conditions
    if conditions is None:
        return ratings
    known = np.isfinite(ratings.values())
    is_kept = ~known
    is_kept[known] = shared_conditions(ratings.bot[known], conditions[known], ratings.unit[known])
    return ratings.select(is_kept) if is_kept[known].any() else replace(ratings, condition={})


def n_conditions(known: Ratings) -> int:
    """Return the number of conditions within which bots are compared.

    Bots may differ by missing ratings; the bot with the most ratings counts.
    """
    conditions = known.conditions
    if conditions is None or not len(known):
        return 0
    top_bot, _n = Counter(known.bot.tolist()).most_common(1)[0]
    return len(set(conditions[known.bot == top_bot].tolist()))


@dataclass(frozen=True, slots=True)
class BotMean:
    """Ratings of one bot on one dimension.

    Attributes:
        interval: its mean with the ends of the interval.
        sd: standard deviation of the ratings; None for a single rating.
        quantiles: minimum, first quartile, median, third quartile, maximum; empty without ratings.
    """

    bot: str
    dimension: str
    interval: Interval
    sd: float | None
    quantiles: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        return {
            "bot": self.bot,
            "dimension": self.dimension,
            "n": self.interval.n,
            "mean": self.interval.mean,
            "low": self.interval.low,
            "high": self.interval.high,
            "sd": self.sd,
            "quantiles": list(self.quantiles),
            **number_or_reason(self.interval.reason),
        }


@dataclass(frozen=True, slots=True)
class BotMeans:
    """Means of every bot and dimension.

    Attributes:
        level: confidence level of the intervals.
        n_ratings: by bot.
        rows: by bot and dimension's key.
        unknown: keys of dimensions with an unknown scale, whose intervals have no limits.
        is_always_valid: True if the intervals hold at any look, like the test of the bots' differences.
    """

    level: float
    n_ratings: Mapping[str, int]
    rows: Annotated[Mapping[tuple[str, str], BotMean], BY_TUPLE]
    unknown: tuple[str, ...] = ()
    is_always_valid: bool = False

    def intervals(self, bot: str) -> dict[str, Interval]:
        """Return a bot's mean of each dimension."""
        return {key: row.interval for (name, key), row in self.rows.items() if name == bot}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        means = [row.to_json() for row in self.rows.values()]
        return {"level": self.level, "means": means, "scale_unknown": list(self.unknown)}

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(row.bot, row.dimension, str(row.interval.n), figure(row.interval.mean)),
                *(span(row.interval.low, row.interval.high), figure(row.sd)),
            ]
            for row in self.rows.values()
        ]
        headers = ["bot", "dimension", "n", "mean", f"{self.level:.0%}", "sd"]
        foot = f"unknown scale, so intervals have no limits: {', '.join(self.unknown)}" if self.unknown else ""
        title = "Ratings by bot" + ("; intervals hold at any look" if self.is_always_valid else "")
        return text_table(title, headers, rows, foot)


def bot_means(ratings: Ratings, *, level: float | None = None) -> BotMeans:
    """Return every bot's mean of every dimension and of the headline score.

    Args:
        level: confidence level of the intervals, with independent raters (conversations, if raters are unnamed); None
            for that of the ratings.

    Conditions are weighted equally (`within_conditions`). The intervals are of the kind used to test differences:
    always-valid while a study collects data.
    """
    level = interval_level(ratings.level if level is None else level)
    keys = [dimension.key for dimension in ratings.dimensions]
    if ratings.leading is not None and ratings.leading.key not in keys:
        keys.insert(0, ratings.leading.key)
    rows = {}
    ratings_by_key = {key: replace(ratings, headline=ratings.headline if key == MEAN_KEY else (key,)) for key in keys}
    ratings_by_key = {key: within_conditions(key_ratings) for key, key_ratings in ratings_by_key.items()}
    for bot in sorted(ratings.bots):
        for key, used in ratings_by_key.items():
            of_bot = used.bot == bot
            known = used.values()[of_bot]
            known = known[np.isfinite(known)]
            mean = _mean(used, of_bot, level)
            rows[bot, key] = BotMean(
                bot,
                key,
                mean,
                float(known.std(ddof=1)) if len(known) > 1 else None,
                tuple(np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist()) if len(known) else (),
            )
    n_ratings = {bot: int((ratings.bot == bot).sum()) for bot in sorted(ratings.bots)}
    unknown = tuple(key for key in keys if ratings.bounds(key) is None)
    return BotMeans(level, n_ratings, rows, unknown, ratings.is_collecting)


def _mean(ratings: Ratings, mask: np.ndarray, level: float) -> Interval:
    """Return the mean of the masked ratings with its interval; the mask is (k,)."""
    values, scale = ratings.values()[mask], ratings.bounds()
    units = label_codes(ratings.unit[mask].astype(str))
    things = None if ratings.shared is None else label_codes(ratings.shared[mask].astype(str))
    conditions = None if ratings.conditions is None else ratings.conditions[mask]
    if not ratings.is_collecting:
        return mean_within(values, units, level, conditions=conditions, scale=scale, things=things)
    low, high = ratings.scale()
    lists = units.tolist(), None if things is None else things.tolist()
    mean = mean_always(values, *lists, low=low, high=high, level=level, conditions=conditions)
    return mean if scale is not None or mean.mean is None else replace(mean, low=None, high=None, reason=NO_SCALE)
