"""Courses over turns: the best against the worst conversations, or one kind of bot against another.

Figures 3 and 4 of Ghandeharioun et al. (2019): at each turn the mean over the conversations that reach it,
with an interval. Few conversations reach late turns, and those that do are not like the others, so every
point says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.intervals import mean_interval
from evaluation.stats.zscores import rater_codes
from evaluation.storing import Array
from evaluation.wording import counted

N_EXTREME = 100
"""Of the paper."""
LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class Extremes:
    """Conversations that were rated best and worst.

    Attributes:
        best, worst: places in the scores given, best first and worst first; never the same one.
        lowest_best, highest_worst: the scores at which the groups end; None where empty.
        n_tied: conversations with the score at a group's end, among which places were drawn, best and worst.
        reason: why there are fewer than requested, or none.
    """

    best: np.ndarray
    worst: np.ndarray
    lowest_best: float | None
    highest_worst: float | None
    n_tied: tuple[int, int]
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """Mean and interval at each turn, all of length T; NaN where undefined.

    Attributes:
        mean, low, high: over the conversations with a value at the turn; an interval needs two people who differ, or
            a scale with two ends.
        n: how many those are.
    """

    mean: Array
    low: Array
    high: Array
    n: Array


def extremes(
    scores: Sequence[float] | np.ndarray, k: int = N_EXTREME, *, seed: int = 0
) -> Extremes:
    """Choose the k conversations of highest and the k of lowest score, ties at the border drawn by the seed.

    Args:
        scores: (n,) NaN: not rated, never chosen.
        k: of each; with fewer than 2k scores, half of them each.
        seed: of the draw among ties.
    """
    if k < 1:
        raise ValueError(f"k is {k}; it must be at least 1")
    values = np.asarray(scores, dtype=float)
    rated = np.flatnonzero(np.isfinite(values))
    taken = min(k, len(rated) // 2)
    reason = None
    if taken < k:
        n = len(rated)
        why = f"{counted(n, 'conversation')} rated; {k} best and {k} worst need {2 * k}"
        reason = Reason("few_rated", why, n_conversations=n, k=k, needed=2 * k)
    nothing = np.array([], dtype=int)
    if taken == 0 or np.ptp(values[rated]) == 0:
        if taken:
            reason = Reason("rated_alike", "all conversations are rated the same")
        return Extremes(nothing, nothing, None, None, (0, 0), reason)
    shuffled = np.random.default_rng(seed).permutation(rated)
    order = shuffled[np.argsort(values[shuffled], kind="stable")]  # lowest first, ties by chance
    worst, best = order[:taken], order[::-1][:taken]
    ends = float(values[best[-1]]), float(values[worst[-1]])
    tied = tuple(int((values[rated] == end).sum()) for end in ends)
    return Extremes(best, worst, *ends, n_tied=(tied[0], tied[1]), reason=reason)


def course(
    rows: Sequence[Sequence[float | None]],
    people: Sequence[Any] | None = None,
    *,
    level: float = LEVEL,
    scale: tuple[float, float] | None = None,
) -> Course:
    """Return the mean by turn with the interval of every mean (`intervals`).

    Args:
        rows: a conversation's values turn by turn, None or NaN where undefined; lengths may differ.
        people: (n,) person of each, as one person's conversations resemble each other; None: a different one each.
        level: of the interval.
        scale: ends of the scale that the values cannot leave, where there is one; one of them may be infinite.
    """
    n_turns = max((len(row) for row in rows), default=0)
    table = np.full((len(rows), n_turns), np.nan)
    for i, row in enumerate(rows):
        table[i, : len(row)] = [np.nan if value is None else value for value in row]
    units = np.arange(len(rows)) if people is None else rater_codes(people)
    found = [mean_interval(turn, units, level, scale=scale) for turn in table.T]
    mean, low, high = (
        np.array([np.nan if end is None else end for end in ends], dtype=float)
        for ends in (
            [one.mean for one in found],
            [one.low for one in found],
            [one.high for one in found],
        )
    )
    return Course(mean, low, high, np.array([one.n for one in found], dtype=int))
