"""Which bots can be told apart: differences of means for every pair, corrected for their number.

Welch's t-test where every rating comes from another participant; where participants rate several bots,
or one bot several times, participants are resampled whole and the standard error of each difference
is the bootstrap's, or its limit where there are many. p-values are corrected by Holm (1979), Scandinavian Journal of Statistics 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.bootstrap import BOOTSTRAP_LIMIT, unit_covariance
from evaluation.stats.welch import welch

ORDER_ALPHA = 0.10
"""Chance allowed of any wrong order among all pairs of bots, wherever bots are put in order by ratings."""


ONE_RATING = Reason("one_rating", "a bot has one rating: its spread is unknown")
ONE_RATER = Reason("one_rater", "a bot was rated by one participant only")
NO_SPREAD = Reason("no_spread", "neither bot's ratings vary")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two bots, `a` before `b` in the alphabet.

    Attributes:
        difference: mean of a − mean of b.
        low, high: interval of the difference, not corrected; None where there is none.
        p: two-sided p-value; None where undefined.
        p_holm: corrected for all pairs compared.
        ordered: whether p_holm is below 1 − level: the two can be put in order.
        reason: why there is no p-value.
    """

    a: str
    b: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    ordered: bool
    reason: Reason | None = None


def pairwise(
    values: Sequence[float] | np.ndarray,
    bots: Sequence[str],
    participants: Sequence[Any] | None = None,
    *,
    level: float = 0.95,
    n: int = 2000,
    seed: int = 0,
) -> list[Comparison]:
    """Compare every pair of bots.

    Args:
        values: (k,) ratings; undefined ones are left out.
        bots: (k,) whom each rates.
        participants: (k,) who rated; None as an entry stands for somebody who rated only this.
        level: of the intervals; 1 − level is the chance allowed of any wrong order among all pairs.
        n: resamples, where participants are resampled.
        seed: of the resampling.

    Returns:
        All pairs, sorted by name.
    """
    array = np.asarray(values, dtype=float)
    names = np.asarray(bots, dtype=object).astype(str)
    if len(array) != len(names):
        raise ValueError(f"{len(array)} values for {len(names)} bots; there must be one bot each")
    keep = np.isfinite(array)
    labels = sorted(set(names.tolist()))
    people = None if participants is None else _distinct(participants)[keep]
    array, names = array[keep], names[keep]
    if people is not None and len(np.unique(people)) < len(people):
        found = _by_participant(array, names, people, labels, level, n, seed)
    else:
        found = _welch(array, names, labels, level)
    adjusted = holm([pair.p for pair in found])
    return [
        Comparison(
            pair.a,
            pair.b,
            pair.difference,
            pair.low,
            pair.high,
            pair.p,
            p_holm,
            p_holm is not None and p_holm < 1 - level,
            pair.reason,
        )
        for pair, p_holm in zip(found, adjusted, strict=True)
    ]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values by Holm's step-down procedure; undefined ones stay undefined and do not count."""
    defined = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(defined):
        largest = max(largest, min(1.0, (len(defined) - rank) * p))
        adjusted[i] = largest
    return adjusted


@dataclass(frozen=True, slots=True)
class _Pair:
    a: str
    b: str
    difference: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    reason: Reason | None = None


def _distinct(participants: Sequence[Any]) -> np.ndarray:
    """Return codes of participants; those without a name get a code of their own each."""
    codes: dict[Any, int] = {}
    found = []
    for i, person in enumerate(participants):
        unknown = person is None or person != person
        found.append(codes.setdefault(("nobody", i) if unknown else ("named", str(person)), i))
    return np.array(found, dtype=int)


def difference_or_reason(
    array: np.ndarray, names: np.ndarray, a: str, b: str
) -> tuple[float | None, Reason | None]:
    """Return the difference of two bots' means, and why it cannot be tested; None where it can.

    Args:
        array, names: (k,) finite ratings, and whom each rates.
    """
    x, y = array[names == a], array[names == b]
    if not len(x) or not len(y):
        return None, _no_rating(a if not len(x) else b)
    gap = float(x.mean() - y.mean())
    return gap, ONE_RATING if len(x) < 2 or len(y) < 2 else None


def _difference(array: np.ndarray, names: np.ndarray, a: str, b: str) -> _Pair | None:
    """Return the pair with its reason where no test can be made, or None where one can."""
    gap, reason = difference_or_reason(array, names, a, b)
    return None if reason is None else _Pair(a, b, gap, reason=reason)


def _no_rating(bot: str) -> Reason:
    return Reason("no_rating_of_bot", f"{bot} has no rating", bot=bot)


def _welch(
    array: np.ndarray, names: np.ndarray, labels: Sequence[str], level: float
) -> list[_Pair]:
    found = []
    for a, b in combinations(labels, 2):
        pair = _difference(array, names, a, b)
        if pair is None:
            x, y = array[names == a], array[names == b]
            gap = float(x.mean() - y.mean())
            if np.ptp(x) == 0 and np.ptp(y) == 0:
                pair = _Pair(a, b, gap, reason=NO_SPREAD)
            else:
                test = welch(x, y, level)
                pair = _Pair(a, b, gap, test.low, test.high, test.p)
        found.append(pair)
    return found


def _by_participant(
    array: np.ndarray,
    names: np.ndarray,
    people: np.ndarray,
    labels: Sequence[str],
    level: float,
    n: int,
    seed: int,
) -> list[_Pair]:
    """Test the differences with the standard error of resampled participants, against Student's t."""
    from scipy import stats

    person, who = np.unique(people, return_inverse=True)
    column = np.searchsorted(np.array(labels), names)
    sums = np.zeros((len(person), len(labels)))
    counts = np.zeros((len(person), len(labels)))
    np.add.at(sums, (who, column), array)
    np.add.at(counts, (who, column), 1.0)
    errors = _errors(sums, counts, n, seed)
    found = []
    for a, b in combinations(labels, 2):
        pair = _difference(array, names, a, b)
        if pair is None:
            i, j = labels.index(a), labels.index(b)
            gap = float(array[names == a].mean() - array[names == b].mean())
            error = float(errors[i, j])
            n_people = int(min((counts[:, i] > 0).sum(), (counts[:, j] > 0).sum()))
            if n_people < 2:
                pair = _Pair(a, b, gap, reason=ONE_RATER)
            elif error <= 1e-12:
                pair = _Pair(a, b, gap, reason=NO_SPREAD)
            else:
                half = stats.t.ppf(0.5 + level / 2, n_people - 1) * error
                p = float(2 * stats.t.sf(abs(gap) / error, n_people - 1))
                pair = _Pair(a, b, gap, gap - half, gap + half, p)
        found.append(pair)
    return found


def _errors(sums: np.ndarray, counts: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return the standard errors of the differences of every two columns' means: (bots, bots).

    Args:
        sums, counts: (participants, bots).
    """
    n_people, n_bots = sums.shape
    if n_people > BOOTSTRAP_LIMIT:
        covariance = unit_covariance(sums, counts)
        own = np.diag(covariance)
        return np.sqrt(np.maximum(own[:, None] + own[None] - 2 * covariance, 0.0))
    rng = np.random.default_rng(seed)
    draws = np.empty((n, n_bots))
    for k in range(n):
        # How often each participant is drawn: the same as picking rows, and one product does the sums.
        times = np.bincount(rng.integers(0, n_people, size=n_people), minlength=n_people)
        times = times.astype(float)
        number = times @ counts
        draws[k] = np.divide(times @ sums, number, out=np.full(n_bots, np.nan), where=number > 0)
    errors = np.full((n_bots, n_bots), np.nan)  # stays so for a bot without a rating
    for i, j in combinations(range(n_bots), 2):
        gaps = draws[:, i] - draws[:, j]
        gaps = gaps[np.isfinite(gaps)]
        if len(gaps) > 1:
            errors[i, j] = errors[j, i] = gaps.std(ddof=1)
    return errors
