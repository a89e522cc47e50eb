"""Intervals of agreement and correlation coefficients, from their values without each item or unit.

A coefficient k of m ratings an item lies between −1 / (m − 1) and 1, and spreads less near both. On Fisher's scale of
intraclass correlations, z = ½ log((1 + (m − 1) k) / (1 − k)) (Fisher 1925, Statistical Methods for Research Workers,
section 39), it spreads alike everywhere, and the jackknife there holds without normal ratings (Arvesen and Schmitz
1970, Biometrics 26). With k_(i) without item i of n, and k̄ their mean,

    v = (n − 1) / n Σ (k_(i) − k̄)²,   z ± t √v dz/dk,

t of Student's distribution. Its degrees of freedom are those of v, 2n / (g + 2), n − 1 at most, as its relative
variance is about (g + 2) / n with g the excess of the k_(i) (Fisher's unbiased one): a few items in which raters
differ widely count for what they are worth. The delta method stands in for z of each k_(i), for without one item all
raters may agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evaluation.reasons import Reason

FEWEST_ITEMS = 10
"""By simulation, intervals of fewer hold less than they claim."""
FEWEST_UNITS = 4
"""Of fewer values without each unit the excess is undefined."""
FEWEST_OTHER = 5
"""Items' worth of answers other than the most frequent one: with fewer, chance agreement is hardly known."""
MOST_SKEWED = 0.05
"""Squared skewness of a binomial number of such answers: 77 items where they are 15 %, 15 where they are 30 %."""
NO_DISAGREEMENT = Reason(
    "no_disagreement", "no interval: without a disagreement nothing tells how far it can be off"
)
MOST_GROUPS = 2000
"""Of more items, groups of neighbours are left out, which takes no longer than so many items."""


def few_for_interval(n_items: int, needed: int = FEWEST_ITEMS) -> Reason:
    """Return the reason why so few items give no interval."""
    text = f"no interval: {n_items} items are too few; {needed} are needed"
    return Reason("few_items_for_interval", text, n_items=n_items, needed=needed)


def has_other(share: float, n_items: int) -> bool:
    """Return True if enough answers differ from the most frequent one.

    That takes enough items' worth of them, and no skewed number of them.

    Args:
        share: of all answers.
    """
    skewness = max(0.0, 1 - 2 * share) ** 2 / max(n_items * share * (1 - share), 1e-300)
    return share * n_items >= FEWEST_OTHER and skewness <= MOST_SKEWED


def few_other(n_other: float, n_answers: float) -> Reason:
    """Return the reason why too few answers other than the most frequent one give no interval."""
    share = n_other / n_answers
    text = f"no interval: only {share:.0%} of the answers are other than the most frequent one"
    return Reason("few_other_answers", text, percent=share)


def values_without(
    statistic: Callable[[np.ndarray], np.ndarray], n_items: int, block: int
) -> np.ndarray:
    """Return a statistic's values without each item, or of more than `MOST_GROUPS` without each group: (groups,).

    Args:
        statistic: (B, n_items), how often each item counts, to (B,).
        block: rows that are handled at once.
    """
    n_groups = min(n_items, MOST_GROUPS)
    group = np.arange(n_items) % n_groups
    return np.concatenate(
        [
            statistic((np.arange(start, min(start + block, n_groups))[:, None] != group) * 1.0)
            for start in range(0, n_groups, block)
        ]
    )


def jackknife_interval(
    value: float,
    without: np.ndarray,
    n_each: float,
    level: float,
    *,
    centred: bool = False,
) -> tuple[float, float] | None:
    """Return the ends of the interval; None where its error is unknown.

    Args:
        value: of all items; without: (n,) without each, three or more.
        n_each: mean number of ratings of an item.
        level: of the interval.
        centred: about the coefficient less its bias by the jackknife, for one that few items make too low.
    """
    from scipy.special import stdtrit

    found = _on_fishers_scale(value, without, n_each, centred=centred)
    if found is None:
        return None
    middle, error, df = found
    half = float(stdtrit(df, 0.5 + level / 2)) * error
    odds = (1 + (n_each - 1) * middle) / (1 - middle) * np.exp([-2 * half, 2 * half])
    low, high = np.where(np.isfinite(odds), (odds - 1) / (odds + n_each - 1), 1.0)
    return float(low), float(high)


def jackknife_p(value: float, without: np.ndarray) -> float | None:
    """Return the two-sided p-value of a correlation of 0: 1 less the level at which its interval ends there.

    Args:
        value: of all units; without: (n,) without each.
    """
    from scipy.special import stdtr

    found = _on_fishers_scale(value, without, 2.0, centred=False)
    return None if found is None else float(2 * stdtr(found[2], -abs(np.arctanh(value)) / found[1]))


def _on_fishers_scale(
    value: float, without: np.ndarray, n_each: float, *, centred: bool
) -> tuple[float, float, float] | None:
    """Return coefficient, error on Fisher's scale and degrees of freedom, as `jackknife_interval`."""
    n, lowest = len(without), -1 / (n_each - 1)
    if n < FEWEST_UNITS or not np.isfinite(without).all():
        return None
    apart = without - without.mean()
    squares = float((apart**2).sum())
    if squares <= 1e-24 or not lowest < value < 1:
        return None
    middle = n * value - (n - 1) * float(without.mean()) if centred else value
    middle = middle if lowest < middle < 1 else value
    slope = ((n_each - 1) / (1 + (n_each - 1) * middle) + 1 / (1 - middle)) / 2
    return middle, float(np.sqrt((n - 1) / n * squares)) * slope, freedom_of(apart)


def freedom_of(apart: np.ndarray) -> float:
    """Return the degrees of freedom of the variance of (n,) deviations, n ≥ 4; few where their tails are heavy."""
    n = len(apart)
    excess = n * float((apart**4).sum()) / float((apart**2).sum()) ** 2 - 3
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * excess + 6)
    return min(n - 1.0, 2 * n / max(excess + 2, 1e-9))


def jackknife_half(parts: Sequence[np.ndarray], level: float) -> float | None:
    """Return half the width of the interval of a sum of statistics; None where its error is unknown.

    Args:
        parts: of each statistic, which is of units of its own, its (n,) values without each of these units.
    """
    from scipy.special import stdtrit

    variances, freedoms = [], []
    for without in parts:
        n, apart = len(without), without - without.mean()
        if n < FEWEST_UNITS or not np.isfinite(without).all():
            return None
        squares = float((apart**2).sum())
        if squares > 1e-24:
            variances.append((n - 1) / n * squares)
            freedoms.append(freedom_of(apart))
    if not variances:
        return 0.0
    variance = sum(variances)
    df = variance**2 / sum(v**2 / free for v, free in zip(variances, freedoms, strict=True))
    return float(stdtrit(df, 0.5 + level / 2)) * variance**0.5
