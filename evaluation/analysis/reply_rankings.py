"""Rankings of three replies: strengths of bots by Plackett and Luce, and reliability of reply scores.

A rater puts the replies in order. With strengths π of the bots, the best of the replies S is reply i with probability
π_i / Σ_{j in S} π_j, and the next one is the best of the rest (Luce 1959; Plackett 1975, The Analysis of Permutations,
Applied Statistics 24). The maximum likelihood is found by iterative Luce spectral ranking (Maystre and Grossglauser
2015, Fast and Accurate Inference of Plackett–Luce Models), by the library `choix`. It exists if no group of bots stands
above all others in every order (Hunter 2004, MM Algorithms for Generalized Bradley–Terry Models, The Annals of
Statistics 32).

Intervals are percentiles of a bootstrap over raters, because the orders of one rater resemble each other; an order by
an unnamed rater is its own unit. `choix` has no weights, and 1,000 resamples would take it minutes. So Newton's method
refits all resamples at once, from distinct orders with their numbers.

The pairs of an order that involve two bots are judgements of pairs, too: their wins, tests and ranks are those of every
comparison. To break orders into all of their pairs leaves Bradley–Terry strengths consistent under this model (Azari
Soufiani, Parkes and Xia 2014).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from evaluation.analysis.best_worst import split_half
from evaluation.analysis.ordered_choices import BotTable, ChoiceResults, OrderedChoices
from evaluation.findings import Reason
from evaluation.number_format import percent
from evaluation.stats.means import Interval, mean_interval
from evaluation.stats.resampling import interval_of_draws
from evaluation.stats.zscores import rater_codes

N_RANKED = 3
"""Number of replies in one order."""
N_RESAMPLES = 1000
_BLOCK = 100
"""Resamples that are refitted at once; limits the memory."""
_MOST_STEPS = 30
_TOLERANCE = 1e-8


class RankedReplies(OrderedChoices):
    """Orders of three replies as columns of one length, the best first."""

    implied = tuple(combinations(range(N_RANKED), 2))

    def results(self, *, level: float, seed: int = 0) -> RankingResults:
        return rank_replies(self, level=level, seed=seed)


@dataclass(frozen=True, slots=True)
class RankedBot:
    """A bot in the rankings.

    Attributes:
        n_shown: number of its ranked replies.
        n_first: number of them put first.
        n_last: number of them put last.
        strength: log π relative to the average bot, with the bootstrap interval; its `n` counts orders.
        place: mean place of its replies, from 1 (best) to 3.
    """

    bot: str
    n_shown: int
    n_first: int
    n_last: int
    strength: Interval
    place: Interval


@dataclass(frozen=True, slots=True)
class RankingResults(ChoiceResults):
    """Results of rankings.

    Attributes:
        n: number of orders.
        n_replies: number of distinct replies.
        bots: all bots, the strongest first; without strengths, the one with the best mean place.
        reliability: reliability of the replies' mean places, by Spearman and Brown; its `n` counts replies.
        n_resamples: number of resamples.
        n_undefined: number of resamples left out because the strengths have no maximum.
        reason: reason for missing strengths.
    """

    key: ClassVar[str] = "ranking"
    activity: ClassVar[str] = "put three replies in order {n} times"
    method: ClassVar[str] = (
        "An order of three replies implies three judgements of pairs. They depend on each other, so intervals are "
        "clustered by rater."
    )
    model: ClassVar[str] = "Plackett–Luce"
    model_method: ClassVar[str] = "Plackett–Luce model of whole orders; intervals by a bootstrap over raters."
    n: int
    n_replies: int
    bots: tuple[RankedBot, ...]
    reliability: Interval
    n_resamples: int
    n_undefined: int
    reason: Reason | None = None

    def strengths(self) -> Mapping[str, Interval]:
        return {} if self.reason is not None else {bot.bot: bot.strength for bot in self.bots}

    def table(self, level: float) -> BotTable:
        left_out = (
            f" {self.n_undefined} of {self.n_resamples:,} resamples have no finite strengths and are left out."
            if self.n_undefined
            else ""
        )
        return BotTable(
            "ranking",
            "Ranked replies by bot",
            ("Log strength", "Mean place", "Shown", "First", "Last"),
            tuple((bot.bot, bot.strength, bot.place, bot.n_shown, bot.n_first, bot.n_last) for bot in self.bots),
            f"Strengths of the Plackett–Luce model, relative to the average bot; {percent(level)} percentile intervals "
            f"of {self.n_resamples:,} resamples of raters.{left_out} Mean place: from 1 (best) to {N_RANKED}; "
            f"{percent(level)} intervals clustered by rater.",
        )


def rank_replies(choices: OrderedChoices, *, level: float, seed: int = 0) -> RankingResults:
    """Return the strengths and mean places of the bots, and the reliability of the replies' scores.

    Args:
        level: confidence level of the intervals.
        seed: seed of the bootstrap and of the divisions of raters.
    """
    names, codes = np.unique(choices.bot.astype(str), return_inverse=True)
    orders, raters = codes.reshape(choices.bot.shape), rater_codes(choices.rater.tolist())
    reason = _find_problem(names, orders)
    strengths, draws = np.full(len(names), np.nan), np.full((0, len(names)), np.nan)
    if reason is None:
        strengths = plackett_luce(orders, len(names))
        draws = _resample(orders, raters, strengths, seed)
    n_undefined = int(np.isnan(draws).any(axis=1).sum())
    places = np.tile(np.arange(1.0, N_RANKED + 1), len(choices))
    repeated, replies = np.repeat(raters, N_RANKED), choices.reply.ravel().astype(str)
    n_raters = len(np.unique(raters))
    bots = []
    for code, name in enumerate(names.tolist()):
        here = orders.ravel() == code
        strength = _strength(float(strengths[code]), draws[:, code], n_raters, len(choices), level, reason)
        bot_replies = replies[here]
        things = bot_replies if len(set(bot_replies.tolist())) < len(bot_replies) else None
        place = mean_interval(places[here], repeated[here], level, scale=(1.0, float(N_RANKED)), things=things)
        n_first, n_last = (int((places[here] == end).sum()) for end in (1, N_RANKED))
        bots.append(RankedBot(name, int(here.sum()), n_first, n_last, strength, place))
    bots.sort(key=lambda bot: (-(bot.strength.mean or 0.0), bot.place.mean or 0.0, bot.bot))
    reliability = split_half(-places, replies, repeated, level=level, seed=seed)
    n_replies = len(set(replies.tolist()))
    return RankingResults(len(choices), n_replies, tuple(bots), reliability, len(draws), n_undefined, reason)


def plackett_luce(orders: np.ndarray, n_bots: int) -> np.ndarray:
    """Return (n_bots,) log strengths with mean 0.

    Args:
        orders: (k, n) bots as codes from 0, the best first.
    """
    import choix

    strengths = np.asarray(choix.ilsr_rankings(n_bots, orders.tolist(), max_iter=1000))
    return strengths - strengths.mean()


def _find_problem(names: np.ndarray, orders: np.ndarray) -> Reason | None:
    """Return the reason why the strengths have no finite maximum, or None."""
    from scipy.sparse.csgraph import connected_components

    better, worse = _pairs(orders)
    met = better != worse
    if not met.any():
        return Reason("no_pair_judged", "no two bots were compared")
    graph = np.zeros((len(names), len(names)))
    graph[better[met], worse[met]] = 1
    n_groups, group = connected_components(graph, directed=False)
    if n_groups > 1:
        apart = ", ".join(names[group != group[0]])
        return Reason(
            "never_met", f"{apart} never met {names[0]}, directly or through others", bots=apart, bot=names[0]
        )
    n_groups, group = connected_components(graph, connection="strong")
    if n_groups == 1:
        return None
    # A group that no other bot was ever put above; there is one, as groups have no cycle.
    best = next(code for code in range(n_groups) if not graph[np.ix_(group != code, group == code)].any())
    winners, losers = (", ".join(names[mask]) for mask in (group == best, group != best))
    text = f"{winners} never lost against {losers}, so the difference of their strengths is infinite"
    return Reason("never_lost", text, best=winners, others=losers)


def _pairs(orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the better and the worse bot of every pair of every order."""
    better, worse = np.array(RankedReplies.implied).T
    return orders[:, better].ravel(), orders[:, worse].ravel()


def _strength(value: float, draws: np.ndarray, n_raters: int, n: int, level: float, reason: Reason | None) -> Interval:
    if reason is not None:
        return Interval(None, None, None, n, reason)
    ends = interval_of_draws(draws, n_raters, level)
    if ends is None:
        return Interval(value, None, None, n, Reason("no_interval", "no interval: most resamples are undefined"))
    return Interval(value, *ends, n)


def _resample(orders: np.ndarray, raters: np.ndarray, start: np.ndarray, seed: int) -> np.ndarray:
    """Return (N_RESAMPLES, bots) log strengths of resamples of raters; NaN where they have no maximum."""
    distinct, which = np.unique(orders, axis=0, return_inverse=True)
    units, unit = np.unique(raters, return_inverse=True)
    by_unit = np.zeros((len(units), len(distinct)))
    np.add.at(by_unit, (unit, which.ravel()), 1.0)
    rng = np.random.default_rng(seed)
    n_times = rng.multinomial(len(units), np.full(len(units), 1 / len(units)), size=N_RESAMPLES)
    weights = n_times @ by_unit
    strengths = np.full((N_RESAMPLES, len(start)), np.nan)
    defined = np.flatnonzero(_have_maximum(distinct, weights, len(start)))
    for first in range(0, len(defined), _BLOCK):
        block = defined[first : first + _BLOCK]
        strengths[block] = refit(distinct, weights[block], start)
    return strengths


def _have_maximum(orders: np.ndarray, weights: np.ndarray, n_bots: int) -> np.ndarray:
    """Return an (m,) mask of the weights with a path of orders from every bot down to every other."""
    pairs = np.zeros((len(orders), n_bots, n_bots))
    for better, worse in RankedReplies.implied:
        pairs[np.arange(len(orders)), orders[:, better], orders[:, worse]] = 1
    reached = (weights @ pairs.reshape(len(orders), -1) > 0).reshape(-1, n_bots, n_bots) | np.eye(n_bots, dtype=bool)
    for _doubling in range(n_bots.bit_length()):
        reached = reached @ reached
    return np.asarray(reached.all(axis=(1, 2)))


def refit(orders: np.ndarray, weights: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return (m, bots) log strengths with mean 0 for `m` sets of weights, by Newton's method.

    They are NaN where it does not converge.

    Args:
        orders: (u, n) distinct orders, bots as codes from 0, the best first.
        weights: (m, u) number of times that each order was given; the strengths must have a maximum.
        start: (bots,) strengths to begin with.
    """
    n_bots, n_places = len(start), orders.shape[1]
    # Each place is a choice of the best of those left; choices from the same bots have the same probabilities.
    left = np.zeros((n_places - 1, len(orders), n_bots))
    for place in range(n_places - 1):
        np.add.at(left[place], (np.arange(len(orders))[:, None], orders[:, place:]), 1.0)
    left, which = np.unique(left.reshape(-1, n_bots), axis=0, return_inverse=True)
    weights = np.tile(weights, n_places - 1)
    wins = weights @ np.eye(n_bots)[orders[:, :-1].T.ravel()]
    weights = weights @ np.eye(len(left))[which.ravel()]
    strengths, steps = np.tile(start, (len(weights), 1)), np.full(len(weights), np.inf)
    for _step in range(_MOST_STEPS):
        odds = left * np.exp(strengths - strengths.max(axis=1, keepdims=True))[:, None]
        shares = odds / odds.sum(axis=2, keepdims=True)
        weighted = weights[:, :, None] * shares
        expected = weighted.sum(axis=1)
        information = expected[:, :, None] * np.eye(n_bots) - weighted.transpose(0, 2, 1) @ shares
        # Adding a constant to all strengths changes nothing; this row keeps their sum.
        change = np.linalg.solve(information + 1.0, (wins - expected)[:, :, None])[:, :, 0]
        change = np.clip(change, -2, 2)
        strengths = strengths + change
        steps = np.abs(change).max(axis=1)
        if steps.max() < _TOLERANCE:
            break
    return np.where((steps < _TOLERANCE)[:, None], strengths - strengths.mean(axis=1, keepdims=True), np.nan)
