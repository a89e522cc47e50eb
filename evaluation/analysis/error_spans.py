"""Errors marked in replies: bot scores and rater agreement.

As in Multidimensional Quality Metrics (Freitag et al. 2021), a rating's score is minus the sum of its error weights. A
bot's score per 100 words is the ratio of its total score to its total words, with an interval from the linearised
ratio. Agreement on a reply's text is the F1 of the characters marked by two raters, over all rater pairs of all
replies, with a jackknife interval over replies. Offsets are code points of the stored reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np

from chatbots.text import quote
from evaluation.analysis.bot_means import bot_means
from evaluation.data.ratings import Ratings
from evaluation.findings import Reason
from evaluation.stats.agreement import AgreementEstimate, krippendorff_alpha, rating_table, undefined
from evaluation.stats.constants import RATING_LEVEL
from evaluation.stats.means import Interval, mean_interval
from evaluation.stats.resampling import (
    FEWEST_ITEMS,
    NO_DISAGREEMENT,
    few_for_interval,
    jackknife_interval,
    leave_one_out_values,
)

SCORE = "mqm"
"""Key of the score among the answers."""
SEVERITIES = {"neutral": 0, "minor": 1, "major": 5, "critical": 25}
"""Severities of an error with their usual weights, mildest first."""


@dataclass(frozen=True, slots=True, order=True)
class ErrorSpan:
    """One marked error: code points `start` to `end` (exclusive) of the reply."""

    start: int
    end: int
    category: str
    severity: str

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(
                f"an error is from {self.start} to {self.end}; it must start at 0 or later and end after its start"
            )
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity is {quote(self.severity)}; it must be one of {', '.join(SEVERITIES)}")


@dataclass(frozen=True, slots=True)
class BotErrors:
    """Errors of a bot.

    Attributes:
        n_replies: number of rated replies.
        n_ratings: number of their ratings.
        per_reply: mean number of errors in a rating, by severity.
        score, per_100_words: minus the weighted errors per reply, and per 100 words.
    """

    bot: str
    n_replies: int
    n_ratings: int
    per_reply: Mapping[str, float]
    score: Interval
    per_100_words: Interval


@dataclass(frozen=True, slots=True)
class ErrorResults:
    """All bots, highest score first, and the agreement of raters.

    Attributes:
        overlap: F1 of marked characters.
        same_category: the same, counting only characters with the same category.
        alpha: Krippendorff's alpha of the scores.
    """

    bots: tuple[BotErrors, ...]
    overlap: AgreementEstimate
    same_category: AgreementEstimate
    alpha: AgreementEstimate


def error_results(ratings: Ratings, spans: Sequence[Sequence[ErrorSpan]], texts: Sequence[str]) -> ErrorResults:
    """Return the bots' scores and the raters' agreement.

    Args:
        ratings: of single replies, with the score as the question `SCORE`.
        spans, texts: (k,) errors marked in each rating, and the rated reply.
    """
    scores, words = ratings.values(SCORE), np.array([len(re.findall(r"\S+", text)) for text in texts], dtype=float)
    means, shared = (
        bot_means(ratings, level=RATING_LEVEL),
        ratings.conversation if ratings.shared is None else ratings.shared,
    )
    bots = []
    for bot in sorted(ratings.bots):
        of_bot = ratings.bot == bot
        marked = [span.severity for i in np.flatnonzero(of_bot).tolist() for span in spans[i]]
        n = int(of_bot.sum())
        bots.append(
            BotErrors(
                bot,
                len(set(ratings.conversation[of_bot])),
                n,
                {name: marked.count(name) / n for name in SEVERITIES},
                means.rows[bot, SCORE].interval,
                _per_100_words(scores[of_bot], words[of_bot], ratings.unit[of_bot], shared[of_bot]),
            )
        )
    bots.sort(key=lambda bot_errors: (-(bot_errors.score.mean or 0.0), bot_errors.bot))
    named_ratings = ratings.select(ratings.is_named).once()
    table = rating_table(named_ratings.values(SCORE), named_ratings.conversation.tolist(), named_ratings.rater.tolist())
    return ErrorResults(tuple(bots), *_overlaps(ratings, spans), krippendorff_alpha(table))


def _per_100_words(scores: np.ndarray, words: np.ndarray, raters: np.ndarray, replies: np.ndarray) -> Interval:
    """Return the ratio of score to words with its linearised interval.

    Scores never exceed 0.
    """
    ratio = scores.sum() / max(words.sum(), 1.0)
    linear = ratio + (scores - ratio * words) / max(words.mean(), 1.0)
    interval = mean_interval(100 * linear, raters.astype(str), RATING_LEVEL, things=replies.astype(str))
    high = None if interval.high is None else min(interval.high, 0.0)
    return Interval(interval.mean, interval.low, high, interval.n, interval.reason)


def _overlaps(ratings: Ratings, spans: Sequence[Sequence[ErrorSpan]]) -> tuple[AgreementEstimate, AgreementEstimate]:
    """Return the F1 of marked characters over rater pairs.

    First without, then with categories.
    """
    of_reply: dict[str, list[int]] = {}
    for i, reply in enumerate(ratings.conversation.tolist()):
        of_reply.setdefault(reply, []).append(i)
    shared = [rows for rows in of_reply.values() if len(rows) > 1]
    sums = np.zeros((2, 2, len(shared)))  # (without and with categories; overlap and total; replies)
    for k, rows in enumerate(shared):
        marked = [
            {(position, span.category) for span in spans[i] for position in range(span.start, span.end)} for i in rows
        ]
        for j, sets in enumerate(([{position for position, _category in marks} for marks in marked], marked)):
            for first, second in combinations(cast(list[set[Any]], sets), 2):
                sums[j, :, k] += len(first & second), len(first) + len(second)
    without_categories, with_categories = (_f1(overlap, each, sum(map(len, shared))) for overlap, each in sums)
    return without_categories, with_categories


def _f1(overlap: np.ndarray, each: np.ndarray, n_ratings: int) -> AgreementEstimate:
    n = len(overlap)
    if not each.sum():
        text = "no error was marked in any reply with two raters"
        return undefined(n, n_ratings, Reason("nothing_marked", text))

    def f1(times: np.ndarray) -> np.ndarray:  # (B, replies)
        return 2 * (times @ overlap) / np.maximum(times @ each, 1.0)

    value = float(f1(np.ones((1, n)))[0])
    if n < FEWEST_ITEMS:
        return AgreementEstimate(value, None, None, n, n_ratings, reason=few_for_interval(n))
    low, high = jackknife_interval(value, leave_one_out_values(f1, n, 1000), n_ratings / n, 0.95) or (None, None)
    reason = NO_DISAGREEMENT if low is None else None
    return AgreementEstimate(value, low, high, n, n_ratings, f"jackknife over {n} replies", reason)
