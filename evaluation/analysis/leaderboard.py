"""Leaderboard of the bots, and sequential ranking while a study collects data.

On the leaderboard every bot has a range of ranks, and a list of bots that do not differ significantly from it. Nothing
is tested here: `Comparisons` provides the significant pairs, and `BotMeans` the means with intervals.

Sequential ranking tracks how stable the order of the bots is while a study collects data, and how many ratings each bot
still needs. It uses the always-valid comparisons of `evaluation.analysis.comparisons`, so it can be computed after
every rating. The tests stay valid if it influences the collection (more participants for some bots).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.analysis.bot_means import BotMeans, within_conditions
from evaluation.analysis.comparisons import Comparisons, compare, verdict
from evaluation.analysis.levels import order_alpha
from evaluation.analysis.pairwise_preference import PairJudgements, Preferred, preferred
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.data.tables import number_or_reason, text_table
from evaluation.number_format import figure, pluralise, span
from evaluation.stats.comparisons import Comparison, is_equal
from evaluation.stats.means import NO_SCALE, Interval
from evaluation.stats.sequential import mean_always, means_of, pair_score_means
from evaluation.stats.stopping import StoppingForecast, forecast_decisions


@dataclass(frozen=True, slots=True)
class LeaderboardEntry:
    """A bot on the leaderboard.

    Attributes:
        ranks: best and worst rank among all bots but controls compatible with the tests; None for a control.
        mean: mean of all its ratings, with its interval.
        compared_mean: mean for the average rater, which the tests compare and which orders the bots.
        n_ratings: number of ratings with an answer to this question.
        too_close: bots that do not differ significantly from it, in the order of the leaderboard.
    """

    bot: str
    ranks: tuple[int, int] | None
    mean: Interval
    compared_mean: float
    n_ratings: int
    too_close: tuple[str, ...]

    @property
    def is_control(self) -> bool:
        """True if the bot is a control, which has no rank."""
        return self.ranks is None


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard:
    """Leaderboard of the bots by one question.

    Attributes:
        places: best first, controls last.
        groups: maximal groups of bots without significant differences, in the order of `places`.
        level: confidence level of the means' intervals.
        n_told_apart, n_equal, n_unknown: numbers of pairs that differ significantly, are equal, and are neither.
        n_pairs: number of testable pairs, including controls.
        counts: the same as text.
    """

    dimension: RatingDimension
    places: tuple[LeaderboardEntry, ...]
    groups: tuple[tuple[str, ...], ...]
    level: float
    n_told_apart: int
    n_equal: int
    n_unknown: int
    n_pairs: int
    counts: str

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "dimension": self.dimension.key,
            "level": self.level,
            "n_told_apart": self.n_told_apart,
            "n_equal": self.n_equal,
            "n_not_yet_known": self.n_unknown,
            "n_pairs": self.n_pairs,
            "groups": [list(group) for group in self.groups],
            "places": [
                {
                    "bot": place.bot,
                    "ranks": None if place.ranks is None else list(place.ranks),
                    "mean": place.mean.mean,
                    "low": place.mean.low,
                    "high": place.mean.high,
                    "compared_mean": place.compared_mean,
                    "n": place.n_ratings,
                    "too_close": list(place.too_close),
                }
                for place in self.places
            ],
        }

    def summary(self) -> str:
        """Return a table for a terminal."""
        rows = [
            [
                format_ranks(place.ranks),
                *(place.bot, str(place.n_ratings), figure(place.mean.mean)),
                *(span(place.mean.low, place.mean.high), ", ".join(place.too_close) or "–"),
            ]
            for place in self.places
        ]
        title = f"Bots by {self.dimension.key}: {self.counts}; ranks are the ranges compatible with the tests"
        headers = ["rank", "bot", "n", "mean", f"{self.level:.0%}", "not clearly different from"]
        return text_table(title, headers, rows)

    def __repr__(self) -> str:
        return f"Leaderboard of {pluralise(len(self.places), 'bot')} by {self.dimension.key}"


def leaderboard(means: BotMeans, compared: Comparisons) -> Leaderboard:
    """Return the leaderboard for the compared question.

    Args:
        means: means of the same ratings.
    """
    key = compared.dimension.key
    ranks = compared.ranks
    bots = [*compared.order, *compared.controls]
    places = []
    for bot in bots:
        interval = means.rows[bot, key].interval
        close = tuple(rival for rival in bots if rival != bot and not compared.are_told_apart(bot, rival))
        places.append(LeaderboardEntry(bot, ranks.get(bot), interval, compared.means[bot], interval.n, too_close=close))
    return Leaderboard(
        dimension=compared.dimension,
        places=tuple(places),
        groups=find_equal_groups({place.bot: place.too_close for place in places}),
        level=means.level,
        n_told_apart=compared.n_told_apart,
        n_equal=len(compared.equal),
        n_unknown=len(compared.unknown),
        n_pairs=compared.n_pairs,
        counts=compared.counts,
    )


def find_equal_groups(close: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the maximal groups of bots without significant differences, best first.

    These are the maximal cliques of the graph of non-significant pairs. A group whose pairs all occur in earlier groups
    is redundant and omitted.

    Args:
        close: for each bot, in order, the bots that do not differ significantly from it; others are ignored.
    """
    import networkx as nx

    position = {bot: i for i, bot in enumerate(close)}
    graph = nx.Graph((a, b) for a, close_bots in close.items() for b in close_bots if b in position)
    cliques = sorted(
        (sorted(clique, key=position.__getitem__) for clique in nx.find_cliques(graph)),
        key=lambda clique: (-len(clique), [position[bot] for bot in clique]),
    )
    covered: set[tuple[str, str]] = set()
    groups = []
    for clique in cliques:
        pairs = set(combinations(clique, 2))
        if not pairs <= covered:
            groups.append(tuple(clique))
            covered |= pairs
    return tuple(sorted(groups, key=lambda group: [position[bot] for bot in group]))


def format_ranks(ranks: tuple[int, int] | None) -> str:
    """Format a range of ranks as `2–4`; a dash for None."""
    if ranks is None:
        return "–"
    best, worst = ranks
    return str(best) if best == worst else f"{best}–{worst}"


MOST_NEEDED = 100
"""Maximum number of further raters counted for one bot, also if no number is enough, so that pairs that may be equal do
not block the others."""


@dataclass(frozen=True, slots=True)
class RankingProgress:
    """State of the sequential ranking.

    Attributes:
        compared: all pairs, by the always-valid test.
        means: by bot, with always-valid intervals.
        needs: for each bot, raters needed to decide whether it differs from every other by the smallest difference of
            interest, at most `MOST_NEEDED`; 0 if decided, as different or as equal for practical purposes.
        forecast: further participants until pairs are decided; None for every other question.
        other_questions: progress for every other question by key, in the order of the rubric.
    """

    compared: Comparisons
    means: dict[str, Interval]
    needs: dict[str, int]
    forecast: StoppingForecast | None = None
    other_questions: dict[str, RankingProgress] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        means = {
            bot: {"mean": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}
            for bot, interval in self.means.items()
        }
        document = {**self.compared.to_json(), "means": means, "needs": self.needs}
        if self.forecast is not None:
            document["forecast"] = self.forecast.to_json()
        if self.other_questions:
            document["others"] = [progress.to_json() for progress in self.other_questions.values()]
        return document


def ranking_progress(ratings: Ratings, *, alpha: float | None = None) -> RankingProgress:
    """Return the sequential ranking for the leading and every other question.

    `alpha` applies to each question separately; readers of all questions accept that error rate for each one.

    Args:
        alpha: anytime-valid error rate of any wrong order.

    Raises:
        ValueError: if there is no dimension to compare bots by.
    """
    alpha = order_alpha(ratings.level) if alpha is None else alpha
    ratings = replace(ratings, is_collecting=True)
    leading = ratings.leading
    other_keys = [dimension.key for dimension in ratings.dimensions if leading is None or dimension.key != leading.key]
    progress = _rank_question(ratings, alpha)
    return replace(
        progress,
        forecast=forecast_stopping(ratings, progress.compared),
        other_questions={key: _rank_question(replace(ratings, headline=(key,)), alpha) for key in other_keys},
    )


def forecast_stopping(ratings: Ratings, compared: Comparisons) -> StoppingForecast:
    """Forecast how many more participants decide the pairs of bots of a collecting study.

    Args:
        compared: comparisons of these ratings by the always-valid test.
    """
    ratings = within_conditions(ratings)
    known = ratings.select(np.isfinite(ratings.values()))
    means = means_of(
        known.values(),
        known.bot.tolist(),
        known.unit.tolist(),
        None if known.shared is None else known.shared.tolist(),
        low=compared.dimension.low,
        high=compared.dimension.high,
        conditions=None if known.conditions is None else known.conditions.tolist(),
    )
    return forecast_decisions(
        means, compared.pairs, n_people=len(set(known.unit.tolist())), alpha=compared.alpha, smallest=compared.smallest
    )


def _rank_question(ratings: Ratings, alpha: float) -> RankingProgress:
    """Return the state of the sequential ranking by the leading question."""
    compared = compare(ratings, alpha=alpha, plans=False)
    ratings = within_conditions(ratings)
    values, scale, conditions = ratings.values(), compared.dimension, ratings.conditions
    means = {
        bot: Interval(compared.means[bot], None, None, int((ratings.bot == bot).sum()), NO_SCALE)
        if scale.inferred
        else mean_always(
            values[ratings.bot == bot],
            ratings.unit[ratings.bot == bot].tolist(),
            None if ratings.shared is None else ratings.shared[ratings.bot == bot].tolist(),
            low=scale.low,
            high=scale.high,
            level=1 - alpha,
            conditions=None if conditions is None else conditions[ratings.bot == bot],
        )
        for bot in sorted(set(ratings.bot.tolist()))
    }
    return RankingProgress(
        compared, means, _count_needed_raters(list(means), compared.pairs, compared.more, compared.smallest)
    )


def _count_needed_raters(
    bots: Sequence[str],
    pairs: Sequence[Comparison],
    further_raters: Mapping[tuple[str, str], int | None],
    smallest: float | None,
) -> dict[str, int]:
    needs = dict.fromkeys(bots, 0)
    for pair in pairs:
        if not pair.ordered and not is_equal(pair, smallest):
            n_more = further_raters.get((pair.a, pair.b))
            need = MOST_NEEDED if n_more is None else min(MOST_NEEDED, max(1, n_more))
            for bot in (pair.a, pair.b):
                needs[bot] = max(needs[bot], need)
    return needs


@dataclass(frozen=True, slots=True)
class PairRankingProgress:
    """State of the sequential ranking of bots compared in pairs.

    Attributes:
        preferred: preferred bots by the always-valid test.
        needs: by bot, as in `RankingProgress.needs`; pairs never compared are ignored.
        forecast: as in `RankingProgress`.
        other_questions: progress for every other question.
    """

    preferred: Preferred
    needs: dict[str, int]
    forecast: StoppingForecast | None = None
    other_questions: tuple[PairRankingProgress, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values in the format of `RankingProgress.to_json`."""
        pairs = [preference.pair for preference in self.preferred.found]
        document: dict[str, Any] = {
            "dimension": self.preferred.question,
            "alpha": self.preferred.alpha,
            "test": self.preferred.test,
            "is_of_pairs": True,
            "n_pairs": sum(pair.p is not None for pair in pairs),
            "n_told_apart": sum(pair.ordered for pair in pairs),
            "smallest_difference": self.preferred.smallest,
            "pairs": [
                {
                    **{name: getattr(preference.pair, name) for name in _OF_PAIR},
                    "verdict": verdict(preference.pair),
                    "equal": is_equal(preference.pair, self.preferred.smallest),
                    **number_or_reason(preference.pair.reason),
                    "n": self.preferred.n[preference.pair.a, preference.pair.b],
                    "raters_more": preference.more,
                    "unit": preference.unit,
                }
                for preference in self.preferred.found
            ],
            "needs": self.needs,
        }
        if self.forecast is not None:
            document["forecast"] = self.forecast.to_json()
        if self.other_questions:
            document["others"] = [progress.to_json() for progress in self.other_questions]
        return document


_OF_PAIR = ("a", "b", "difference", "low", "high", "p", "p_holm")


def pair_ranking_progress(judged: PairJudgements, *, alpha: float | None = None) -> PairRankingProgress:
    """Return the sequential ranking by paired comparisons, for every question.

    Only the order of two compared bots can be wrong, because preferences need not be transitive.

    Args:
        alpha: as in `ranking_progress`.
    """
    alpha = order_alpha(judged.level) if alpha is None else alpha
    judged = replace(judged, is_collecting=True)
    first, *other_questions = [_rank_pairs(judged, key, alpha) for key in judged.titles]
    return replace(first, forecast=_forecast_pairs(judged, first.preferred), other_questions=tuple(other_questions))


def _forecast_pairs(judged: PairJudgements, preferences: Preferred) -> StoppingForecast:
    """Forecast how many more participants decide the pairs that are compared directly."""
    values = judged.answers[judged.leading]
    keep = np.isfinite(values)
    columns = [column[keep].tolist() for column in (judged.first, judged.second, judged.rater, judged.item)]
    means, n_people = pair_score_means(values[keep], *columns)
    pairs = [preference.pair for preference in preferences.found]
    return forecast_decisions(means, pairs, n_people=n_people, alpha=preferences.alpha, smallest=preferences.smallest)


def _rank_pairs(judged: PairJudgements, key: str, alpha: float) -> PairRankingProgress:
    preferences = preferred(judged, key, alpha=alpha)
    further_raters = {(preference.pair.a, preference.pair.b): preference.more for preference in preferences.found}
    bots = sorted({bot for pair in further_raters for bot in pair})
    needs = _count_needed_raters(
        bots, [preference.pair for preference in preferences.found], further_raters, preferences.smallest
    )
    return PairRankingProgress(preferences, needs)
