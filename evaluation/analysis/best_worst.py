"""Best-worst scaling: implied pairs, bot scores, and reliability of reply scores.

A rater reads four replies and names the best and the worst. That orders five of the six pairs: the best above the other
three, and the middle two above the worst (Louviere, Flynn and Marley 2015). The middle two stay unordered. The five
pairs of one choice are dependent, so all intervals are clustered by rater; a choice by an unnamed rater is its own
cluster.

A bot's score is the share of its appearances in which it was the best, minus the share in which it was the worst
(Kiritchenko and Mohammad 2017, Best-Worst Scaling More Reliable than Rating Scales).

For reliability, raters are split into two halves at random. Pearson's r correlates the two halves' scores of the
replies that both saw, averaged over many splits. The Spearman-Brown formula 2 r / (1 + r) then gives the reliability of
the scores by all raters. The interval of the mean r is a jackknife over raters on Fisher's scale; the formula is
monotonic, so it converts both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from evaluation.analysis.ordered_choices import BotTable, ChoiceResults, OrderedChoices
from evaluation.findings import Reason
from evaluation.number_format import percent
from evaluation.stats.means import Interval, mean_interval
from evaluation.stats.resampling import FEWEST_UNITS, jackknife_interval
from evaluation.stats.zscores import rater_codes

N_SHOWN = 4
"""Number of replies per choice."""
FEWEST_REPLIES = 3
"""Minimum number of replies seen by both halves of the raters."""
N_DIVISIONS = 30
MOST_UNITS = 200
"""Maximum number of rater groups; more raters are grouped to limit run time."""


class BestWorstChoices(OrderedChoices):
    """Choices as columns of equal length: best, two middle and worst replies."""

    implied = ((0, 1), (0, 2), (0, 3), (1, 3), (2, 3))

    def results(self, *, level: float, seed: int = 0) -> BestWorst:
        return best_worst(self, level=level, seed=seed)


@dataclass(frozen=True, slots=True)
class BestWorstScore:
    """Score of a bot from −1 to 1, with its interval over raters.

    1 if it was always the best, −1 if always the worst.
    """

    bot: str
    n_shown: int
    n_best: int
    n_worst: int
    score: Interval


@dataclass(frozen=True, slots=True)
class BestWorst(ChoiceResults):
    """Results of best-worst scaling.

    Attributes:
        n, n_replies, reliability: as in `ChoiceResults`.
        scores: scores of all bots, best first.
    """

    key: ClassVar[str] = "best_worst"
    activity: ClassVar[str] = "chose the best and the worst reply {n} times"
    method: ClassVar[str] = (
        "A choice orders five of six pairs of replies; the order of the two middle replies stays unknown. "
        "Judgements implied by one choice depend on each other, so intervals are clustered by rater."
    )
    n: int
    n_replies: int
    scores: tuple[BestWorstScore, ...]
    reliability: Interval

    def table(self, level: float) -> BotTable:
        return BotTable(
            "best-worst",
            "Best and worst replies by bot",
            ("Best minus worst", "Shown", "Best", "Worst"),
            tuple((score.bot, score.score, score.n_shown, score.n_best, score.n_worst) for score in self.scores),
            "Share of a bot’s displayed replies chosen as best minus the share chosen as worst, from −1 to 1; "
            f"{percent(level)} intervals clustered by rater.",
        )


def best_worst(choices: BestWorstChoices, *, level: float, seed: int = 0) -> BestWorst:
    """Compute scores and reliability.

    Args:
        level: confidence level of the intervals.
        seed: seed of the splits of raters.
    """
    values = np.tile([1.0, 0.0, 0.0, -1.0], len(choices))
    raters = np.repeat(rater_codes(choices.rater.tolist()), N_SHOWN)
    bots, replies = choices.bot.ravel().astype(str), choices.reply.ravel().astype(str)
    scores = []
    for bot in sorted(set(bots.tolist())):
        here = bots == bot
        bot_replies = replies[here]
        things = bot_replies if len(set(bot_replies.tolist())) < len(bot_replies) else None
        score = mean_interval(values[here], raters[here], level, scale=(-1.0, 1.0), things=things)
        n_best, n_worst = (int((values[here] == end).sum()) for end in (1.0, -1.0))
        scores.append(BestWorstScore(bot, int(here.sum()), n_best, n_worst, score))
    scores.sort(key=lambda bot_score: (-(bot_score.score.mean or 0.0), bot_score.bot))
    reliability = split_half(values, replies, raters, level=level, seed=seed)
    return BestWorst(len(choices), len(set(replies.tolist())), tuple(scores), reliability)


def split_half(values: np.ndarray, things: np.ndarray, raters: np.ndarray, *, level: float, seed: int = 0) -> Interval:
    """Return the split-half reliability of mean values, with its interval.

    Args:
        values, things, raters: (k,) raters as codes from 0.
        level: confidence level of the interval.
        seed: seed of the splits.
    """
    units = np.unique(raters % MOST_UNITS, return_inverse=True)[1]
    names, thing_codes = np.unique(things, return_inverse=True)
    n_units = int(units.max(initial=-1)) + 1
    if n_units < FEWEST_UNITS:
        text = f"{n_units} raters are too few to compare two halves; {FEWEST_UNITS} are needed"
        return Interval(None, None, None, len(names), Reason("few_raters_for_halves", text, n_raters=n_units))
    points, exposures = np.zeros((2, n_units, len(names)))
    np.add.at(points, (units, thing_codes), values)
    np.add.at(exposures, (units, thing_codes), 1.0)
    correlations, leave_one_out = [], []
    for half in _divisions(n_units, seed):
        sides = [(points[side], exposures[side]) for side in (half, ~half)]
        [r] = _correlations(*(part.sum(axis=0)[None] for side in sides for part in side))
        if np.isfinite(r):
            correlations.append(r)
            remaining = [
                part[side].sum(axis=0) - part * side[:, None] for side in (half, ~half) for part in (points, exposures)
            ]
            leave_one_out.append(_correlations(*remaining))
    if not correlations:
        text = f"fewer than {FEWEST_REPLIES} replies with different scores were seen by both halves of the raters"
        return Interval(None, None, None, len(names), Reason("no_halves", text, needed=FEWEST_REPLIES))
    r = float(np.mean(correlations))
    ends = jackknife_interval(r, np.mean(leave_one_out, axis=0), 2.0, level)
    if ends is None:
        text = f"no interval: the {n_units} raters are too few or too similar to estimate the error"
        reason = Reason("units_tell_nothing", text, n_units=n_units)
        return Interval(spearman_brown(r), None, None, len(names), reason)
    low, high = map(spearman_brown, ends)
    return Interval(spearman_brown(r), low, high, len(names))


def spearman_brown(r: float) -> float:
    """Return the reliability with twice as many raters; at least −1."""
    return max(-1.0, 2 * r / (1 + r)) if r > -1 else -1.0


def _divisions(n_units: int, seed: int) -> Iterator[np.ndarray]:
    """Yield (n_units,) masks of the first half of the units.

    Yields all splits if there are few, otherwise random ones.
    """
    if comb(n_units, n_units // 2) <= 2 * N_DIVISIONS:
        for chosen in combinations(range(n_units), n_units // 2):
            if n_units % 2 or 0 in chosen:  # the complement is the same split
                yield np.isin(np.arange(n_units), chosen)
        return
    rng = np.random.default_rng(seed)
    for _number in range(N_DIVISIONS):
        yield rng.permutation(n_units) < n_units // 2


def _correlations(
    points: np.ndarray, exposures: np.ndarray, other_points: np.ndarray, other_exposures: np.ndarray
) -> np.ndarray:
    """Return (m,) Pearson's r of two rows of means.

    Only columns with values in both rows count; NaN if undefined.
    """
    in_both = (exposures > 0) & (other_exposures > 0)
    n = in_both.sum(axis=1)
    x, y = (
        np.divide(a, b, out=np.zeros_like(a), where=in_both)
        for a, b in ((points, exposures), (other_points, other_exposures))
    )
    x, y = (np.where(in_both, means - (means.sum(axis=1) / np.maximum(n, 1))[:, None], 0.0) for means in (x, y))
    squares = (x**2).sum(axis=1) * (y**2).sum(axis=1)
    is_defined = (n >= FEWEST_REPLIES) & (squares > 1e-18)
    return np.where(is_defined, (x * y).sum(axis=1) / np.sqrt(np.where(is_defined, squares, 1.0)), np.nan)
