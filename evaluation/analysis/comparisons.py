"""Paired comparisons of bots by human ratings, with significance and equality.

`told_apart` is the only definition of a significant pair, and `is_equal` the only one of practical equality; all pages,
the report and notebooks use them. Two bots differ significantly if the difference of their means passes a test at
`ORDER_ALPHA` after Holm's correction for all pairs. The means are generalised least squares estimates with raters as a
random effect (`evaluation.stats.gls`), so that strict or lenient raters do not distort them. They also determine the
order of the bots.

While a study collects data (`Ratings.is_collecting`), the always-valid test of `evaluation.stats.sequential` applies,
because researchers look at the ratings as they arrive. It remains in force after the study is closed, unless the study
reached its planned size. In that case, and for imported data, the test of `evaluation.stats.comparisons` applies.
`Comparisons.test` names the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise as neighbours
from typing import Annotated, Any, Literal

import numpy as np

from evaluation.analysis.bot_means import n_conditions, within_conditions
from evaluation.analysis.levels import order_alpha
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.tables import number_or_reason, text_table
from evaluation.number_format import BY_TUPLE, digits_for, figure, pluralise, probability, span
from evaluation.plots.charts import Differences, RatedBot, differences_drawing
from evaluation.plots.marks import slots_of
from evaluation.plots.svg import Plot
from evaluation.stats.comparisons import EQUAL_ALPHA, Comparison, is_equal, pairwise, rank_ranges
from evaluation.stats.conditions import fit_bots
from evaluation.stats.effect_sizes import Effect, EffectSizes, effect_sizes
from evaluation.stats.gls import label_codes
from evaluation.stats.means import NO_SCALE
from evaluation.stats.power import PairPlan, plan_from_ratings
from evaluation.stats.sequential import RATERS, SequentialMeans, Unit, count_further_raters, means_of, pairwise_always
from evaluation.stats.zscores import rater_codes

POWER = 0.8
TOO_MANY = 5000
"""Number of raters per bot above which no study could detect a difference."""

Verdict = Literal["higher", "lower", "not_told_apart", "undefined"]
Need = Literal["enough", "unknown", "too_many", "reached", "raters", "more"]
Units = Literal["raters", "conversations", "raters_and_conversations"]
Test = Literal["fixed", "always"]
"""Test of the bots' differences: fixed-sample for a finished study, or anytime-valid."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparisons:
    """Comparisons of all pairs of bots by one dimension.

    Attributes:
        dimension: compared dimension.
        alpha: accepted probability of any wrong order among all pairs.
        order: rated bots without controls, highest mean for the average rater first.
        means: that mean by bot; the plain mean if no rater rated several times.
        controls: rated bots that are deliberately poor.
        pairs: all pairs of rated bots, including controls, sorted by name.
        plans: sample size plan of each pair; empty if not requested.
        power: power of the plans.
        test: the test of two bots' difference.
        more: while a study collects data, further raters per bot needed to detect the smallest difference of interest
            for pairs that are not yet significant; None if no number is enough.
        unit: unit of `more`: raters (`units`, if some raters are unnamed), or the rated objects (contexts, items) if
            there are fewer of them.
        n_raters: number of raters.
        n_ratings: number of ratings of the dimension.
        rater_share: share of the variance around the bot means that is due to raters (0 … 1); 0 if all gave one rating.
        units: groups of ratings not assumed to be independent: raters, conversations if raters are unnamed, or both.
        smallest: smallest difference of interest, in points; None if none is set and the scale is unknown.
        n_conditions: number of conditions within which bots are compared, weighted equally; 0 if no condition has two
            raters of every bot, so that conditions are ignored; None in a study without factors.
        effects: effect sizes by pair, sorted by name.
    """

    dimension: RatingDimension
    alpha: float
    order: tuple[str, ...]
    controls: tuple[str, ...]
    pairs: tuple[Comparison, ...]
    n_raters: int
    n_ratings: int
    plans: tuple[PairPlan, ...] = ()
    power: float = POWER
    test: Test = "fixed"
    more: Annotated[Mapping[tuple[str, str], int | None], BY_TUPLE] = field(default_factory=dict)
    unit: Unit = RATERS
    means: Mapping[str, float] = field(default_factory=dict)
    rater_share: float = 0.0
    units: Units = "raters"
    smallest: float | None = None
    n_conditions: int | None = None
    effects: Annotated[Mapping[tuple[str, str], EffectSizes], BY_TUPLE] = field(default_factory=dict)

    def is_equal(self, pair: Comparison) -> bool | None:
        """Return True if a pair is practically equal; None if untestable."""
        return is_equal(pair, self.smallest)

    @property
    def equal(self) -> list[Comparison]:
        """Pairs that are equal for practical purposes."""
        return [pair for pair in self.pairs if self.is_equal(pair)]

    @property
    def unknown(self) -> list[Comparison]:
        """Tested pairs that are neither significantly different nor equal for practical purposes."""
        return [pair for pair in self.pairs if pair.p is not None and not pair.ordered and not self.is_equal(pair)]

    @property
    def told_apart(self) -> frozenset[tuple[str, str]]:
        """Pairs that differ significantly, each sorted by name."""
        return frozenset((pair.a, pair.b) for pair in self.pairs if pair.ordered)

    @property
    def n_told_apart(self) -> int:
        """Number of significantly different pairs, of `n_pairs`."""
        return len(self.told_apart)

    @property
    def n_pairs(self) -> int:
        """Pairs that could be tested."""
        return sum(pair.p is not None for pair in self.pairs)

    @property
    def counts(self) -> str:
        """Numbers of pairs, in the three terms used in every conclusion."""
        return (
            f"{self.n_told_apart} of {pluralise(self.n_pairs, 'pair')} clearly different, {len(self.equal)} equal for "
            f"practical purposes, {len(self.unknown)} not yet known"
        )

    @property
    def too_close(self) -> list[tuple[str, str]]:
        """Tested pairs that the ratings cannot order."""
        return [(p.a, p.b) for p in self.pairs if p.p is not None and not p.ordered]

    @property
    def untested(self) -> list[Comparison]:
        """Pairs without a test, with their reasons."""
        return [pair for pair in self.pairs if pair.p is None]

    def pair(self, a: str, b: str) -> Comparison | None:
        """Return the comparison of two bots, in either order."""
        first, last = sorted((a, b))
        return next((p for p in self.pairs if (p.a, p.b) == (first, last)), None)

    def effect(self, a: str, b: str) -> EffectSizes | None:
        """Return the effect sizes of a minus b, or None.

        The pair may be stored in either order.
        """
        if (b, a) in self.effects:
            return self.effects[b, a].turned()
        return self.effects.get((a, b))

    def plan(self, a: str, b: str) -> PairPlan | None:
        """Return the sample size plan of a pair, or None."""
        first, last = sorted((a, b))
        return next((p for p in self.plans if (p.a, p.b) == (first, last)), None)

    def are_told_apart(self, a: str, b: str) -> bool:
        """Return True if two bots are significantly different."""
        return tuple(sorted((a, b))) in self.told_apart

    def as_good_as_best(self) -> tuple[str, ...]:
        """Return the bots not significantly different from the first, without controls."""
        return tuple(bot for bot in self.order[1:] if not self.are_told_apart(self.order[0], bot))

    @property
    def ranks(self) -> dict[str, tuple[int, int]]:
        """Best and worst rank of each bot compatible with the tests.

        Controls are excluded.
        """
        return rank_ranges(self.order, self.pairs)

    def neighbours(self) -> list[Comparison]:
        """Return the comparisons of adjacent bots in the order, best first."""
        pairs = [self.pair(a, b) for a, b in neighbours(self.order)]
        return [pair for pair in pairs if pair is not None]

    def below(self, control: str) -> int:
        """Return the number of bots rated significantly higher than a control."""
        bot_pairs = [(bot, self.pair(control, bot)) for bot in self.order]
        return sum(
            pair is not None and pair.ordered and (pair.difference or 0.0) * (1 if pair.a == control else -1) < 0
            for _bot, pair in bot_pairs
        )

    def need(self, pair: Comparison) -> Need:
        """Return the code of the sample size that a pair needs.

        This is the size that detects the smallest difference of interest. The number is `PairPlan.needed` for "raters"
        and `more` for "more" (while the study collects data). Other codes explain why there is no number.
        """
        if pair.ordered or self.is_equal(pair):
            return "enough"
        if (pair.a, pair.b) in self.more:
            n_more = self.more[pair.a, pair.b]
            return "too_many" if n_more is None else "more" if n_more else "reached"
        plan = self.plan(pair.a, pair.b)
        if plan is None or plan.sd is None or self.smallest is None:
            return "unknown"
        if plan.needed is None or plan.needed > TOO_MANY:
            return "too_many"
        if plan.needed <= min(plan.n_a, plan.n_b):
            return "reached"
        return "raters"

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined ones are null, with a reason."""
        return {
            "dimension": self.dimension.key,
            "alpha": self.alpha,
            "test": self.test,
            "unit": self.units if self.unit == RATERS else self.unit,
            "order": list(self.order),
            "means": dict(self.means),
            "ranks": {bot: list(ends) for bot, ends in self.ranks.items()},
            "rater_share": self.rater_share,
            "clusters": self.units,
            "controls": list(self.controls),
            "n_ratings": self.n_ratings,
            "n_raters": self.n_raters,
            "n_pairs": self.n_pairs,
            "n_told_apart": self.n_told_apart,
            "n_equal": len(self.equal),
            "n_not_yet_known": len(self.unknown),
            "smallest_difference": self.smallest,
            **({} if self.n_conditions is None else {"n_conditions": self.n_conditions}),
            "pairs": [self._pair_json(pair) for pair in self.pairs],
        }

    def _pair_json(self, pair: Comparison) -> dict[str, Any]:
        plan, sizes = self.plan(pair.a, pair.b), self.effect(pair.a, pair.b)
        return {
            "a": pair.a,
            "b": pair.b,
            "verdict": verdict(pair),
            "equal": self.is_equal(pair),
            "difference": pair.difference,
            "low": pair.low,
            "high": pair.high,
            "p": pair.p,
            "p_holm": pair.p_holm,
            "error": pair.error,
            "df": pair.df,
            **number_or_reason(pair.reason),
            **({} if sizes is None else {"effect_sizes": sizes.to_json()}),
            **({} if plan is None else {"need": self.need(pair), "raters_needed": plan.needed}),
            **({"raters_more": self.more[pair.a, pair.b]} if (pair.a, pair.b) in self.more else {}),
        }

    def plot(self) -> Plot:
        """Draw all pairs of bots as a matrix, best first.

        Raises:
            ValueError: with fewer than two rated bots.
        """
        bots = [*self.order, *self.controls]
        if len(bots) < 2:
            raise ValueError(f"{pluralise(len(bots), 'bot')} is rated, so there is nothing to draw")
        slots = dict(zip(sorted(bots), slots_of(len(bots)), strict=True))
        rated = [RatedBot(bot, bot, slots[bot], bot in self.controls) for bot in bots]
        pairs = {(pair.a, pair.b): pair for pair in self.pairs}
        digits = digits_for(self.dimension.low, self.dimension.high)
        name = f"Differences between the means of {pluralise(len(bots), 'bot')}, row minus column."
        gaps = Differences(pairs, digits, render_reason=lambda reason: str(reason or ""))
        return Plot.from_drawing(differences_drawing(rated, rated, gaps, name=name))

    def __repr__(self) -> str:
        return (
            f"Comparisons of {pluralise(len(self.order) + len(self.controls), 'bot')} by {self.dimension.key}: "
            f"{self.counts}"
        )

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                *(pair.a, pair.b, figure(pair.difference), span(pair.low, pair.high)),
                probability(pair.p_holm).removeprefix("p ").removeprefix("= "),
                *self._sizes(pair),
                str(pair.reason) if pair.p is None else self._get_verdict(pair),
            ]
            for pair in self.pairs
        ]
        title = (
            f"Bots compared by {self.dimension.key}: {self.counts} "
            f"({'Holm' if self.test == 'fixed' else 'always valid, Holm'}, p < {self.alpha:g})"
        )
        headers = ["a", "b", "a − b", f"{1 - self.alpha:.0%}", "p (Holm)", "d", "of scale", "P(a > b)", "a is"]
        foot = (
            f"{self.n_ratings:,} ratings by {self.n_raters:,} named raters; least squares, errors clustered by "
            f"{self.units.replace('_', ' ')}; best first: " + ", ".join(self.order)
        )
        equal = f"equal: {1 - 2 * EQUAL_ALPHA:.0%} interval within ± {figure(self.smallest)}"
        if self.smallest is None:
            equal = "equality is not tested: the scale is unknown, and no smallest difference is set"
        return text_table(title, headers, rows, f"{foot}; {equal}")

    def _sizes(self, pair: Comparison) -> list[str]:
        sizes = self.effect(pair.a, pair.b) or EffectSizes(Effect(), Effect(), Effect())
        return [
            f"{figure(effect.value)} {span(effect.low, effect.high)}"
            for effect in (sizes.standardised, sizes.share, sizes.superiority)
        ]

    def _get_verdict(self, pair: Comparison) -> str:
        equal = self.is_equal(pair)
        if not pair.ordered:
            return "equal" if equal else "not yet known"
        return f"{verdict(pair)}, yet equal" if equal else verdict(pair)


def verdict(pair: Comparison) -> Verdict:
    """Return the result of `pair.a` against `pair.b`.

    Higher, lower, not significant or undefined.
    """
    if pair.p is None or pair.difference is None:
        return "undefined"
    if not pair.ordered:
        return "not_told_apart"
    return "higher" if pair.difference > 0 else "lower"


def compare(
    ratings: Ratings,
    target: str | Sequence[str] | None = None,
    *,
    alpha: float | None = None,
    plans: bool = True,
    power: float = POWER,
    smallest: float | None = None,
) -> Comparisons:
    """Compare every pair of bots.

    Args:
        target: one or more dimensions (averaged); None for the ranking criterion.
        alpha: accepted probability of any wrong order among all pairs; None for that of the ratings' level.
        plans: True to plan the sample size of each pair.
        power: power of the plans.
        smallest: smallest difference of interest, in points; None for `Ratings.smallest_difference`.

    Raises:
        ValueError: if a dimension does not exist, or the smallest difference is not above 0.
    """
    alpha = order_alpha(ratings.level) if alpha is None else alpha
    if smallest is not None and not 0 < smallest < np.inf:
        raise ValueError(f"the smallest difference of interest is {smallest:g}; it must be above 0")
    if target is not None:
        keys = (target,) if isinstance(target, str) else tuple(target)
        ratings = replace(ratings, headline=keys)
    dimension = ratings.leading
    if dimension is None:
        raise ValueError("the study has no rating dimension to compare bots by")
    smallest = ratings.smallest_difference() if smallest is None else smallest
    has_factors = bool(ratings.condition)
    ratings = within_conditions(ratings)
    values, names, units = ratings.values(), ratings.bot.tolist(), ratings.unit.tolist()
    conditions = None if ratings.conditions is None else ratings.conditions.tolist()
    known = ratings.select(np.isfinite(values))
    shared = None if ratings.shared is None else ratings.shared.tolist()
    if ratings.is_collecting:
        scale = {"low": dimension.low, "high": dimension.high}
        always = pairwise_always(values, names, units, shared, **scale, level=1 - alpha, conditions=conditions)
        pairs = tuple(always)
        if dimension.inferred:  # the always-valid interval adds pseudo-ratings at the ends of the scale
            none: dict[str, Any] = {"low": None, "high": None, "p": None, "p_holm": None, "ordered": False}
            pairs = tuple(replace(pair, **none, reason=pair.reason or NO_SCALE) for pair in pairs)
        means_now = means_of(values, names, units, shared, **scale, conditions=conditions)
        further_raters = {} if smallest is None else _count_further_raters(pairs, means_now, smallest, alpha)
        unit = means_now.unit
        means = dict(zip(means_now.labels, means_now.means.tolist(), strict=True))
        rater_share = means_now.rater_share
    else:
        tested = pairwise(values, names, units, shared, conditions=conditions, level=1 - alpha, scale=ratings.bounds())
        pairs, further_raters, unit = tested.pairs, {}, RATERS
        means, rater_share = tested.means, tested.rater_share
    order = sorted(means, key=lambda bot: (-means[bot], bot))
    comparisons = Comparisons(
        dimension=dimension,
        alpha=alpha,
        order=tuple(bot for bot in order if bot not in ratings.controls),
        controls=tuple(bot for bot in order if bot in ratings.controls),
        pairs=pairs,
        test="always" if ratings.is_collecting else "fixed",
        more=further_raters,
        unit=unit,
        n_raters=known.n_raters,
        n_ratings=len(known),
        means=means,
        rater_share=rater_share,
        units=units_of(known),
        power=power,
        smallest=smallest,
        n_conditions=n_conditions(known) if has_factors else None,
        effects=effect_sizes(
            values, names, units, shared, pairs, conditions=conditions, level=1 - alpha, scale=ratings.bounds()
        ),
    )
    if not plans:
        return comparisons
    planned = plan_from_ratings(
        *(values, names, units, shared),
        smallest=smallest,
        power=power,
        alpha=alpha,
        conditions=conditions,
        scale=ratings.bounds(),
    )
    return replace(comparisons, plans=tuple(planned))


def means_compared(ratings: Ratings) -> dict[str, float]:
    """Return each rated bot's mean for the average rater.

    Comparisons use these means.
    """
    within = within_conditions(ratings)
    known = within.select(np.isfinite(within.values()))
    if not len(known):
        return {}
    bots, raters = label_codes(known.bot.astype(str)), label_codes(rater_codes(known.unit.tolist()))
    fit = fit_bots(known.values(), bots, raters, known.conditions)
    return dict(zip(np.unique(known.bot.astype(str)).tolist(), fit.means.tolist(), strict=True))


def units_of(ratings: Ratings) -> Units:
    """Return the groups of ratings not assumed to be independent."""
    if not len(ratings) or ratings.is_named.all():
        return "raters"
    return "raters_and_conversations" if ratings.is_named.any() else "conversations"


def _count_further_raters(
    pairs: Sequence[Comparison], means: SequentialMeans, smallest: float, alpha: float
) -> dict[tuple[str, str], int | None]:
    """Return the number of further raters that each undecided pair needs.

    Each pair is tested at its share of the level.
    """
    n_tested = sum(pair.p is not None for pair in pairs)
    return {
        (pair.a, pair.b): count_further_raters(means, pair.a, pair.b, difference=smallest, alpha=alpha / n_tested)
        for pair in pairs
        if pair.p is not None and not pair.ordered
    }
