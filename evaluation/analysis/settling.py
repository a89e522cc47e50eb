"""Sequential ranking: stability of the bots' order while a study collects, and the ratings that each bot needs.

It reads the always-valid comparisons of `evaluation.analysis.comparisons`, so it may be computed after every rating.
Decisions based on it (more participants for some bots) keep the tests valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.analysis.comparisons import Comparisons, compare, verdict
from evaluation.analysis.judged_pairs import Judgements
from evaluation.analysis.preferred import Preferred, preferred
from evaluation.analysis.tables import number_or_reason
from evaluation.ratings import Ratings
from evaluation.stats.compare import ORDER_ALPHA, Comparison
from evaluation.stats.intervals import Interval
from evaluation.stats.sequential import mean_always

MOST_NEEDED = 100
"""A bot's need counts as so many further raters at most, and where no number would do: a pair that may be alike must
not keep everybody from the others."""


@dataclass(frozen=True, slots=True)
class Settling:
    """State of the sequential ranking.

    Attributes:
        compared: every pair, by the always-valid test.
        means: by bot, with always-valid intervals.
        needs: by bot, raters until it differs significantly from every other, at most `MOST_NEEDED`; 0: settled.
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
    """Return the state of the sequential ranking by the headline and by every other question.

    `alpha` holds for each question alone: readers of all questions accept that error rate once for each.

    Args:
        alpha: error rate of any wrong order, anytime-valid.

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
    """Return the state of the sequential ranking by the leading question."""
    compared = compare(ratings, alpha=alpha, plans=False)
    values, scale = ratings.values(), compared.dimension
    means = {
        bot: mean_always(
            values[ratings.bot == bot],
            ratings.unit[ratings.bot == bot].tolist(),
            None if ratings.shared is None else ratings.shared[ratings.bot == bot].tolist(),
            low=scale.low,
            high=scale.high,
            level=1 - alpha,
            is_bounded=not scale.inferred,
        )
        for bot in sorted(set(ratings.bot.tolist()))
    }
    return Settling(compared, means, _needs(list(means), compared.pairs, compared.more))


def _needs(
    bots: Sequence[str],
    pairs: Sequence[Comparison],
    more: Mapping[tuple[str, str], int | None],
) -> dict[str, int]:
    needs = dict.fromkeys(bots, 0)
    for pair in pairs:
        if not pair.ordered:
            n_more = more.get((pair.a, pair.b))
            need = MOST_NEEDED if n_more is None else min(MOST_NEEDED, max(1, n_more))
            for bot in (pair.a, pair.b):
                needs[bot] = max(needs[bot], need)
    return needs


@dataclass(frozen=True, slots=True)
class SettlingOfPairs:
    """State of the sequential ranking of bots that are compared in pairs.

    Attributes:
        told: the preferred bots, by the always-valid test.
        needs: by bot, as `Settling.needs`; pairs that were never compared do not count.
        others: the same of each further question.
    """

    told: Preferred
    needs: dict[str, int]
    others: tuple[SettlingOfPairs, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as `Settling.to_json` has them."""
        pairs = [one.pair for one in self.told.found]
        found: dict[str, Any] = {
            "dimension": self.told.question,
            "alpha": self.told.alpha,
            "test": self.told.test,
            "is_of_pairs": True,
            "n_pairs": sum(pair.p is not None for pair in pairs),
            "n_told_apart": sum(pair.ordered for pair in pairs),
            "pairs": [
                {
                    **{name: getattr(one.pair, name) for name in _OF_PAIR},
                    "verdict": verdict(one.pair),
                    **number_or_reason(one.pair.reason),
                    "n": self.told.n[one.pair.a, one.pair.b],
                    "raters_more": one.more,
                    "unit": one.unit,
                }
                for one in self.told.found
            ],
            "needs": self.needs,
        }
        if self.others:
            found["others"] = [one.to_json() for one in self.others]
        return found


_OF_PAIR = ("a", "b", "difference", "low", "high", "p", "p_holm")


def settling_pairs(judged: Judgements, *, alpha: float = ORDER_ALPHA) -> SettlingOfPairs:
    """Return the sequential ranking by paired comparisons, for the leading and every other question.

    Only an order of two compared bots can be wrong: preferences need not be transitive.

    Args:
        alpha: as `settling`.
    """
    judged = replace(judged, is_collecting=True)
    first, *others = [_pairs_settled(judged, key, alpha) for key in judged.titles]
    return replace(first, others=tuple(others))


def _pairs_settled(judged: Judgements, key: str, alpha: float) -> SettlingOfPairs:
    told = preferred(judged, key, alpha=alpha)
    more = {(one.pair.a, one.pair.b): one.more for one in told.found}
    bots = sorted({bot for pair in more for bot in pair})
    needs = _needs(bots, [one.pair for one in told.found], more)
    return SettlingOfPairs(told, needs)
