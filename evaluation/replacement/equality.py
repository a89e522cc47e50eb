"""Question 2: are the values of a candidate within the margin of people's?

For each bot, the difference is that of two expected values: of the candidate's scores, turned into people's scale by
the other bots, and of people's ratings. Two one-sided tests at level α show that it is within the margin (Schuirmann
1987). All bots must pass, so the largest p-value counts and needs no correction over bots (Berger 1982). The answer is
"no" if one bot is shown to be beyond the margin, corrected over bots.

If the same chats are rated and scored, the differences are paired by rating. Their error is the larger of the errors
clustered by rater and by chat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from evaluation.findings import Reason
from evaluation.replacement.result import ALPHA, BotDifference, Equality, Settlement
from evaluation.stats.effect_sizes import Effect
from evaluation.stats.gls import label_codes

MOST_RATINGS = 100_000
NO_MARGIN = Reason(
    "no_margin", "the scale is not known, so there is no margin; set the smallest difference that matters to you"
)
NO_VALUES = Reason("no_values_on_scale", "it gives no values on people's scale for these bots")
FEW_FOR_ERROR = Reason(
    "few_ratings_for_error", "a bot has too few ratings, or all of them are equal, so the error is unknown"
)


@dataclass(frozen=True, slots=True)
class ValueMean:
    """Mean with its variance and degrees of freedom.

    Attributes:
        variance: None if unknown.
    """

    mean: float
    variance: float | None
    df: float


def clustered_mean(values: np.ndarray, *groupings: np.ndarray) -> ValueMean:
    """Compute the mean of (n,) values; the grouping with the largest variance counts.

    Args:
        groupings: (n,) labels; values of a group are not independent.
    """
    mean = float(values.mean())
    largest: tuple[float, int] | None = None
    for labels in groupings:
        codes = label_codes(labels)
        n_groups = int(codes.max()) + 1
        if n_groups < 2:
            return ValueMean(mean, None, 0)
        sums = np.bincount(codes, values - mean)
        variance = float((sums**2).sum()) / len(values) ** 2 * n_groups / (n_groups - 1)
        largest = max(largest or (-1.0, 0), (variance, n_groups - 1))
    variance, df = largest or (0.0, 0)
    return ValueMean(mean, variance if variance > 1e-18 * max(1.0, mean**2) else None, df)


def independent_difference(first: ValueMean, second: ValueMean) -> ValueMean:
    """Return the difference of two independent means, with the degrees of freedom of Welch."""
    mean = first.mean - second.mean
    if first.variance is None or second.variance is None:
        return ValueMean(mean, None, 0)
    variance = first.variance + second.variance
    df = variance**2 / (first.variance**2 / first.df + second.variance**2 / second.df)
    return ValueMean(mean, variance, df)


def difference_of_bot(
    bot: str, value: float, people: float, n_ratings: int, difference: ValueMean, margin: float | None
) -> BotDifference:
    """Test the difference of one bot against the margin, in points."""
    from scipy import stats

    if difference.variance is None:
        return BotDifference(bot, value, people, Effect(difference.mean, reason=FEW_FOR_ERROR), n_ratings)
    error = difference.variance**0.5
    half = float(stats.t.ppf(1 - ALPHA, difference.df)) * error
    effect = Effect(difference.mean, difference.mean - half, difference.mean + half)
    if margin is None:
        return BotDifference(bot, value, people, effect, n_ratings)
    distance = abs(difference.mean)
    p_within = float(stats.t.sf((margin - distance) / error, difference.df))
    p_beyond = float(stats.t.sf((distance - margin) / error, difference.df))
    return BotDifference(bot, value, people, effect, n_ratings, p_within, p_beyond)


def compare_values(differences: Sequence[BotDifference], margin: float | None) -> Equality:
    """Answer the question for one candidate, before correction over candidates."""
    from scipy import stats

    bots = tuple(sorted(differences, key=lambda bot: -abs(bot.difference.value or 0.0)))
    if not bots:
        return Equality("not_known", reason=NO_VALUES, settled_by=Settlement("better_candidate"))
    if margin is None:
        return Equality("not_known", bots, reason=NO_MARGIN, settled_by=Settlement("margin"))
    beyond = [bot.p_beyond for bot in bots if bot.p_beyond is not None]
    if beyond and min(beyond) * len(bots) <= ALPHA:
        return Equality("no", bots)
    within = [bot.p_within for bot in bots]
    if any(p is None for p in within):
        return Equality("not_known", bots, reason=FEW_FOR_ERROR, settled_by=Settlement("ratings"))
    p = max(p for p in within if p is not None)
    if p <= ALPHA:
        return Equality("not_known", bots, p)  # the correction over candidates decides
    needed = 0.0
    for bot in bots:
        room = margin - abs(bot.difference.value or 0.0)
        if room <= 0:
            return Equality("not_known", bots, p, settled_by=Settlement("better_candidate"))
        half = ((bot.difference.high or 0.0) - (bot.difference.low or 0.0)) / 2
        quantile = float(stats.norm.ppf(1 - ALPHA)) / float(stats.t.ppf(1 - ALPHA, max(bot.n_ratings - 1, 1)))
        needed = max(needed, bot.n_ratings * (half * quantile / room) ** 2)
    settlement = Settlement("ratings", ceil(needed)) if needed <= MOST_RATINGS else Settlement("better_candidate")
    return Equality("not_known", bots, p, settled_by=settlement)


def paired_differences(
    values: np.ndarray,
    scores: np.ndarray,
    bots: np.ndarray,
    raters: np.ndarray,
    chats: np.ndarray,
    margin: float | None,
) -> list[BotDifference]:
    """Return the difference of each bot whose rated chats are scored.

    Args:
        values, scores: (k,) ratings, and values of the candidate for the same chats, NaN if undefined.
        bots, raters, chats: (k,) of each rating; a rater without a name has the name of the chat.
    """
    known = np.isfinite(values + scores)
    differences = []
    for bot in dict.fromkeys(bots[known].tolist()):
        rows = known & (bots == bot)
        mean = clustered_mean(scores[rows] - values[rows], raters[rows], chats[rows])
        value, people = float(scores[rows].mean()), float(values[rows].mean())
        differences.append(difference_of_bot(bot, value, people, int(rows.sum()), mean, margin))
    return differences


def separate_differences(
    values: np.ndarray,
    bots: np.ndarray,
    raters: np.ndarray,
    chats: np.ndarray,
    scores: Mapping[str, np.ndarray],
    margin: float | None,
) -> list[BotDifference]:
    """Return the difference of each bot that is scored in other chats than the rated ones.

    Args:
        values, bots, raters, chats: as in `paired_differences`.
        scores: values of the candidate by bot, one for each chat without people.
    """
    differences = []
    for bot, bot_scores in scores.items():
        rows = np.isfinite(values) & (bots == bot)
        defined = bot_scores[np.isfinite(bot_scores)]
        if not rows.any() or not len(defined):
            continue
        people = clustered_mean(values[rows], raters[rows], chats[rows])
        candidate = clustered_mean(defined, np.arange(len(defined)))
        difference = independent_difference(candidate, people)
        differences.append(difference_of_bot(bot, candidate.mean, people.mean, int(rows.sum()), difference, margin))
    return differences
