"""How far the order of a study's bots is settled while it collects, and which bots need more ratings for it.

It reads the always-valid comparisons of `evaluation.analysis.comparisons`, so it may be asked after every rating, and
what is done with the answer (more people for some bots) does not spoil it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
        others: the same of each further question, by its key, in the order of the rubric.
    """

    compared: Comparisons
    means: dict[str, Interval]
    needs: dict[str, int]
    others: dict[str, Settling] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        means = {
            bot: {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}
            for bot, found in self.means.items()
        }
        found = {**self.compared.to_json(), "means": means, "needs": self.needs}
        if self.others:
            found["others"] = [one.to_json() for one in self.others.values()]
        return found


def settling(ratings: Ratings, *, alpha: float = ORDER_ALPHA) -> Settling:
    """Return how far the order is settled, by what bots are ranked by and by every other question.

    Each question keeps `alpha` by itself: who reads all of them allows for that chance once for each.

    Args:
        alpha: chance allowed of any wrong order, at any look.

    Raises:
        ValueError: there is no dimension to compare bots by.
    """
    ratings = replace(ratings, is_collecting=True)
    leading = ratings.leading
    others = [one.key for one in ratings.dimensions if leading is None or one.key != leading.key]
    found = _settled(ratings, alpha)
    return replace(
        found,
        others={key: _settled(replace(ratings, headline=(key,)), alpha) for key in others},
    )


def _settled(ratings: Ratings, alpha: float) -> Settling:
    """Return how far the order by the leading question is settled."""
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
