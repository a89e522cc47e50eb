"""Resampling intervals: bootstrap percentiles, jackknife, and leave-one-out correlations.

Percentiles of resamples: resamples of n units have the spread of a standard deviation with divisor n, and their
percentiles follow a normal distribution, so with few units they are too close together. More extreme percentiles
correct both: √(n / (n − 1)) times Student's t with n − 1 degrees of freedom, as a probability of the normal
distribution (Hesterberg, 2015, What Teachers Should Know About the Bootstrap, The American Statistician 69, section
5.3). They stay in the range of the statistic. Means need no resampling (`means`).

Jackknife, for agreement and correlation coefficients. A coefficient k of m ratings an item lies between −1 / (m − 1)
and 1, and spreads less near both. On Fisher's scale of intraclass correlations, z = ½ log((1 + (m − 1) k) / (1 − k))
(Fisher 1925, Statistical Methods for Research Workers, section 39), its variance is stable, and the jackknife on this
scale does not require normal ratings (Arvesen and Schmitz 1970, Biometrics 26). With k_(i) without item i of n, and k̄
their mean,

    v = (n − 1) / n Σ (k_(i) − k̄)²,   z ± t √v dz/dk,

t of Student's distribution. Its degrees of freedom are those of v, 2n / (g + 2), n − 1 at most, as its relative
variance is about (g + 2) / n with g the excess of the k_(i) (Fisher's unbiased one): this accounts for a few items with
strong disagreement. The delta method replaces z of each k_(i), because without one item all raters may agree.

Leave-one-out correlations are coefficients of n pairs without each of G units (participants, contexts, or single
pairs), for the jackknife of `correlation`. Pearson's coefficient needs sums only, and Kendall's sums of signs, from
which a unit's contribution is subtracted. Spearman's is Pearson's coefficient of the ranks, and every rank changes when
a unit is left out. With up to a hundred units, ranks are recomputed without each unit. With more, each sum of the ranks
r and s about their means, such as that of r·s, is

    Σ r_i s_i − Σ_{j in unit} (r_j s_j + Σ_i s_i b_ij + Σ_i r_i c_ij),

where b_ij is 1 if x_j < x_i, ½ for a tie and 0 otherwise, and c_ij the same for y. This is exact except for products of
two rank changes. The inner sums run over sorted values in n log n steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evaluation.findings import Reason


def expanded(level: float, n_units: int) -> tuple[float, float]:
    """Return the quantiles of resamples that form the ends of an interval.

    Args:
        level: confidence level of the interval.
        n_units: number of resampled units, two or more.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(np.sqrt(n_units / (n_units - 1)) * stdtrit(n_units - 1, 0.5 - level / 2)))
    return tail, 1 - tail


def interval_of_draws(
    draws: np.ndarray, n_units: int, level: float, n_drawn: int | None = None
) -> tuple[float, float] | None:
    """Return the ends of the interval of resampled values, or None.

    None for a single unit, or if fewer than half of the resamples are defined.

    Args:
        draws: (B,) values of a statistic, NaN if undefined.
        n_drawn: number of draws, if undefined ones were already removed.
    """
    defined = draws[np.isfinite(draws)]
    if n_units < 2 or not len(defined) or len(defined) < (n_drawn or len(draws)) / 2:
        return None
    low, high = np.quantile(defined, expanded(level, n_units))
    return float(low), float(high)


FEWEST_ITEMS = 10
"""Minimum number of items; with fewer, intervals were too narrow in simulations."""
FEWEST_UNITS = 4
"""Minimum number of leave-one-out values for a defined excess kurtosis."""
FEWEST_OTHER = 5
"""Minimum number of answers other than the most frequent one, in items; with fewer, chance agreement is too uncertain.
"""
MOST_SKEWED = 0.05
"""Maximum squared skewness of the binomial number of such answers: 77 items at a share of 15 %, 15 items at 30 %."""
NO_DISAGREEMENT = Reason("no_disagreement", "no interval: without any disagreement the error is unknown")
MOST_GROUPS = 2000
"""Maximum number of groups: with more items, neighbouring items are left out together to limit the run time."""


def few_for_interval(n_items: int, needed: int = FEWEST_ITEMS) -> Reason:
    """Return the reason why too few items give no interval."""
    text = f"no interval: there are {n_items} items; {needed} are needed"
    return Reason("few_items_for_interval", text, n_items=n_items, needed=needed)


def has_other(share: float, n_items: int) -> bool:
    """Return True if enough answers differ from the most frequent one.

    It requires a minimum number of such answers, in items, and a distribution that is not too skewed.

    Args:
        share: their share of all answers.
    """
    skewness = max(0.0, 1 - 2 * share) ** 2 / max(n_items * share * (1 - share), 1e-300)
    return share * n_items >= FEWEST_OTHER and skewness <= MOST_SKEWED


def few_other(n_other: float, n_answers: float) -> Reason:
    """Return the reason why too few other answers give no interval.

    These are answers other than the most frequent one.
    """
    share = n_other / n_answers
    text = f"no interval: only {share:.0%} of the answers differ from the most frequent one"
    return Reason("few_other_answers", text, percent=share)


def leave_one_out_values(statistic: Callable[[np.ndarray], np.ndarray], n_items: int, block: int) -> np.ndarray:
    """Return a statistic's leave-one-out values, (groups,).

    With more than `MOST_GROUPS` items, groups are left out.

    Args:
        statistic: maps (B, n_items) item weights to (B,) values.
        block: number of rows handled together.
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
    value: float, leave_one_out: np.ndarray, n_each: float, level: float, *, centred: bool = False
) -> tuple[float, float] | None:
    """Return the ends of the interval; None if its error is unknown.

    Args:
        value: value for all items.
        leave_one_out: (n,) values without each item, three or more.
        n_each: mean number of ratings of an item.
        level: of the interval.
        centred: True to centre the interval on the bias-corrected coefficient, for one that is too low with few items.
    """
    from scipy.special import stdtrit

    estimate = _on_fishers_scale(value, leave_one_out, n_each, centred=centred)
    if estimate is None:
        return None
    middle, error, df = estimate
    half = float(stdtrit(df, 0.5 + level / 2)) * error
    odds = (1 + (n_each - 1) * middle) / (1 - middle) * np.exp([-2 * half, 2 * half])
    low, high = np.where(np.isfinite(odds), (odds - 1) / (odds + n_each - 1), 1.0)
    return float(low), float(high)


def jackknife_p(value: float, leave_one_out: np.ndarray) -> float | None:
    """Return the two-sided p-value of a correlation of 0.

    It is 1 minus the level at which the interval ends at 0.

    Args:
        value: value for all units.
        leave_one_out: (n,) values without each unit.
    """
    from scipy.special import stdtr

    estimate = _on_fishers_scale(value, leave_one_out, 2.0, centred=False)
    return None if estimate is None else float(2 * stdtr(estimate[2], -abs(np.arctanh(value)) / estimate[1]))


def _on_fishers_scale(
    value: float, leave_one_out: np.ndarray, n_each: float, *, centred: bool
) -> tuple[float, float, float] | None:
    """Return coefficient, error on Fisher's scale and degrees of freedom, as `jackknife_interval`."""
    n, lowest = len(leave_one_out), -1 / (n_each - 1)
    if n < FEWEST_UNITS or not np.isfinite(leave_one_out).all():
        return None
    apart = leave_one_out - leave_one_out.mean()
    squares = float((apart**2).sum())
    if squares <= 1e-24 or not lowest < value < 1:
        return None
    middle = n * value - (n - 1) * float(leave_one_out.mean()) if centred else value
    middle = middle if lowest < middle < 1 else value
    slope = ((n_each - 1) / (1 + (n_each - 1) * middle) + 1 / (1 - middle)) / 2
    return middle, float(np.sqrt((n - 1) / n * squares)) * slope, freedom_of(apart)


def freedom_of(apart: np.ndarray) -> float:
    """Return the degrees of freedom of the variance of deviations.

    (n,), n ≥ 4; heavy tails reduce them.
    """
    n = len(apart)
    excess = n * float((apart**4).sum()) / float((apart**2).sum()) ** 2 - 3
    excess = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * excess + 6)
    return min(n - 1.0, 2 * n / max(excess + 2, 1e-9))


def jackknife_half(parts: Sequence[np.ndarray], level: float) -> float | None:
    """Return the half width of the interval of a sum of statistics.

    None if its error is unknown.

    Args:
        parts: for each statistic, which has its own units, its (n,) leave-one-out values.
    """
    from scipy.special import stdtrit

    variances, freedoms = [], []
    for leave_one_out in parts:
        n, apart = len(leave_one_out), leave_one_out - leave_one_out.mean()
        if n < FEWEST_UNITS or not np.isfinite(leave_one_out).all():
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


_FEW_UNITS, _FEW_NUMBERS = 100, 4_000_000
"""Maximum number of units, and of pairs times units, for exact ranks; with more, products of rank changes are
ignored."""


def leave_one_out_pearson(
    x: np.ndarray, y: np.ndarray, codes: np.ndarray, groups: np.ndarray | None = None
) -> np.ndarray:
    """Return Pearson's r without each unit: (G,).

    NaN if a side is then constant.

    Args:
        x, y: (n,).
        codes: (n,) numbers 0 … G − 1 of the units.
        groups: (n,) group numbers 0 … K − 1, whose means are subtracted from both sides first; None for one group.
    """
    groups = np.zeros(len(x), dtype=int) if groups is None else groups
    x, y = x - x.mean(), y - y.mean()
    parts = (np.ones_like(x), x, y, x * x, y * y, x * y)
    of_groups = np.stack([np.bincount(groups, part) for part in parts])
    # A unit's contribution to each group; leaving it out changes only the groups that it contributes to.
    pairs, pair_codes = np.unique(codes * of_groups.shape[1] + groups, return_inverse=True)
    unit, group = np.divmod(pairs, of_groups.shape[1])
    of_pairs = np.stack([np.bincount(pair_codes, part) for part in parts])
    total, remaining = _about_means(of_groups), _about_means(of_groups[:, group] - of_pairs)
    lost = [np.bincount(unit, change) for change in total[:, group] - remaining]
    return _ratio(*(total.sum(axis=1, keepdims=True) - lost))


def _about_means(sums: np.ndarray) -> np.ndarray:
    """Return sums about the means of x·y, x² and y², (3, K).

    The argument has the sums of 1, x, y, x², y² and x·y, (6, K); the result is 0 for an empty group.
    """
    n, x, y, xx, yy, xy = sums
    n = np.maximum(n, 1.0)
    return np.stack([xy - x * y / n, xx - x**2 / n, yy - y**2 / n])


def leave_one_out_spearman(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return Spearman's rho without each unit, as `leave_one_out_pearson`."""
    from scipy.stats import rankdata

    n_units = int(codes.max()) + 1
    if n_units <= _FEW_UNITS and n_units * len(x) <= _FEW_NUMBERS:
        is_included = codes[:, None] != np.arange(n_units)  # (n, G)
        r, s = (_ranks_without(values, codes) for values in (x, y))
        r, s = (np.where(is_included, ranks - ranks.mean(axis=0, where=is_included), 0.0) for ranks in (r, s))
        return _ratio((r * s).sum(axis=0), (r**2).sum(axis=0), (s**2).sum(axis=0))
    r, s = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    sums = []
    for ranks, other_ranks, first, second in ((r, s, x, y), (r, r, x, x), (s, s, y, y)):
        lost = ranks * other_ranks + _above(first, other_ranks) + _above(second, ranks)
        sums.append(float((ranks * other_ranks).sum()) - np.bincount(codes, lost))
    return _ratio(*sums)


def _ranks_without(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the mean ranks without each unit up to a constant: (n, G)."""
    levels, level_codes = np.unique(values, return_inverse=True)
    of_level = np.zeros((len(levels), int(codes.max()) + 1))
    np.add.at(of_level, (level_codes, codes), 1.0)
    remaining = of_level.sum(axis=1, keepdims=True) - of_level
    return np.asarray((np.cumsum(remaining, axis=0) - remaining / 2)[level_codes])


def _above(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weight sums of larger values: (n,).

    Tied values count half.
    """
    levels, level_codes = np.unique(values, return_inverse=True)
    of_level = np.bincount(level_codes, weights, minlength=len(levels))
    larger = of_level.sum() - np.cumsum(of_level)
    return np.asarray((larger + of_level / 2)[level_codes])


def leave_one_out_kendall(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return Kendall's tau-b without each unit, as `leave_one_out_pearson`; n² steps."""
    dx, dy = (np.sign(values[:, None] - values) for values in (x, y))  # (n, n)
    same = codes[:, None] == codes
    sums = []
    for signs in (dx * dy, np.abs(dx), np.abs(dy)):
        twice = np.bincount(codes, 2 * signs.sum(axis=1) - (signs * same).sum(axis=1))
        sums.append(float(signs.sum()) - twice)
    return _ratio(*sums)


def _ratio(products: np.ndarray, of_x: np.ndarray, of_y: np.ndarray) -> np.ndarray:
    """Return products / √(of_x of_y), NaN if a side does not vary."""
    smallest = 1e-12 * np.array([np.max(of_x, initial=0.0), np.max(of_y, initial=0.0)])
    good = (of_x > smallest[0]) & (of_y > smallest[1])
    size = np.sqrt(np.where(good, of_x * of_y, 1.0))
    return np.where(good, products / size, np.nan)
