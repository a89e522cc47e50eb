"""Reactions to good and bad bots, as slopes on human ratings.

The bots' mean reactions are regressed on their mean human ratings. Bad bots must also look bad to simulated
participants (counterfactual check). Intervals use Student's t over bots.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evaluation.findings import Reason
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.number_format import pluralise
from evaluation.simulation.realism.chats import LEAVING, LEAVING_TITLE, QUANTITIES, ChatTurns
from evaluation.simulation.realism.result import ReactionSlopes, ReactionStanding
from evaluation.stats.effect_sizes import Effect

REACTIONS = (
    *("log_words", "question_mark", "sentiment", "appreciation", "confusion", "negation", "overlap", "similarity"),
    LEAVING,
)
"""Quantities that can depend on the quality of a bot."""
FEWEST_FOR_SLOPE = 3
"""Minimum number of bots for a slope; below `FEW_BOTS` it has no interval."""
EQUAL_MEANS = Reason("equal_means", "all bots have the same mean human rating")
CONSTANT = Reason("constant_reaction", "the reaction is the same in all human chats")


def reaction_slopes(
    people: ChatTurns, simulated: ChatTurns, ratings: Mapping[str, float], *, is_within: bool = False
) -> tuple[ReactionSlopes, ...]:
    """Return the slopes of every reaction.

    Args:
        ratings: mean human rating of each bot.
        is_within: True if simulated turns are inside stored chats, so participants do not leave.
    """
    slopes = []
    for key in REACTIONS:
        if key == LEAVING and is_within:
            continue
        title = LEAVING_TITLE if key == LEAVING else QUANTITIES[key][1]
        human_means = people.means(key)
        by_people, by_simulated = by_bot(human_means, people.bots), by_bot(simulated.means(key), simulated.bots)
        bots = [bot for bot in sorted(ratings) if bot in by_people and bot in by_simulated]
        unit = within_spread(human_means, people.bots)
        if not unit > 0:
            none = Effect(reason=CONSTANT)
            slopes.append(ReactionSlopes(key, title, none, none, none, len(bots)))
            continue
        y = np.array([ratings[bot] for bot in bots])
        x, s = (np.array([side[bot] for bot in bots]) / unit for side in (by_people, by_simulated))
        people_slope, simulated_slope, apart = (slope_of(values, y) for values in (x, s, s - x))
        slopes.append(
            ReactionSlopes(
                key,
                title,
                people_slope,
                simulated_slope,
                apart,
                len(bots),
                judge_slope(people_slope, simulated_slope, apart),
            )
        )
    return tuple(slopes)


def by_bot(values: np.ndarray, bots: np.ndarray) -> dict[str, float]:
    """Return the mean of each bot that has a defined value."""
    is_defined = np.isfinite(values)
    return {
        str(bot): float(values[of_bot].mean())
        for bot in set(bots.tolist())
        if (of_bot := is_defined & (bots == bot)).any()
    }


def within_spread(values: np.ndarray, bots: np.ndarray) -> float:
    """Return the pooled standard deviation within bots, or NaN.

    NaN if no bot has two values.
    """
    is_defined = np.isfinite(values)
    codes = np.unique(bots[is_defined].astype(str), return_inverse=True)[1]
    n = np.bincount(codes)
    free = int((n - 1).sum())
    if free < 1:
        return float("nan")
    centred = values[is_defined] - (np.bincount(codes, values[is_defined]) / n)[codes]
    spread = float(np.sqrt((centred**2).sum() / free))
    return spread if spread > 1e-9 * max(1.0, float(np.abs(values[is_defined]).max())) else 0.0


def slope_of(reaction: np.ndarray, rating: np.ndarray) -> Effect:
    """Return the slope per standard deviation of the ratings.

    Least squares, with the interval for n − 2 degrees of freedom.

    Args:
        reaction, rating: (K,) values of the bots.
    """
    from scipy import stats

    n = len(rating)
    few = Reason("few_bots_for_slope", f"{pluralise(n, 'bot')}; {FEW_BOTS} are needed", n_bots=n, needed=FEW_BOTS)
    if n < FEWEST_FOR_SLOPE:
        return Effect(reason=few)
    spread = float(rating.std(ddof=1))
    if not spread > 1e-12 * max(1.0, float(np.abs(rating).max())):
        return Effect(reason=EQUAL_MEANS)
    line = stats.linregress((rating - rating.mean()) / spread, reaction)
    value = float(line.slope)
    if n < FEW_BOTS:
        return Effect(value, reason=few)
    half = float(stats.t.ppf(0.975, n - 2)) * float(line.stderr)
    return Effect(value, value - half, value + half)


def judge_slope(people: Effect, simulated: Effect, difference: Effect) -> ReactionStanding:
    """Judge the simulated slope relative to people's."""
    if people.low is None:
        return "not_known"
    if not _excludes_0(people):
        return "people_unclear"
    people_slope, simulated_slope, is_different = people.value or 0.0, simulated.value or 0.0, _excludes_0(difference)
    if not _excludes_0(simulated) or people_slope * simulated_slope <= 0:
        return "not_as_people" if is_different else "not_known"
    if not is_different:
        return "as_people"
    return "weaker" if abs(simulated_slope) < abs(people_slope) else "stronger"


def _excludes_0(effect: Effect) -> bool:
    return effect.low is not None and effect.high is not None and effect.low * effect.high > 0
