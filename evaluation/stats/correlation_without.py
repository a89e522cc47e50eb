"""Correlation coefficients of n pairs without each of G units: participants, contexts, or each pair by itself.

What the jackknife of `correlation` is made of. Without a unit every pair of a rank correlation has other ranks.
Pearson's coefficient needs sums only, and Kendall's of signs only, from which a unit's share is taken away.
Spearman's is Pearson's of the ranks: of up to a hundred units those without each of them. Of more, each sum of the
ranks r and s about their means, such as that of r·s, is

    Σ r_i s_i − Σ_{j in unit} (r_j s_j + Σ_i s_i b_ij + Σ_i r_i c_ij),

b_ij being 1 where x_j < x_i, ½ where they are tied and else 0, and c_ij the same of y: exact but for products of two
changes of ranks. The inner sums run over sorted values, in n log n steps.
"""

from __future__ import annotations

import numpy as np

_FEW_UNITS, _FEW_NUMBERS = 100, 4_000_000
"""Of more units, or more pairs times units, products of two changes of ranks are left out; of few they matter."""


def pearson_without(
    x: np.ndarray, y: np.ndarray, codes: np.ndarray, groups: np.ndarray | None = None
) -> np.ndarray:
    """Return Pearson's r without each unit: (G,), NaN where a side is constant then.

    Args:
        x, y: (n,); codes: (n,) numbers 0 … G − 1 of the units.
        groups: (n,) numbers 0 … K − 1 of groups, whose means are taken from both sides first; none: one group.
    """
    groups = np.zeros(len(x), dtype=int) if groups is None else groups
    x, y = x - x.mean(), y - y.mean()
    parts = (np.ones_like(x), x, y, x * x, y * y, x * y)
    of_groups = np.stack([np.bincount(groups, part) for part in parts])
    # What a unit has in a group; without it only the groups change in which it has something.
    pairs, at = np.unique(codes * of_groups.shape[1] + groups, return_inverse=True)
    unit, group = np.divmod(pairs, of_groups.shape[1])
    of_pairs = np.stack([np.bincount(at, part) for part in parts])
    whole, left = _about_means(of_groups), _about_means(of_groups[:, group] - of_pairs)
    lost = [np.bincount(unit, change) for change in whole[:, group] - left]
    return _ratio(*(whole.sum(axis=1, keepdims=True) - lost))


def _about_means(sums: np.ndarray) -> np.ndarray:
    """Return sums about the means of x·y, x² and y², (3, K), from sums of 1, x, y, x², y², x·y, (6, K); 0 of none."""
    n, x, y, xx, yy, xy = sums
    n = np.maximum(n, 1.0)
    return np.stack([xy - x * y / n, xx - x**2 / n, yy - y**2 / n])


def spearman_without(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return Spearman's rho without each unit, as `pearson_without`."""
    from scipy.stats import rankdata

    n_units = int(codes.max()) + 1
    if n_units <= _FEW_UNITS and n_units * len(x) <= _FEW_NUMBERS:
        left = codes[:, None] != np.arange(n_units)  # (n, G)
        r, s = (_ranks_without(one, codes) for one in (x, y))
        r, s = (np.where(left, one - one.mean(axis=0, where=left), 0.0) for one in (r, s))
        return _ratio((r * s).sum(axis=0), (r**2).sum(axis=0), (s**2).sum(axis=0))
    r, s = (rankdata(one) - (len(one) + 1) / 2 for one in (x, y))
    sums = []
    for one, other, first, second in ((r, s, x, y), (r, r, x, x), (s, s, y, y)):
        lost = one * other + _above(first, other) + _above(second, one)
        sums.append(float((one * other).sum()) - np.bincount(codes, lost))
    return _ratio(*sums)


def _ranks_without(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the mean rank of every value without each unit, but for a constant: (n, G)."""
    levels, at = np.unique(values, return_inverse=True)
    of_level = np.zeros((len(levels), int(codes.max()) + 1))
    np.add.at(of_level, (at, codes), 1.0)
    left = of_level.sum(axis=1, keepdims=True) - of_level
    return np.asarray((np.cumsum(left, axis=0) - left / 2)[at])


def _above(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each value the sum of the weights of larger ones, those of tied ones counting half: (n,)."""
    levels, at = np.unique(values, return_inverse=True)
    of_level = np.bincount(at, weights, minlength=len(levels))
    larger = of_level.sum() - np.cumsum(of_level)
    return np.asarray((larger + of_level / 2)[at])


def kendall_without(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return Kendall's tau-b without each unit, as `pearson_without`; n² steps."""
    dx, dy = (np.sign(one[:, None] - one) for one in (x, y))  # (n, n)
    same = codes[:, None] == codes
    sums = []
    for signs in (dx * dy, np.abs(dx), np.abs(dy)):
        twice = np.bincount(codes, 2 * signs.sum(axis=1) - (signs * same).sum(axis=1))
        sums.append(float(signs.sum()) - twice)
    return _ratio(*sums)


def _ratio(both: np.ndarray, of_x: np.ndarray, of_y: np.ndarray) -> np.ndarray:
    """Return both / √(of_x of_y), NaN where a side does not vary."""
    smallest = 1e-12 * np.array([np.max(of_x, initial=0.0), np.max(of_y, initial=0.0)])
    good = (of_x > smallest[0]) & (of_y > smallest[1])
    size = np.sqrt(np.where(good, of_x * of_y, 1.0))
    return np.where(good, both / size, np.nan)
