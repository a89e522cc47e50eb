"""Differences of means for every pair of bots, corrected for multiple comparisons.

This is Confab's only fixed-sample test. Differences are estimated by generalised least squares with raters as a random
effect, and their errors are clustered by rater (`evaluation.stats.gls`, with the equations). Where several people rate
the same things (replies to one context), the variance of a pair is the largest of three: over raters, over things, and
over both (Cameron, Gelbach & Miller, 2011, Journal of Business & Economic Statistics 29), with the smaller degrees of
freedom. With few raters or equal ratings on a scale, the interval reaches at least as far as the one made of the two
means' score intervals (`evaluation.stats.score_differences`). p-values are corrected by Holm (1979), Scandinavian
Journal of Statistics 6.

A non-significant difference does not make two bots equal; `is_equal` tests equality.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from evaluation.findings import Reason
from evaluation.stats.conditions import BotFit, conditions_or_none, fit_bots
from evaluation.stats.gls import Gap, label_codes
from evaluation.stats.means import NO_VALUE, ONE_GROUP, interval_ends, mean_p_value, mean_spread
from evaluation.stats.score_differences import ScaledMean, ScoreDifference
from evaluation.stats.zscores import rater_codes

ORDER_ALPHA = 0.10
"""Accepted probability of any wrong order among all pairs of bots, in all rankings by ratings."""
EQUAL_ALPHA = 0.05
"""Level of each of the two one-sided tests of equality."""


ONE_RATING = Reason("one_rating", "a bot has only one rating, so its spread is unknown")
ONE_RATER = Reason("one_rater", "a bot was rated by only one participant")
FEW_RATERS = 40
"""Number of raters of both bots from which Student's interval suffices, if their ratings vary."""
FEW_WITHOUT_SCALE = 20
"""The same number if the scale is unknown and the range of the ratings replaces it."""
NO_SPREAD = Reason("no_spread", "the ratings of neither bot vary")
NO_ERROR = Reason("no_rater_differs", "the raters do not differ, so the error cannot be estimated")
ONE_JUDGEMENT = Reason("one_judgement", "they were compared only once")
NOT_YET_KNOWN = "not yet known"
"""Conclusion on two means that neither differ significantly nor are equal for practical purposes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two bots, `a` before `b` in alphabetical order.

    Attributes:
        difference: mean of a − mean of b, for the average rater.
        low, high: uncorrected interval of the difference; None if there is none.
        p: two-sided p-value; None if undefined.
        p_holm: p-value corrected for all pairs compared.
        ordered: True if p_holm is below 1 − level, so that the two can be ordered.
        reason: reason for a missing p-value.
        error: standard error of the difference; None without a p-value, or if a bot's raters do not differ.
        df: degrees of freedom of that error; None without one.
        equal_low, equal_high: interval of the equality test; None to use `low` and `high`.
    """

    a: str
    b: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    ordered: bool
    reason: Reason | None = None
    error: float | None = None
    df: float | None = None
    equal_low: float | None = None
    equal_high: float | None = None


def is_equal(pair: Comparison, smallest: float | None) -> bool | None:
    """Return True if two bots are equal for practical purposes.

    This is the only rule for equality. It uses two one-sided tests (Schuirmann, 1987, Journal of Pharmacokinetics and
    Biopharmaceutics 15): the 90 % interval of the difference must lie between −smallest and smallest. It is not
    corrected for the number of pairs. The interval of an always-valid test is used unchanged.

    Args:
        smallest: smallest difference of interest, above 0, in the units of the difference.

    Returns:
        None if it cannot be tested, because there is no interval or no smallest difference.
    """
    if smallest is None or pair.low is None or pair.high is None or pair.difference is None:
        return None
    low, high = pair.low, pair.high
    if pair.equal_low is not None and pair.equal_high is not None:
        low, high = pair.equal_low, pair.equal_high
    elif pair.error is not None and pair.df is not None:
        from scipy.special import stdtrit

        half = float(stdtrit(pair.df, 1 - EQUAL_ALPHA)) * pair.error
        low, high = pair.difference - half, pair.difference + half
    return -smallest < low and high < smallest


@dataclass(frozen=True, slots=True)
class TestedPairs:
    """Every pair of bots, with the basis of the test.

    Attributes:
        pairs: sorted by name.
        means: for each rated bot, its mean for the average rater.
        n_raters: number of raters of each bot.
        rater_share: share of the variance around the bot means that is due to raters (0 … 1).
        rater_variance: that variance.
        own_variance: by bot, the variance of its ratings around their raters'. In points².
    """

    pairs: tuple[Comparison, ...]
    means: dict[str, float]
    n_raters: dict[str, int]
    rater_share: float
    rater_variance: float
    own_variance: dict[str, float]


def pairwise(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    conditions: Sequence[Any] | None = None,
    level: float = 0.95,
    scale: tuple[float, float] | None = None,
    equal_alpha: float = EQUAL_ALPHA,
) -> TestedPairs:
    """Compare every pair of bots.

    Args:
        values: (k,) ratings; undefined ones are excluded.
        bots: (k,) bot of each rating.
        raters: (k,) rater of each; None stands for a rater with this rating only.
        things: (k,) rated object, if several people rate the same one; None if all objects differ.
        conditions: (k,) conditions within which bots are compared (`evaluation.stats.conditions`); None to ignore them.
        level: confidence level of the intervals; 1 − level is the accepted probability of any wrong order among all
            pairs.
        scale: its ends; None if unknown. A bot whose ratings are all equal is then not compared, and for bots with few
            raters the range of the ratings serves as the narrowest possible scale.
        equal_alpha: level of each one-sided test of equality.

    Raises:
        ValueError: if lengths differ.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    if len(array) != len(names):
        raise ValueError(f"{len(array)} values for {len(names)} bots; there must be one bot each")
    keep = np.isfinite(array)
    labels = sorted(set(names.tolist()))
    people = np.arange(len(array)) if raters is None else rater_codes(raters)
    if len(people) != len(array):
        raise ValueError(f"{len(array)} values by {len(people)} raters; there must be one each")
    array, names, people = array[keep], names[keep], label_codes(people[keep])
    rated = sorted(set(names.tolist()))
    within = conditions_or_none(conditions)
    condition = None if within is None else within[keep]
    fit = fit_bots(array, label_codes(names), people, condition) if len(array) else None
    over = _Things.from_labels(things, keep, fit) if fit is not None and things is not None else None
    scaled = [] if fit is None else [_scaled_mean(fit, over, array, k) for k in range(len(rated))]
    tested = []
    for a, b in combinations(labels, 2):
        gap, reason = difference_or_reason(array, names, a, b)
        pair = Comparison(a, b, gap, None, None, None, None, ordered=False, reason=reason)
        if fit is not None and a in rated and b in rated:
            i, j = rated.index(a), rated.index(b)
            pair = replace(pair, difference=float(fit.means[i] - fit.means[j]))
            if reason is None and min(fit.fewest_raters[[i, j]]) < 2:
                pair = replace(pair, reason=ONE_RATER)
            elif reason is None:
                difference = ScoreDifference(_get_widest_gap(fit, over, i, j), scaled[i], scaled[j], scale)
                pair = _test(pair, difference, array, level, 1 - 2 * equal_alpha)
        tested.append(pair)
    pairs = tuple(correct_comparisons(tested, level))
    if fit is None:
        return TestedPairs(pairs, {}, {}, 0.0, 0.0, {})
    between, residual = fit.fit.spread

    def by_bot(column: np.ndarray) -> dict[str, Any]:
        return dict(zip(rated, column.tolist(), strict=True))

    residual = fit.weights @ residual
    return TestedPairs(pairs, by_bot(fit.means), by_bot(fit.n_raters), fit.fit.share, between, by_bot(residual))


def _scaled_mean(fit: BotFit, over: _Things | None, values: np.ndarray, bot: int) -> ScaledMean:
    """Return a bot's mean with its variance.

    The variance is 0 if its ratings or raters do not differ.
    """
    counts = (fit.fit.counts @ (fit.weights[bot] > 0)).astype(float)
    n_units = float(counts.sum() ** 2 / (counts @ counts))
    variance = fit.variance(bot)
    if over is not None:
        n_units = min(n_units, float(over.n[bot]))
        variance = max(variance, float(over.covariances[:, bot, bot].max() + fit.borrowed[bot]))
    bot_values = values[fit.bot == bot]
    return ScaledMean(float(fit.means[bot]), 0.0 if np.ptp(bot_values) == 0 else variance, n_units, len(bot_values))


def _test(pair: Comparison, difference: ScoreDifference, values: np.ndarray, level: float, equal: float) -> Comparison:
    """Test one pair.

    Args:
        values: (k,) ratings of all bots.
        level: of the interval.
        equal: level of the equality test's interval.
    """
    sides, scale = (difference.first, difference.second), difference.scale
    if scale is None and not difference.has_error:
        return replace(pair, reason=_no_error_reason(pair, sides))
    fewest = min(side.n_units for side in sides)
    if scale is None and fewest < FEW_WITHOUT_SCALE:
        scale = float(values.min()), float(values.max())
    if fewest >= FEW_RATERS and difference.has_error:
        scale = None
    difference = replace(difference, scale=scale)
    low, high = difference.ends(level)
    equal_low, equal_high = difference.ends(equal)
    pair = replace(pair, low=low, high=high, p=difference.p_value(), equal_low=equal_low, equal_high=equal_high)
    return replace(pair, error=difference.gap.error, df=difference.gap.df) if difference.has_error else pair


def _no_error_reason(pair: Comparison, sides: tuple[ScaledMean, ScaledMean]) -> Reason:
    alike = [(bot, side) for bot, side in zip((pair.a, pair.b), sides, strict=True) if not side.variance > 0]
    if len(alike) != 1:
        return NO_SPREAD if alike else NO_ERROR
    bot, n = alike[0][0], alike[0][1].n
    return Reason("equal_ratings", f"all {n} ratings of {bot} are equal, and the scale is unknown", bot=bot, n=n)


@dataclass(frozen=True, slots=True)
class _Things:
    """Variances clustered by objects that several raters rated.

    Attributes:
        covariances: (2, K, K) of the means, clustered by object, and by rater and object.
        n: (K,) number of objects of each bot.
    """

    covariances: np.ndarray
    n: np.ndarray

    @classmethod
    def from_labels(cls, things: Sequence[Any], keep: np.ndarray, fit: BotFit) -> _Things | None:
        """Return the variances clustered by object, or None.

        None if no object was rated by two people.
        """
        labels = np.asarray(things, dtype=object).astype(str)
        if len(labels) != len(keep):
            raise ValueError(f"{len(keep)} values of {len(labels)} things; there must be one each")
        thing = label_codes(labels[keep])
        n_things = int(thing.max()) + 1
        rater = fit.fit.rater
        rater_thing = label_codes(rater.astype(np.int64) * n_things + thing)
        if int(rater_thing.max()) + 1 == n_things:
            return None
        of_things, n = fit.clustered(thing)
        crossed = fit.clustered(rater)[0] + of_things - fit.clustered(rater_thing)[0]
        return cls(np.stack([of_things, crossed]), n)


def _get_widest_gap(fit: BotFit, over: _Things | None, i: int, j: int) -> Gap:
    gap = fit.gap(i, j)
    if over is None:
        return gap
    variances = over.covariances[:, i, i] + over.covariances[:, j, j] - 2 * over.covariances[:, i, j]
    variances = variances + fit.borrowed[[i, j]].sum()
    df = min(gap.df, max(float(min(over.n[i], over.n[j])) - 1, 1.0))
    return Gap(gap.difference, max(gap.error, float(np.sqrt(max(variances.max(), 0.0)))), df)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values by Holm's step-down procedure.

    Undefined ones stay undefined and are not counted.

    statsmodels' `multipletests` gives the same results (a test checks this) but triggers garbage collection at every
    call: 71 ms in a small process, each time a study is displayed.
    """
    defined = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(defined):
        largest = max(largest, min(1.0, (len(defined) - rank) * p))
        adjusted[i] = largest
    return adjusted


def false_discovery_rates(p_values: Sequence[float | None]) -> list[float | None]:
    """Return q-values by Benjamini and Hochberg (1995).

    Undefined p-values stay undefined and are not counted.
    """
    from scipy.stats import false_discovery_control

    defined = [(p, i) for i, p in enumerate(p_values) if p is not None]
    rates: list[float | None] = [None] * len(p_values)
    q_values = false_discovery_control([p for p, _i in defined]) if defined else ()
    for (_p, i), q in zip(defined, q_values, strict=True):
        rates[i] = float(q)
    return rates


def correct_comparisons(pairs: Sequence[Comparison], level: float) -> list[Comparison]:
    """Return the pairs with Holm-corrected p-values and order decisions.

    Pairs can be ordered at 1 − level.
    """
    return [
        replace(pair, p_holm=p, ordered=p is not None and p < 1 - level)
        for pair, p in zip(pairs, holm([pair.p for pair in pairs]), strict=True)
    ]


class PairScores(NamedTuple):
    """Preferences between two bots, `a` before `b` in alphabetical order.

    Attributes:
        scores: (k,) 1 if a is better, 0 for a tie, -1 if b is better.
        raters, things: (k,) codes; `things` is None if not given.
    """

    a: str
    b: str
    scores: np.ndarray
    raters: np.ndarray
    things: np.ndarray | None


def iterate_pair_scores(
    scores: Sequence[float] | np.ndarray,
    first: Sequence[str],
    second: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
) -> Iterator[PairScores]:
    """Yield the preferences of every two compared bots, sorted by name.

    Args:
        scores: (k,) 1 if the first is better, 0 for a tie, -1 if the second is better; undefined ones are excluded.
        first, second: (k,) the two bots.
        raters, things: (k,) as in `pairwise`.
    """
    array = np.asarray(scores, dtype=float)
    names = [tuple(sorted((str(a), str(b)))) for a, b in zip(first, second, strict=True)]
    turned = [1.0 if a == str(x) else -1.0 for (a, _b), x in zip(names, first, strict=True)]
    people = np.arange(len(array)) if raters is None else rater_codes(raters)
    labels = None if things is None else np.asarray(things, dtype=object).astype(str)
    for a, b in sorted(set(names)):
        here = np.array([name == (a, b) for name in names]) & np.isfinite(array)
        thing_codes = None if labels is None else label_codes(labels[here])
        yield PairScores(a, b, (array * turned)[here], label_codes(people[here]), thing_codes)


def preferences_fixed(
    scores: Sequence[float] | np.ndarray,
    first: Sequence[str],
    second: Sequence[str],
    raters: Sequence[Any] | None = None,
    things: Sequence[Any] | None = None,
    *,
    level: float = 0.95,
) -> list[Comparison]:
    """Return the preferred bot of every compared pair, for a finished study.

    A single look. The difference of a pair is the mean of its scores 1, 0 and -1, with the interval and test of all
    means on a scale (`evaluation.stats.means`), clustered by raters, by things and by both.

    Args:
        scores, first, second: as `iterate_pair_scores`.
        raters, things: as in `pairwise`; a thing is the object of both bots' comparison: a context, or two
            conversations.
        level: confidence level of the intervals; 1 − level is the accepted probability of any wrong order among all
            pairs.

    Returns:
        Pairs sorted by name; p is corrected by Holm, the interval is not.
    """
    scale, preferences = (-1.0, 1.0), []
    for a, b, pair_scores, people, thing_codes in iterate_pair_scores(scores, first, second, raters, things):
        pair = Comparison(a, b, None, None, None, None, None, ordered=False, reason=NO_VALUE)
        if len(pair_scores):
            shared = thing_codes if thing_codes is not None and len(np.unique(thing_codes)) < len(thing_codes) else None
            spread, gap = mean_spread(pair_scores, people, shared), float(pair_scores.mean())
            alone = ONE_JUDGEMENT if len(pair_scores) == 1 else ONE_GROUP
            pair = replace(pair, difference=gap, reason=alone)
            if spread is not None:
                low, high = interval_ends(gap, spread, level, scale) or (None, None)
                p = mean_p_value(gap, spread, 0.0, scale)
                pair = replace(pair, low=low, high=high, p=p, df=spread.df, reason=None)
        preferences.append(pair)
    return correct_comparisons(preferences, level)


def rank_ranges(bots: Collection[str], pairs: Iterable[Comparison]) -> dict[str, tuple[int, int]]:
    """Return each bot's best and worst rank compatible with the comparisons.

    Ranks count from 1. A bot ranks below all bots that are significantly better, and above all that are significantly
    worse (corrected p-values).
    """
    above = dict.fromkeys(bots, 0)
    below = dict(above)
    for pair in pairs:
        if not pair.ordered or pair.difference is None or not {pair.a, pair.b} <= above.keys():
            continue
        better, worse = (pair.a, pair.b) if pair.difference > 0 else (pair.b, pair.a)
        above[worse] += 1
        below[better] += 1
    return {bot: (1 + above[bot], len(above) - below[bot]) for bot in above}


def difference_or_reason(array: np.ndarray, names: np.ndarray, a: str, b: str) -> tuple[float | None, Reason | None]:
    """Return the difference of plain means, and the reason if untestable.

    Args:
        array, names: (k,) finite ratings and their bots.
    """
    x, y = array[names == a], array[names == b]
    if not len(x) or not len(y):
        missing = a if not len(x) else b
        return None, Reason("no_rating_of_bot", f"{missing} has no ratings", bot=missing)
    gap = float(x.mean() - y.mean())
    return gap, ONE_RATING if len(x) < 2 or len(y) < 2 else None
