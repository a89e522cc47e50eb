"""Leaderboard: every bot with its range of ranks, and the bots that do not differ significantly from it.

Nothing is tested here: `Comparisons` holds the significant pairs, and `BotMeans` the means with intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from evaluation.analysis.comparisons import BotMeans, Comparisons
from evaluation.analysis.tables import text_table
from evaluation.printing import figure, span
from evaluation.ratings import Dimension
from evaluation.stats.intervals import Interval
from evaluation.wording import counted


@dataclass(frozen=True, slots=True)
class Place:
    """A bot on the leaderboard.

    Attributes:
        ranks: the best and the worst place that the tests leave open among all bots but controls; None for a control.
        mean: of all its ratings, with its interval.
        compared_mean: what the tests compare: its mean for the average rater. It orders the bots.
        n_ratings: with an answer to this question.
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
        """True if the bot is a deliberately bad control, which has no rank."""
        return self.ranks is None


@dataclass(frozen=True, slots=True, repr=False)
class Leaderboard:
    """The bots by one question.

    Attributes:
        places: best first, controls last.
        groups: bots of which no two differ significantly, each group as large as can be and in order of `places`.
        level: of the means' intervals.
        n_told_apart, n_pairs: of all pairs that could be tested, controls too.
    """

    dimension: Dimension
    places: tuple[Place, ...]
    groups: tuple[tuple[str, ...], ...]
    level: float
    n_told_apart: int
    n_pairs: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "dimension": self.dimension.key,
            "level": self.level,
            "n_told_apart": self.n_told_apart,
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
                ranks_shown(place.ranks),
                *(place.bot, str(place.n_ratings), figure(place.mean.mean)),
                *(span(place.mean.low, place.mean.high), ", ".join(place.too_close) or "–"),
            ]
            for place in self.places
        ]
        title = (
            f"Bots by {self.dimension.key}: {self.n_told_apart} of {counted(self.n_pairs, 'pair')} told apart; "
            "ranks are every place that the tests leave open"
        )
        headers = ["rank", "bot", "n", "mean", f"{self.level:.0%}", "too close to"]
        return text_table(title, headers, rows)

    def __repr__(self) -> str:
        return f"Leaderboard of {counted(len(self.places), 'bot')} by {self.dimension.key}"


def leaderboard(means: BotMeans, compared: Comparisons) -> Leaderboard:
    """Return the leaderboard by the question that was compared.

    Args:
        means: of the same ratings.
    """
    key = compared.dimension.key
    ranks = compared.ranks
    bots = [*compared.order, *compared.controls]
    places = []
    for bot in bots:
        found = means.rows[bot, key].interval
        close = tuple(
            other for other in bots if other != bot and not compared.are_told_apart(bot, other)
        )
        places.append(
            Place(bot, ranks.get(bot), found, compared.means[bot], found.n, too_close=close)
        )
    return Leaderboard(
        dimension=compared.dimension,
        places=tuple(places),
        groups=alike_groups({place.bot: place.too_close for place in places}),
        level=means.level,
        n_told_apart=compared.n_told_apart,
        n_pairs=compared.n_pairs,
    )


def alike_groups(close: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the largest groups of bots of which no two differ significantly, those with the best bot first.

    These are the maximal cliques of the graph that joins what cannot be told apart. A group whose every pair stands in
    groups before it says nothing new, and is left out.

    Args:
        close: by bot, in order, the bots that do not differ significantly from it; others do not count.
    """
    import networkx as nx

    at = {bot: i for i, bot in enumerate(close)}
    graph = nx.Graph((a, b) for a, others in close.items() for b in others if b in at)
    cliques = sorted(
        (sorted(clique, key=at.__getitem__) for clique in nx.find_cliques(graph)),
        key=lambda clique: (-len(clique), [at[bot] for bot in clique]),
    )
    told: set[tuple[str, str]] = set()
    kept = []
    for clique in cliques:
        pairs = set(combinations(clique, 2))
        if not pairs <= told:
            kept.append(tuple(clique))
            told |= pairs
    return tuple(sorted(kept, key=lambda group: [at[bot] for bot in group]))


def ranks_shown(ranks: tuple[int, int] | None) -> str:
    """Write a range of ranks, `2–4`; a dash for a bot without one."""
    if ranks is None:
        return "–"
    best, worst = ranks
    return str(best) if best == worst else f"{best}–{worst}"
