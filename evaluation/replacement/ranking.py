"""Question 1: does a candidate rank bots as people do?

It must order them better than chance, than the length of the chats and than the bots' own turns. Each is a test over
bots of `evaluation.hybrid`, with every bot predicted without its own ratings: permuted ratings for chance, and the
interval of Pitman and Morgan for the errors of each rival. All must be passed, so the largest p-value counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from evaluation.findings import Reason
from evaluation.hybrid.bot_level import BotLevel, OrderedPairs
from evaluation.hybrid.rivals import LENGTH_RIVALS, LOST_DEGREES, ErrorRatio, Rival, error_ratio
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import pluralise
from evaluation.replacement.result import ALPHA, BotRanking, RivalErrors, Settlement
from evaluation.stats.effect_sizes import Effect

OWN_TURNS = "own_turns"
WEAK_R = 0.5
"""With a smaller r over bots, fewer than two of three pairs are in people's order: 1 / 2 + arcsin(r) / π."""
MOST_BOTS = 200
NO_LENGTHS = Reason("rivals_without_lengths", "the lengths of the chats are unknown, so length is not ruled out")
NO_OWN_TURNS = Reason(
    "rivals_without_own_turns", "nothing is known about the bots' own turns, so these are not ruled out"
)


@dataclass(frozen=True, slots=True)
class BotPredictions:
    """Predictions of the bots' mean ratings, without each bot's own ratings.

    Attributes:
        level: Pearson's r over bots with one intercept for all folds.
        folds: predictions with the intercept of each fold, by bot.
        human: mean ratings that the bots are compared with.
        rivals: comparison with the lengths of chats.
    """

    level: BotLevel
    pairs: OrderedPairs
    folds: Mapping[str, float]
    human: Mapping[str, float]
    rivals: Mapping[str, Rival]


def rank_bots(predictions: BotPredictions, own_turns: Mapping[str, float] | None, *, is_own_turns: bool) -> BotRanking:
    """Answer the question for one candidate, before correction over candidates.

    Args:
        own_turns: predictions from the bots' own turns, with the intercept of each fold; None if unknown.
        is_own_turns: True if the candidate reads nothing else, so that they are no rival.
    """
    correlation, n_bots = predictions.level.correlation, predictions.level.correlation.n
    ratios = {name: rival.ratio for name, rival in predictions.rivals.items()}
    if own_turns is not None and not is_own_turns:
        bots = [bot for bot in predictions.folds if bot in own_turns and bot in predictions.human]
        if len(bots) == len([bot for bot in predictions.folds if bot in predictions.human]) >= FEW_BOTS:
            columns = (predictions.folds, own_turns, predictions.human)
            ratios[OWN_TURNS] = error_ratio(*(np.array([column[bot] for bot in bots]) for column in columns))
    rivals = tuple(
        RivalErrors(name, Effect(ratio.value, ratio.low, ratio.high), ratio.p_value(n_bots))
        for name, ratio in ratios.items()
    )
    reason = _undefined(predictions, ratios, is_own_turns=is_own_turns)
    r = correlation.r
    p = None
    if reason is None and r is not None:
        chance = 1.0 if predictions.level.p is None else predictions.level.p
        p = max(chance, *(_p_better(rival) for rival in rivals))
    is_weak = r is not None and r < WEAK_R and correlation.high is not None and correlation.high < WEAK_R
    p_worse = min((_p_worse(rival) for rival in rivals), default=1.0) * max(len(rivals), 1)
    is_refuted = n_bots >= FEW_BOTS and (is_weak or p_worse <= ALPHA)
    return BotRanking(
        answer="no" if is_refuted else "not_known",
        r=Effect(r, correlation.low, correlation.high, correlation.reason),
        null95=predictions.level.null95,
        n_bots=n_bots,
        n_pairs=predictions.pairs.all,
        n_ordered=predictions.pairs.ordered,
        rivals=rivals,
        p=p,
        settled_by=None if is_refuted else _settle(r, n_bots, rivals, ratios, reason),
        reason=reason,
    )


def few_bots(n: int) -> Reason:
    """Return the reason why the order of n bots cannot be tested."""
    return Reason("few_bots_for_values", f"{pluralise(n, 'bot')}; {FEW_BOTS} are needed", n_bots=n, needed=FEW_BOTS)


def _undefined(predictions: BotPredictions, ratios: Mapping[str, ErrorRatio], *, is_own_turns: bool) -> Reason | None:
    correlation = predictions.level.correlation
    if correlation.n < FEW_BOTS:
        return few_bots(correlation.n)
    if correlation.r is None:
        return correlation.reason
    if not set(LENGTH_RIVALS) <= ratios.keys():
        return NO_LENGTHS
    return None if is_own_turns or OWN_TURNS in ratios else NO_OWN_TURNS


def _p_better(rival: RivalErrors) -> float:
    """Return the p-value of a candidate that is better than a rival; 1 if it is not."""
    return rival.p if rival.p is not None and (rival.ratio.value or 1.0) < 1 else 1.0


def _p_worse(rival: RivalErrors) -> float:
    return rival.p if rival.p is not None and (rival.ratio.value or 0.0) > 1 else 1.0


def _settle(
    r: float | None, n_bots: int, rivals: Sequence[RivalErrors], ratios: Mapping[str, ErrorRatio], reason: Reason | None
) -> Settlement:
    """Return the data that would settle the question if r and the ratios of errors stay the same."""
    if n_bots < FEW_BOTS:
        return Settlement("bots", FEW_BOTS)
    if reason is NO_LENGTHS:
        return Settlement("metrics")
    if reason is NO_OWN_TURNS:
        return Settlement("selfplay")
    if r is None or r <= 0 or any((rival.ratio.value or 1.0) >= 1 for rival in rivals):
        return Settlement("better_candidate")
    needed = next((n for n in range(n_bots + 1, MOST_BOTS + 1) if _is_shown(r, n, n_bots, rivals, ratios)), None)
    return Settlement("bots", needed) if needed is not None else Settlement("better_candidate")


def _is_shown(r: float, n: int, n_bots: int, rivals: Sequence[RivalErrors], ratios: Mapping[str, ErrorRatio]) -> bool:
    """Return True if the same r and ratios over n bots would pass every test."""
    from scipy import stats

    t = r * sqrt((n - 2) / max(1 - r * r, 1e-12))
    passed = float(stats.t.sf(t, n - 2)) <= ALPHA
    for rival in rivals:
        if rival.p is None:
            return False
        free = n_bots - LOST_DEGREES
        # The statistic grows with the square root of its degrees of freedom.
        t = float(stats.t.isf(max(rival.p, 1e-300) / 2, free)) * sqrt((n - LOST_DEGREES) / free)
        passed = passed and 2 * float(stats.t.sf(t, n - LOST_DEGREES)) <= ALPHA
    return passed
