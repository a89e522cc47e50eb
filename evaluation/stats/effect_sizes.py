"""Effect sizes of the difference between two bots.

With D the difference of the bots' means for the average rater (`evaluation.stats.gls`), s_a and s_b the standard
deviations of their ratings, and A, B one rating of each, all within conditions (`evaluation.stats.conditions`):

    standardised difference  d = D / s,  s² = (s_a² + s_b²) / 2
    share of the scale       D / (highest − lowest answer)
    superiority              P = P(A > B) + P(A = B) / 2

The errors of d and P come from their influence functions (delta method), summed over raters. For P these are the
placements of DeLong (1988), clustered as in Obuchowski (1997), Biometrics 53. If several people rate the same things,
the variance is the largest over raters, over things and over both, as in `evaluation.stats.comparisons`. The degrees of
freedom are those of the difference. The interval of P is computed on the log odds, so that it stays within 0 … 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.data.tables import number_or_reason
from evaluation.findings import Reason
from evaluation.stats.comparisons import NO_ERROR, NO_SPREAD, Comparison
from evaluation.stats.conditions import conditions_or_none, fit_bots
from evaluation.stats.gls import label_codes
from evaluation.stats.means import NO_SCALE, NO_VALUE
from evaluation.stats.zscores import rater_codes

ONE_LOOK = Reason("effect_one_look", "its interval is valid for a single look, once the study has all its ratings")
ALL_ABOVE = Reason("all_above", "every rating of one bot is above every rating of the other")
_LEAST_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect size; `reason` explains a missing value or interval."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: Reason | None = None

    def turned(self, around: float = 0.0) -> Effect:
        """Return the effect with the bots exchanged, mirrored at `around`."""
        value, high, low = (None if x is None else 2 * around - x for x in (self.value, self.low, self.high))
        return Effect(value, low, high, self.reason)


@dataclass(frozen=True, slots=True)
class EffectSizes:
    """Effect sizes of the difference a − b.

    Attributes:
        standardised: in standard deviations of the ratings.
        share: as a share of the scale, −1 … 1.
        superiority: probability that a rating of a is above one of b, ties counting half.
    """

    standardised: Effect
    share: Effect
    superiority: Effect

    def turned(self) -> EffectSizes:
        """Return the effect sizes of b − a."""
        return EffectSizes(self.standardised.turned(), self.share.turned(), self.superiority.turned(0.5))

    def to_json(self) -> dict[str, Any]:
        """Return each size as `{"value", "low", "high"}`.

        Undefined sizes are null with a reason.
        """
        return {
            name: {"value": effect.value, "low": effect.low, "high": effect.high, **number_or_reason(effect.reason)}
            for name, effect in (
                ("standardised", self.standardised),
                ("share_of_scale", self.share),
                ("superiority", self.superiority),
            )
        }


def effect_sizes(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    raters: Sequence[Any],
    things: Sequence[Any] | None,
    pairs: Iterable[Comparison],
    *,
    conditions: Sequence[Any] | np.ndarray | None = None,
    level: float,
    scale: tuple[float, float] | None,
) -> dict[tuple[str, str], EffectSizes]:
    """Return the effect sizes of tested pairs of bots.

    Args:
        values, bots, raters, things, conditions: (k,) as in `comparisons.pairwise`.
        pairs: pairs tested on these values.
        level: confidence level of the intervals.
        scale: its ends; None if unknown.
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=float)
    keep = np.isfinite(array)
    y, names = array[keep], np.asarray(bots, dtype=object).astype(str)[keep]
    none = Effect(reason=NO_VALUE)
    if not len(y):
        return {(pair.a, pair.b): EffectSizes(none, none, none) for pair in pairs}
    labels, bot = np.unique(names, return_inverse=True)
    people = label_codes(rater_codes(raters)[keep])
    within = conditions_or_none(conditions)
    condition = np.zeros(len(y), dtype=int) if within is None else label_codes(within[keep].astype(str))
    fit = fit_bots(y, bot, people, None if within is None else within[keep])
    influence = fit.fit.influence @ fit.weights.T
    clusters = Clusters.from_codes(
        people, None if things is None else np.asarray(things, dtype=object).astype(str)[keep], bot
    )
    place = {name: i for i, name in enumerate(labels.tolist())}
    # A cell is a bot under a condition; a bot's variance is the mean over its cells.
    cell = fit.fit.bot
    n = np.bincount(cell)
    squares = (y - (np.bincount(cell, y) / n)[cell]) ** 2
    free = np.maximum(n - 1, 1)
    by_cell = np.bincount(cell, squares) / free
    variances = fit.weights @ by_cell
    on_variance = fit.weights[bot, cell] * (squares - (by_cell * (n - 1) / n)[cell]) / free[cell]
    sizes = {}
    for pair in pairs:
        share = _share(pair, scale)
        if pair.a not in place or pair.b not in place:
            sizes[pair.a, pair.b] = EffectSizes(none, share, none)
            continue
        i, j = place[pair.a], place[pair.b]
        in_a, in_b = bot == i, bot == j
        gap, spread = float(fit.means[i] - fit.means[j]), float(np.sqrt((variances[i] + variances[j]) / 2))
        half = None if pair.df is None or pair.p is None else float(stdtrit(pair.df, 0.5 + level / 2))
        reason = pair.reason or (ONE_LOOK if pair.equal_low is None else NO_ERROR)
        standardised = Effect(reason=NO_SPREAD)
        if spread > 0 and n[(fit.weights[[i, j]] > 0).any(axis=0)].min() > 1:
            d = gap / spread
            standardised = Effect(d, reason=reason)
            if half is not None:
                by_spread = -gap / (4 * spread**3) * on_variance
                first = influence[:, i] / spread + np.where(in_a, by_spread, 0.0)
                second = -influence[:, j] / spread + np.where(in_b, by_spread, 0.0)
                borrowed = float(np.sqrt(fit.borrowed[[i, j]].sum())) / spread
                error = half * float(np.hypot(clusters.error(first, second, i, j), borrowed))
                standardised = Effect(d, d - error, d + error) if error > _LEAST_ERROR else Effect(d, reason=NO_ERROR)
        sizes[pair.a, pair.b] = EffectSizes(
            standardised, share, superiority(y, (in_a, in_b), condition, clusters, (i, j), half, reason)
        )
    return sizes


def _share(pair: Comparison, scale: tuple[float, float] | None) -> Effect:
    if scale is None or pair.difference is None:
        return Effect(reason=NO_SCALE if scale is None else pair.reason or NO_VALUE)
    width = scale[1] - scale[0]
    low, high = (None if end is None else end / width for end in (pair.low, pair.high))
    return Effect(pair.difference / width, low, high, pair.reason if low is None else None)


def superiority(
    y: np.ndarray,
    masks: tuple[np.ndarray, np.ndarray],
    condition: np.ndarray,
    clusters: Clusters,
    numbers: tuple[int, int],
    half: float | None,
    reason: Reason,
) -> Effect:
    """Return P from placements under the same condition.

    A bot's ratings are placed among the other's.

    Args:
        y: (k,) ratings.
        masks: (k,) each, of the two bots' ratings.
        condition: (k,) codes.
        clusters: clusters of the ratings.
        numbers: the two bots' numbers in `clusters`.
        half: factor of the error, a quantile; None for no interval, for this `reason`.
    """
    from scipy.special import expit, logit

    first, second = np.zeros(len(y)), np.zeros(len(y))
    in_a, in_b = masks
    shared = sorted(set(condition[in_a].tolist()) & set(condition[in_b].tolist()))
    if not shared:
        return Effect(reason=NO_VALUE)
    p = 0.0
    for code in shared:
        a, b = in_a & (condition == code), in_b & (condition == code)
        below, above = _placements(y[a], y[b]), 1 - _placements(y[b], y[a])
        share_below = float(below.mean())
        p += share_below / len(shared)
        first[a], second[b] = ((placed - share_below) / (len(placed) * len(shared)) for placed in (below, above))
    if not 0 < p < 1:
        return Effect(p, reason=ALL_ABOVE)
    if half is None:
        return Effect(p, reason=reason)
    nothing = np.zeros(len(y))
    if min(clusters.error(first, nothing, *numbers), clusters.error(nothing, second, *numbers)) <= _LEAST_ERROR:
        return Effect(p, reason=NO_ERROR)
    error = half * clusters.error(first, second, *numbers) / (p * (1 - p))
    if error <= _LEAST_ERROR:
        return Effect(p, reason=NO_ERROR)
    low, high = expit([logit(p) - error, logit(p) + error]).tolist()
    return Effect(p, low, high)


def _placements(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the share of other values below each value.

    Ties count half.
    """
    ordered = np.sort(among)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(ordered))


@dataclass(frozen=True, slots=True)
class Clusters:
    """Groupings of ratings that are not assumed independent.

    Attributes:
        groups: codes by rater; then by thing, and by rater and thing. Their signs in the variance over both are +, +
            and −.
        factors: (K,) for each grouping, the correction for few clusters of a bot, √(n / (n − 1)).
    """

    groups: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]

    @classmethod
    def from_codes(cls, people: np.ndarray, things: np.ndarray | None, bot: np.ndarray) -> Clusters:
        groups = [people]
        if things is not None:
            thing = label_codes(things)
            person_thing = label_codes(people.astype(np.int64) * (int(thing.max()) + 1) + thing)
            if person_thing.max() > thing.max():
                groups += [thing, person_thing]
        factors = []
        for codes in groups:
            each = np.unique(np.stack([bot, codes]), axis=1)[0]
            n = np.bincount(each).astype(float)
            factors.append(np.sqrt(n / np.maximum(n - 1, 1)))
        return cls(tuple(groups), tuple(factors))

    def error(self, first: np.ndarray, second: np.ndarray, i: int, j: int) -> float:
        """Return the standard error of a sum of influences of two bots."""
        variances = []
        for codes, factor in zip(self.groups, self.factors, strict=True):
            sums = np.bincount(codes, factor[i] * first + factor[j] * second)
            variances.append(float(sums @ sums))
        if len(variances) > 1:
            variances[2] = variances[0] + variances[1] - variances[2]
        return float(np.sqrt(max(variances)))
