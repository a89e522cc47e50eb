"""How far the order of a study's bots is settled while it collects, and which bots need more ratings for it.

It reads the always-valid comparisons of `evaluation.analysis.comparisons`, so it may be asked after every rating, and
what is done with the answer (more people for some bots) does not spoil it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evaluation.analysis.comparisons import Comparisons, compare
from evaluation.ratings import Ratings
from evaluation.stats.bootstrap import Interval
from evaluation.stats.compare import ORDER_ALPHA
from evaluation.stats.sequential import mean_always

MOST_NEEDED = 100
"""A bot's need counts as so many further raters at most, and where no number would do: a pair that may be alike must
not keep everybody from the others."""


@dataclass(frozen=True, slots=True)
class Settling:
    """What is settled now.

    Attributes:
        compared: every pair, by the always-valid test.
        means: by bot, with always-valid intervals.
        needs: by bot, further raters until it is told apart from every other, at most `MOST_NEEDED`; 0: settled.
    """

    compared: Comparisons
    means: dict[str, Interval]
    needs: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        means = {
            bot: {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
            for bot, found in self.means.items()
        }
        return {**self.compared.to_json(), "means": means, "needs": self.needs}


def settling(ratings: Ratings, *, alpha: float = ORDER_ALPHA) -> Settling:
    """Return how far the order is settled.

    Args:
        alpha: chance allowed of any wrong order, at any look.

    Raises:
        ValueError: there is no dimension to compare bots by.
    """
    ratings = replace(ratings, is_collecting=True)
    compared = compare(ratings, alpha=alpha, plans=False)
    values, scale = ratings.values(), compared.dimension
    means = {
        bot: mean_always(
            values[ratings.bot == bot],
            ratings.unit[ratings.bot == bot].tolist(),
            low=scale.low,
            high=scale.high,
            level=1 - alpha,
        )
        for bot in sorted(set(ratings.bot.tolist()))
    }
    needs = dict.fromkeys(means, 0)
    for pair in compared.pairs:
        if not pair.ordered:
            n_more = compared.more.get((pair.a, pair.b))
            need = MOST_NEEDED if n_more is None else min(MOST_NEEDED, max(1, n_more))
            for bot in (pair.a, pair.b):
                needs[bot] = max(needs[bot], need)
    return Settling(compared, means, needs)
