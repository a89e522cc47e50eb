"""How many raters a next study needs for a difference that would matter, by the spread of the ratings of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evaluation.analysis.comparisons import POWER
from evaluation.analysis.tables import number_or_reason, text_table
from evaluation.printing import figure
from evaluation.ratings import Ratings
from evaluation.stats.compare import ORDER_ALPHA
from evaluation.stats.mixed import mixed_model
from evaluation.stats.sample_size import Need, detectable_difference, n_pairs, raters_needed

SHARES = (0.025, 0.05, 0.1, 0.15, 0.2)
"""Differences planned for, as shares of the scale."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Raters per bot for one difference.

    Attributes:
        difference: in points; share: of the scale.
        independent: where each bot has raters of its own; paired: where every rater rates both. None where the
            ratings of a bot do not vary.
    """

    difference: float
    share: float
    independent: Need | None
    paired: Need | None


@dataclass(frozen=True, slots=True)
class RaterPlan:
    """Plans for several differences.

    Attributes:
        sd: of the ratings of one bot; None where they do not vary.
        rater_share: of its square, how much lies between raters.
        n_comparisons: pairs of bots that share alpha, controls aside.
        n_fewest: ratings of the bot that has the fewest.
        detectable: the smallest difference that so many show.
        reach: of the scale, in points.
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

    def for_differences(self, differences: Sequence[float], *, power: float) -> RaterPlan:
        """Return a plan for other differences, by the spread that is known."""
        return _planned(replace(self, power=power), differences)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined is null."""
        return {
            "power": self.power,
            "alpha": self.alpha,
            "n_comparisons": self.n_comparisons,
            "sd": self.sd,
            "rater_share": self.rater_share,
            "n_fewest": self.n_fewest,
            "detectable": self.detectable,
            "plans": [
                {
                    "difference": row.difference,
                    "share": row.share,
                    "independent": _need_json(row.independent),
                    "paired": _need_json(row.paired),
                }
                for row in self.rows
            ],
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                figure(row.difference),
                f"{row.share:.1%}",
                _shown(row.independent),
                _shown(row.paired),
            ]
            for row in self.rows
        ]
        title = f"Raters per bot for a power of {self.power:g}, {self.n_comparisons} pairs compared"
        headers = ["difference", "of the scale", "own raters", "raters of both"]
        return text_table(title, headers, rows, f"sd {figure(self.sd)}")


def _need_json(need: Need | None) -> dict[str, Any] | None:
    return None if need is None else {"n": need.n, **number_or_reason(need.reason)}


def _shown(need: Need | None) -> str:
    return "–" if need is None or need.n is None else f"{need.n:,}"


def plan_raters(
    ratings: Ratings, differences: Sequence[float] = (), *, power: float = POWER
) -> RaterPlan:
    """Plan for what bots are ranked by.

    Args:
        differences: in points of the scale; by default `SHARES` of it.
        power: chance to show them.
    """
    leading = ratings.leading
    if leading is None:
        raise ValueError("there is no dimension to plan for")
    known = ratings.where(np.isfinite(ratings.values()))
    sd, rater_share = _spread(known)
    return _planned(
        RaterPlan(
            rows=(),
            power=power,
            alpha=ORDER_ALPHA,
            n_comparisons=max(n_pairs(len(set(known.bots) - known.controls)), 1),
            sd=sd,
            rater_share=rater_share,
            n_fewest=min(int((ratings.bot == bot).sum()) for bot in known.bots)
            if len(known)
            else 0,
            detectable=None,
            reach=leading.high - leading.low,
        ),
        differences,
    )


def _planned(plan: RaterPlan, differences: Sequence[float]) -> RaterPlan:
    """Return the plan with its rows and with what can be detected."""

    def need(difference: float, *, paired: bool) -> Need | None:
        if plan.sd is None:
            return None
        return raters_needed(
            difference,
            plan.sd,
            power=plan.power,
            alpha=plan.alpha,
            n_comparisons=plan.n_comparisons,
            design="paired" if paired else "independent",
            correlation=plan.rater_share if paired else 0.0,
        )

    detectable = None
    if plan.sd is not None and plan.n_fewest > 1:
        detectable = detectable_difference(
            plan.n_fewest,
            plan.sd,
            power=plan.power,
            alpha=plan.alpha,
            n_comparisons=plan.n_comparisons,
        )
    wanted = differences or [share * plan.reach for share in SHARES]
    return replace(
        plan,
        rows=tuple(
            Planned(gap, gap / plan.reach, need(gap, paired=False), need(gap, paired=True))
            for gap in wanted
        ),
        detectable=detectable,
    )


def pooled_sd(ratings: Ratings) -> float | None:
    """Return the standard deviation of the ratings of one bot, over all bots; None where they do not vary."""
    values = ratings.values()
    apart = [values[ratings.bot == bot] - values[ratings.bot == bot].mean() for bot in ratings.bots]
    free = len(values) - len(apart)
    sd = float(np.sqrt((np.concatenate(apart) ** 2).sum() / free)) if free > 0 else 0.0
    return sd if sd > 0 else None


def _spread(ratings: Ratings) -> tuple[float | None, float]:
    """Return the pooled standard deviation, and the raters' share of its square."""
    values = ratings.values()
    rater_share = 0.0
    units = ratings.unit.tolist()
    if len(set(units)) < len(units):
        rater_share = mixed_model(values, ratings.bot.tolist(), units).rater_share or 0.0
    return pooled_sd(ratings), min(rater_share, 0.99)
