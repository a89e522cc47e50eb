"""Sample size plans for the next study, based on current ratings.

The spread of each pair comes from the test of the bots' difference (`evaluation.stats.gls`): between raters, and of
each bot's ratings within raters. Bots differ in the spread of their ratings, so a plan refers to the pair that needs
most raters; it also reports the number for the pair that needs fewest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import POWER, Units, units_of
from evaluation.analysis.levels import order_alpha
from evaluation.data.ratings import Ratings
from evaluation.data.tables import number_or_reason, text_table
from evaluation.number_format import figure
from evaluation.stats.comparisons import ORDER_ALPHA, TestedPairs, pairwise
from evaluation.stats.power import RaterNeed, detectable_difference, n_pairs, raters_needed

SHARES = (0.025, 0.05, 0.1, 0.15, 0.2)
"""Planned differences, as shares of the scale."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Raters per bot for one difference.

    Attributes:
        difference: in points.
        share: as a share of the scale.
        independent: number if each bot has its own raters.
        paired: number if every rater rates both; for the pair that needs most, with one rating per rater and bot. None
            if ratings do not vary within bots; there is no paired plan if raters are unnamed, because a conversation
            has one bot.
        independent_least, paired_least: numbers for the pair that needs fewest.
    """

    difference: float
    share: float
    independent: RaterNeed | None
    paired: RaterNeed | None
    independent_least: RaterNeed | None = None
    paired_least: RaterNeed | None = None


@dataclass(frozen=True, slots=True)
class PairSpread:
    """Standard deviation and correlation of two bots' ratings.

    Attributes:
        sd: standard deviation of a rating around its bot's mean, root mean square of the two bots, in points.
        correlation: correlation between a rater's ratings of the two.
    """

    a: str
    b: str
    sd: float
    correlation: float

    @property
    def paired_sd(self) -> float:
        """Standard deviation used by a paired plan.

        It is that of the difference of a rater's two ratings, divided by √2.
        """
        return self.sd * float(np.sqrt(1 - self.correlation))


@dataclass(frozen=True, slots=True)
class RaterPlan:
    """Plans for several differences.

    Attributes:
        sd: standard deviation of a rating around its bot's mean, over all bots; None if ratings do not vary.
        rater_share: share of this variance between raters.
        pairs: spread of every pair of varying bots without controls, largest first.
        n_comparisons: number of pairs that share alpha, without controls.
        n_fewest: number of raters of the bot with the fewest (conversations, if raters are unnamed).
        detectable: smallest difference that this number detects, for the pair with the largest spread.
        reach: width of the scale, in points.
        units: planned unit: raters, conversations if raters are unnamed, or both.
        worth: ratings saved by predictions of further bots; None without a suitable fit.
        smallest: smallest difference of interest, in points, always among the rows; None if unknown.
    """

    rows: tuple[Planned, ...]
    power: float
    alpha: float
    n_comparisons: int
    sd: float | None
    rater_share: float
    n_fewest: int
    detectable: float | None
    reach: float
    pairs: tuple[PairSpread, ...] = ()
    units: Units = "raters"
    worth: PredictionWorth | None = None
    smallest: float | None = None

    def for_differences(self, differences: Sequence[float], *, power: float) -> RaterPlan:
        """Return a plan for other differences with the same spread."""
        return _add_rows(replace(self, power=power), differences)

    def for_study(self, n_bots: int, n: int, differences: Sequence[float] = ()) -> RaterPlan:
        """Return a plan for other numbers of bots and raters.

        The spread stays the same.
        """
        plan = replace(self, n_comparisons=max(n_pairs(n_bots), 1), n_fewest=n)
        return _add_rows(plan, differences)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null."""
        return {
            "power": self.power,
            "alpha": self.alpha,
            "n_comparisons": self.n_comparisons,
            "sd": self.sd,
            "rater_share": self.rater_share,
            "n_fewest": self.n_fewest,
            "units": self.units,
            "detectable": self.detectable,
            "smallest_difference": self.smallest,
            "prediction_worth": None
            if self.worth is None
            else {"ratings": self.worth.ratings, "bots": list(self.worth.bots)},
            "pairs": [
                {"a": pair.a, "b": pair.b, "sd": pair.sd, "correlation": pair.correlation} for pair in self.pairs
            ],
            "plans": [
                {
                    "difference": row.difference,
                    "share": row.share,
                    "independent": _need_json(row.independent),
                    "paired": _need_json(row.paired),
                    "independent_least": _need_json(row.independent_least),
                    "paired_least": _need_json(row.paired_least),
                    **self._with_prediction(row),
                }
                for row in self.rows
            ],
        }

    def _with_prediction(self, row: Planned) -> dict[str, Any]:
        """Return the numbers for a further bot with a prediction.

        Empty without a fit.
        """
        if self.worth is None:
            return {}
        needs = {
            "independent_with_prediction": row.independent,
            "independent_least_with_prediction": row.independent_least,
        }
        return {
            name: None if need is None or need.n is None else self.worth.count_remaining(need.n)
            for name, need in needs.items()
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                figure(row.difference),
                f"{row.share:.1%}",
                _format_needs(row.independent_least, row.independent),
                *([] if self.worth is None else [_format_needs(row.independent_least, row.independent, self.worth)]),
                _format_needs(row.paired_least, row.paired),
            ]
            for row in self.rows
        ]
        units = self.units.replace("_and_", " or ").capitalize()
        title = f"{units} per bot for a power of {self.power:g}, {self.n_comparisons} pairs compared"
        headers = ["difference", "of the scale", "own", "of both"]
        if self.worth is not None:
            headers.insert(3, "own, with the prediction")
        foot = f"sd {figure(self.sd)}"
        if self.smallest is not None:
            foot += f"; smallest difference of interest {figure(self.smallest)}"
        if self.pairs:
            widest, narrowest = self.pairs[0], self.pairs[-1]
            foot += f"; from {narrowest.a} and {narrowest.b} (sd {figure(narrowest.sd)})"
            foot += f" to {widest.a} and {widest.b} ({figure(widest.sd)})"
        if self.worth is not None:
            foot += (
                f"; a prediction is worth {self.worth.ratings:.0f} ratings of a further bot like "
                f"{', '.join(self.worth.bots)}, "
                'but never supports "A is better than B" on its own'
            )
        return text_table(title, headers, rows, foot)


def _need_json(need: RaterNeed | None) -> dict[str, Any] | None:
    return None if need is None else {"n": need.n, **number_or_reason(need.reason)}


def _format_needs(least: RaterNeed | None, greatest: RaterNeed | None, worth: PredictionWorth | None = None) -> str:
    ends = [
        "–" if need is None or need.n is None else f"{worth.count_remaining(need.n) if worth else need.n:,}"
        for need in (least, greatest)
    ]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def plan_raters(
    ratings: Ratings, differences: Sequence[float] = (), *, power: float = POWER, fit: Mapping[str, Any] | None = None
) -> RaterPlan:
    """Plan the number of raters for the question that bots are ranked by.

    Args:
        differences: in points of the scale; by default `SHARES` of it, and the smallest difference of interest.
        power: probability of detecting them.
        fit: JSON document of a hybrid fit to the same ratings, to include the ratings saved by its predictions.
    """
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension to plan for")
    known = ratings.select(np.isfinite(ratings.values()))
    tested = pairwise(known.values(), known.bot.tolist(), known.unit.tolist())
    bots = [bot for bot in sorted(tested.means) if bot not in known.controls]
    n_comparisons = max(n_pairs(len(set(known.bots) - known.controls)), 1)
    return _add_rows(
        RaterPlan(
            rows=(),
            power=power,
            alpha=order_alpha(ratings.level),
            n_comparisons=n_comparisons,
            sd=pooled_sd(known) if len(known) else None,
            rater_share=tested.rater_share,
            n_fewest=min(tested.n_raters.values(), default=0),
            detectable=None,
            reach=leading.high - leading.low,
            units=units_of(known),
            pairs=tuple(sorted(_iterate_spreads(tested, bots), key=lambda pair: -pair.sd)),
            worth=None if fit is None else prediction_worth(fit, ratings.headline or (leading.key,)),
            smallest=ratings.smallest_difference(),
        ),
        differences,
    )


@lru_cache(maxsize=64)
def plan_assumed(sd: float, reach: float, *, power: float = POWER) -> RaterPlan:
    """Plan without ratings, assuming a standard deviation of `sd` points.

    It applies to every bot, on a scale of `reach` points.
    """
    return _add_rows(
        RaterPlan(
            rows=(),
            power=power,
            alpha=ORDER_ALPHA,
            n_comparisons=1,
            sd=sd,
            rater_share=0.0,
            n_fewest=0,
            detectable=None,
            reach=reach,
            pairs=(PairSpread("", "", sd, 0.0),),
        ),
        (),
    )


def _iterate_spreads(tested: TestedPairs, bots: Sequence[str]) -> Iterator[PairSpread]:
    """Yield the spread of every two bots with varying ratings.

    Equal ratings contain little information about the spread.
    """
    for a, b in combinations(bots, 2):
        variances = (tested.own_variance[a], tested.own_variance[b])
        total = tested.rater_variance + sum(variances) / 2
        if min(tested.n_raters[a], tested.n_raters[b]) > 1 and min(variances) > 0:
            correlation = min(tested.rater_variance / total, 0.99)
            yield PairSpread(a, b, float(np.sqrt(total)), correlation)


def _add_rows(plan: RaterPlan, differences: Sequence[float]) -> RaterPlan:
    """Return the plan with its rows and with detectable differences."""

    def need(difference: float, pair: PairSpread | None, *, paired: bool) -> RaterNeed | None:
        if pair is None or (paired and plan.units == "conversations"):
            return None
        return raters_needed(
            difference,
            pair.sd,
            power=plan.power,
            alpha=plan.alpha,
            n_comparisons=plan.n_comparisons,
            design="paired" if paired else "independent",
            correlation=pair.correlation if paired else 0.0,
        )

    widest, narrowest = (plan.pairs[0], plan.pairs[-1]) if plan.pairs else (None, None)
    by_paired = sorted(plan.pairs, key=lambda pair: pair.paired_sd)
    paired_narrowest, paired_widest = (by_paired[0], by_paired[-1]) if by_paired else (None, None)
    detectable = None
    if widest is not None and plan.n_fewest > 1:
        detectable = detectable_difference(
            plan.n_fewest, widest.sd, power=plan.power, alpha=plan.alpha, n_comparisons=plan.n_comparisons
        )
    gaps = differences
    if not gaps:
        smallest_gap = {} if plan.smallest is None else {round(plan.smallest / plan.reach, 9): plan.smallest}
        gaps = [gap for _share, gap in sorted(({share: share * plan.reach for share in SHARES} | smallest_gap).items())]
    return replace(
        plan,
        rows=tuple(
            Planned(
                gap,
                gap / plan.reach,
                need(gap, widest, paired=False),
                need(gap, paired_widest, paired=True),
                need(gap, narrowest, paired=False),
                need(gap, paired_narrowest, paired=True),
            )
            for gap in gaps
        ),
        detectable=detectable,
    )


@dataclass(frozen=True, slots=True)
class PredictionWorth:
    """Number of ratings of a further bot that its prediction saves.

    Attributes:
        ratings: number of ratings that a prediction is worth: if its standard deviation around the bot's true mean is t
            and that of the ratings s, n ratings plus the prediction are worth n + s² / t² ratings
            (`evaluation.hybrid.calibration`). The smaller value of those from its stated standard deviation and from
            its errors.
        bots: bots whose ratings the fit used; predictions save nothing for them, only for further bots.
    """

    ratings: float
    bots: tuple[str, ...]

    def count_remaining(self, n: int) -> int:
        """Return the ratings still needed with a prediction, at least two.

        Without a prediction it would need n.
        """
        return max(2, int(np.ceil(n - self.ratings)))


def prediction_worth(fit: Mapping[str, Any], keys: Collection[str]) -> PredictionWorth | None:
    """Return the ratings saved by a fit's prediction, or None.

    None if unknown or no better than chance.

    Args:
        fit: JSON document of the fit.
        keys: keys of the questions that bots are ranked by; a fit to other questions does not apply.
    """
    worth = fit.get("ratings_worth")
    if not worth or set(str(fit.get("target", "")).split(",")) != set(keys):
        return None
    q2 = fit.get("q2") or {}
    if q2.get("value") is None or q2["value"] <= max(0.0, q2.get("null95") or 0.0):
        return None
    known = [number for number in (worth.get("stated"), worth.get("by_error")) if number is not None]
    return PredictionWorth(min(known), tuple(sorted(fit.get("bots", {})))) if known else None


def pooled_sd(ratings: Ratings) -> float | None:
    """Return the pooled standard deviation within bots, or None.

    None if ratings do not vary.
    """
    values = ratings.values()
    apart = [values[ratings.bot == bot] - values[ratings.bot == bot].mean() for bot in ratings.bots]
    free = len(values) - len(apart)
    sd = float(np.sqrt((np.concatenate(apart) ** 2).sum() / free)) if free > 0 else 0.0
    return sd if sd > 0 else None
