"""Ratings of replies relative to a scored reference (Shi et al. 2023).

A rater first states whether the reply is better than, as good as or worse than the reference, then scores it on
sub-metrics. The overall score is the weighted mean of the applicable ones. Raters are instructed that a better reply
scores above the reference and a worse one below. Compliance with this rule is reported here and does not exclude any
rater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evaluation.data.ratings import Ratings
from evaluation.data.tables import SummarisedResult, text_table
from evaluation.number_format import figure, share, span
from evaluation.stats.means import SHARE, Interval, mean_interval

WORSE, SAME, BETTER = -1, 0, 1
DIRECTIONS = (WORSE, SAME, BETTER)
SAME_WITHIN = 0.5
"""Maximum distance between the mean of sub-metrics and the reference's score that counts as equal."""
MOST_APART = 1.0
"""Distance above which a mean contradicts the rating "as good as the reference"."""


@dataclass(frozen=True, slots=True)
class ReferencedBot:
    """A model compared with the references.

    Attributes:
        overall: weighted mean of the sub-metrics, with an interval over raters.
        directions: shares of the ratings worse, same and better, with intervals over raters.
        above: mean difference of the overall score from the reference's.
    """

    bot: str
    n_ratings: int
    overall: Interval
    directions: tuple[Interval, ...]
    above: Interval


@dataclass(frozen=True, slots=True, repr=False)
class ReferenceRatings(SummarisedResult):
    """All models compared with the references, best overall first.

    Attributes:
        weights: weight of each sub-metric, before non-applicable ones are removed; they sum to 1.
        n_ratings: ratings with a direction and a reference score.
        n_kept_rule, n_contradicting: ratings whose scores agree with, and contradict, the direction; the others are in
            between ("better" with an equal score).
        n_revised: ratings in which the reference's score was changed.
        revised_by: mean of these changes; None without any.
    """

    weights: dict[str, float]
    bots: tuple[ReferencedBot, ...]
    n_ratings: int
    n_kept_rule: int
    n_contradicting: int
    n_revised: int
    revised_by: float | None

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(bot.bot, figure(bot.overall.mean), span(bot.overall.low, bot.overall.high)),
                *(share(interval.mean) for interval in bot.directions),
                str(bot.n_ratings),
            ]
            for bot in self.bots
        ]
        headers = ["model", "overall", "90%", "worse", "same", "better", "n"]
        foot = f"{self.n_kept_rule} of {self.n_ratings} ratings agree with their direction"
        return text_table("Compared with the reference", headers, rows, foot)


def contradicts(direction: float, overall: float, reference: float) -> bool:
    """Return True if a reply's score contradicts the rater's direction.

    Contradictions are "worse" with a score above the reference's, "better" with one below, and "same" with a distance
    of more than one point.
    """
    if direction == SAME:
        return abs(overall - reference) > MOST_APART
    return direction * (overall - reference) < 0


def keeps_rule(direction: float, overall: float, reference: float) -> bool:
    """Return True if a reply's score agrees with the rater's direction."""
    if direction == SAME:
        return abs(overall - reference) <= SAME_WITHIN
    return direction * (overall - reference) > 0


def overall_scores(ratings: Ratings, weights: Mapping[str, float] | None = None) -> np.ndarray:
    """Return each rating's weighted mean of answered sub-metrics, (k,).

    NaN without an answer.

    Args:
        weights: weight by sub-metric; None: equal weights.

    Raises:
        ValueError: if a sub-metric has no weight.
    """
    keys = [dimension.key for dimension in ratings.dimensions]
    if weights is None:
        weights = dict.fromkeys(keys, 1.0)
    missing = [key for key in keys if key not in weights]
    if missing:
        raise ValueError(f"no weight for {missing[0]}; there are weights for {', '.join(weights)}")
    table = ratings.table()  # (k, d)
    is_answered = np.isfinite(table)
    weight = np.array([weights[key] for key in keys]) * is_answered
    total = weight.sum(axis=1)
    sums = (np.where(is_answered, table, 0.0) * weight).sum(axis=1)
    return np.divide(sums, total, out=np.full(len(table), np.nan), where=total > 0)


def reference_ratings(
    ratings: Ratings,
    direction: np.ndarray,
    reference: np.ndarray,
    known: np.ndarray,
    weights: Mapping[str, float] | None = None,
) -> ReferenceRatings:
    """Compare models with the references, from the raters' scores.

    Args:
        ratings: ratings on the sub-metrics.
        direction: (k,) −1 worse, 0 same, 1 better; NaN if missing.
        reference: (k,) final reference score of the rater.
        known: (k,) reference score that was shown.
        weights: weight by sub-metric; None: equal weights.
    """
    overall = overall_scores(ratings, weights)
    is_complete = np.isfinite(direction) & np.isfinite(reference) & np.isfinite(overall)
    triples = list(zip(*(column[is_complete].tolist() for column in (direction, overall, reference)), strict=True))
    changed = (reference - known)[np.isfinite(reference) & np.isfinite(known)]
    changed = changed[changed != 0]
    raw = weights or dict.fromkeys((d.key for d in ratings.dimensions), 1.0)
    weight_by_key = {d.key: raw[d.key] for d in ratings.dimensions}
    total = sum(weight_by_key.values())
    bots = [
        _bot(ratings, bot, overall, direction, overall - reference)
        for bot in ratings.bots
        if np.isfinite(overall[ratings.bot == bot]).any()
    ]
    return ReferenceRatings(
        {key: weight / total for key, weight in weight_by_key.items()},
        tuple(sorted(bots, key=lambda bot: (-(bot.overall.mean or 0.0), bot.bot))),
        len(triples),
        sum(keeps_rule(*triple) for triple in triples),
        sum(contradicts(*triple) for triple in triples),
        len(changed),
        float(changed.mean()) if len(changed) else None,
    )


def _bot(ratings: Ratings, bot: str, overall: np.ndarray, direction: np.ndarray, above: np.ndarray) -> ReferencedBot:
    of_bot = ratings.bot == bot
    unit = ratings.unit[of_bot]
    things = None if ratings.shared is None else ratings.shared[of_bot]
    # The mean of several questions lies within the widest of their scales.
    scale = (
        None
        if any(dimension.inferred for dimension in ratings.dimensions)
        else (
            min(dimension.low for dimension in ratings.dimensions),
            max(dimension.high for dimension in ratings.dimensions),
        )
    )
    bot_directions = direction[of_bot]
    shares = tuple(
        mean_interval(
            np.where(np.isfinite(bot_directions), bot_directions == choice, np.nan), unit, scale=SHARE, things=things
        )
        for choice in DIRECTIONS
    )
    return ReferencedBot(
        bot,
        int(np.isfinite(overall[of_bot]).sum()),
        mean_interval(overall[of_bot], unit, scale=scale, things=things),
        shares,
        mean_interval(above[of_bot], unit, things=things),
    )
