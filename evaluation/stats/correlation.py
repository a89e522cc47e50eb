"""Correlation: coefficient, p-value, interval, and the reason for an undefined one.

Pearson, Spearman and Kendall's tau-b are computed with SciPy. Intervals are on Fisher's scale: by the jackknife over
the right unit (participants, contexts, conversations), which assumes neither normal nor independent pairs, or with the
variances of Bonett and Wright (2000) and Fieller, Hartley and Pearson (1957) for few pairs, such as bots. Correlation
within groups separates a real relation from a difference between two families of bots. In all cases p is 1 minus the
level of the interval that ends at 0, so the two never contradict each other.

`weighted_correlations` uses the reply weights that result from leaving out whole contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.findings import Reason
from evaluation.number_format import plain_interval
from evaluation.stats.resampling import (
    FEWEST_UNITS,
    jackknife_interval,
    jackknife_p,
    leave_one_out_kendall,
    leave_one_out_pearson,
    leave_one_out_spearman,
)

Method = Literal["pearson", "spearman", "kendall"]
METHODS: tuple[Method, ...] = ("pearson", "spearman", "kendall")

_BLOCK = 2_000_000  # maximum number of values in memory
MOST_PAIRS_OF_KENDALL = 2_500
"""Maximum number of pairs for tau-b's jackknife, which needs n² values; beyond it only independent pairs have an
interval.
"""
FEWEST_EFFECTIVE_UNITS = 2.5
"""Minimum `effective_units` of a variable for an interval and p.  If a coefficient depends on a single item, its
jackknife error can be close to 0 by chance. In simulations without any relation, 6 to 8 % of columns with fewer than
1.1 effective items had p < .001, and 1 % of those with 1.1 to 1.5. With 2.5, level and intervals are correct for skewed
columns with mass at 0; with 2, 95 % intervals of 30 replies of which 3 are not 0 cover 93 %."""
_WITHOUT = {"pearson": leave_one_out_pearson, "spearman": leave_one_out_spearman, "kendall": leave_one_out_kendall}


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation coefficient.

    Attributes:
        r: the coefficient (Kendall: tau-b); None if undefined.
        p: two-sided p-value of no relation, based on the error of the interval; None without an interval by Fisher's
            variances, or if the jackknife is not valid.
        low, high: ends of the interval; None if there is none.
        n: number of pairs used.
        interval: method of the interval.
        reason: reason for a missing `r` or interval.
    """

    r: float | None
    p: float | None
    low: float | None
    high: float | None
    n: int
    interval: str = ""
    reason: Reason | None = None

    def to_json(self, level: float = 0.95) -> dict[str, Any]:
        """Return `{"r", "p", "ci95"}`, with nulls and the reason if undefined."""
        pair = plain_interval(self.low, self.high)
        document: dict[str, Any] = {"r": self.r, "p": self.p, f"ci{round(level * 100)}": pair}
        if self.reason is not None:
            document["reason"] = self.reason.to_json()
        return document


def correlate(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    method: Method = "pearson",
    *,
    level: float = 0.95,
    interval: Literal["jackknife", "fisher"] = "jackknife",
    units: Sequence[Any] | np.ndarray | None = None,
) -> Correlation:
    """Correlate two series; pairs with an undefined value are excluded.

    Args:
        x, y: (n,).
        level: confidence level of the interval.
        interval: by the jackknife over units, or with the variance for n independent pairs ("fisher").
        units: (n,) unit of each pair (participant, context); by default each pair is its own unit.

    Returns:
        With fewer than three pairs or a constant side, `r` is None and the reason is given.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if xs.shape != ys.shape or xs.ndim != 1:
        raise ValueError(f"x and y have shapes {xs.shape} and {ys.shape}; both must be (n,)")
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[keep], ys[keep]
    n = len(xs)
    reason = undefined_reason(xs, ys)
    if reason is not None:
        return Correlation(None, None, None, None, n, reason=reason)

    from scipy import stats

    coefficient = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[method]
    r = float(np.clip(coefficient(xs, ys).statistic, -1.0, 1.0))
    codes = _number_units(units, keep)
    carried = min(effective_units(ranks(side) if method != "pearson" else side, codes) for side in (xs, ys))
    n_units = int(codes.max()) + 1
    many = method == "kendall" and n > MOST_PAIRS_OF_KENDALL
    if interval == "fisher" or (many and n_units == n):
        return _by_fisher(r, n, method, level, ties=_tie_factor(xs, ys) if method == "kendall" else 1.0)
    if many:
        text = f"no interval: {n} pairs of {n_units} units are too many for Kendall's tau"
        reason = Reason("many_pairs_of_units", text, n_pairs=n, n_units=n_units)
        return Correlation(r, None, None, None, n, reason=reason)
    enough = n_units >= FEWEST_UNITS
    leave_one_out = _WITHOUT[method](xs, ys, codes) if enough else np.full(n_units, np.nan)
    return _by_jackknife(r, leave_one_out, n, level, carried)


def effective_units(values: np.ndarray, units: np.ndarray) -> float:
    """Return the effective number of units behind a variable's variance.

    It is (Σ s)² / Σ s², where s is each unit's sum of squares. If all units that differ from the mean differ equally,
    it is their number: 2 for a column that is 0 except for two equal values, and a third of the units for a normal
    column (Hill 1973, Ecology 54, of order 2).

    Args:
        values: (n,) not constant.
        units: (n,) unit numbers.
    """
    squares = np.bincount(units, weights=(values - values.mean()) ** 2)
    return float(squares.sum() ** 2 / (squares**2).sum())


def effective_units_of_cells(cells: Sequence[tuple[np.ndarray, np.ndarray]], method: str = "pearson") -> float:
    """Return the effective number of units for averages over cells.

    Args:
        cells: for each cell (all weighted equally), its (n,) values, not constant, and the (n,) names of their units.
        method: "spearman" for ranks within the cells.
    """
    sides = [ranks(values) if method == "spearman" else values for values, _units in cells]
    scaled = np.concatenate([(side - side.mean()) / (side.std() * len(side) ** 0.5) for side in sides])
    names = np.concatenate([np.asarray(units, dtype=object) for _values, units in cells])
    return effective_units(scaled, np.unique(names.astype(str), return_inverse=True)[1])


def few_carry(carried: float, n_units: int) -> Reason | None:
    """Return the reason if effectively few units determine a variable.

    There is then no interval and no p. None if there are enough.
    """
    if carried >= FEWEST_EFFECTIVE_UNITS:
        return None
    text = f"no interval and no p: only {carried:.1f} of {n_units} units determine the variance of one variable"
    return Reason("few_carry", text, n_carrying=carried, n_units=n_units)


def _number_units(units: Sequence[Any] | np.ndarray | None, keep: np.ndarray) -> np.ndarray:
    """Return the unit number of each remaining pair, 0, 1, ….

    Without units each pair is its own.
    """
    if units is None:
        return np.arange(int(keep.sum()))
    names = np.asarray(units, dtype=object)[keep].astype(str)
    return np.unique(names, return_inverse=True)[1].reshape(-1)


def _by_jackknife(r: float, leave_one_out: np.ndarray, n: int, level: float, carried: float) -> Correlation:
    """Return the coefficient with its jackknife interval and p-value.

    They come from its leave-one-unit-out values.

    Args:
        carried: `effective_units` of the two variables, the smaller number.
    """
    n_units = len(leave_one_out)
    few = few_carry(carried, n_units) if n_units >= FEWEST_UNITS else None
    if few is not None:
        return Correlation(r, None, None, None, n, reason=few)
    ends, p = jackknife_interval(r, leave_one_out, 2.0, level), jackknife_p(r, leave_one_out)
    if ends is None:
        text = f"no interval: the {n_units} units are too few or too similar to estimate the error"
        reason = Reason("units_tell_nothing", text, n_units=n_units)
        return Correlation(r, p, None, None, n, reason=reason)
    return Correlation(r, p, *ends, n, f"jackknife over {n_units} units")


def correlate_all(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, **options: Any
) -> dict[str, Correlation]:
    """Correlate by each of the three methods; arguments as in `correlate`."""
    return {method: correlate(x, y, method, **options) for method in METHODS}


def undefined_reason(x: np.ndarray, y: np.ndarray) -> Reason | None:
    """Return the reason why finite series have no correlation, or None."""
    if len(x) < 3:
        text = f"only {len(x)} pairs; a correlation needs 3"
        return Reason("few_pairs", text, n_pairs=len(x))
    if is_constant(x) or is_constant(y):
        return Reason("constant_side", "one variable is constant")
    return None


def is_constant(values: np.ndarray) -> bool:
    """Return True if values are equal up to rounding.

    The rounding error of a constant must not be correlated.
    """
    return not len(values) or not bool(_varies(np.asarray(values, dtype=float)[None])[0])


def _varies(rows: np.ndarray) -> np.ndarray:
    """Check which rows vary by more than rounding errors: (k, n) to (k,)."""
    return np.ptp(rows, axis=1) > 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=1))


def fisher_interval(
    r: float, n: int, method: Method = "pearson", level: float = 0.95, *, ties: float = 1.0
) -> tuple[float | None, float | None]:
    """Return the interval of a coefficient on Fisher's scale.

    None if n is too small for a variance.

    The variance of artanh r is 1 / (n − 3) for Pearson (Fisher 1921), (1 + r² / 2) / (n − 3) for Spearman (Bonett and
    Wright 2000, Psychometrika 65) and .437 / (n − 4) for Kendall (Fieller, Hartley and Pearson 1957, Biometrika 44).
    With few pairs, rank correlations take few values, and a perfect order gives 1, for which there would be no
    interval. The ends are therefore computed for values half a step further out, without ties 6 / (n³ − n) and 2 / (n²
    − n). Otherwise 95 % intervals for eight bots with true r = .9 would cover only 87 %.

    Errors are scaled so that Pearson's interval ends at 0 exactly if Student's t gives p = 1 − level. At 95 % this
    differs from the normal quantile by 1 %; at extreme levels by more, where the normal p of few bots would be several
    times too small.

    Args:
        ties: factor of the variance, from `_tie_factor`.
    """
    if n <= _get_lost_pairs(method):
        return None, None
    z, step = _quantile(level, n), _half_step(n, method)
    ends = []
    for side in (-1, 1):
        shifted = r + side * step
        if step and side * shifted >= 1:
            ends.append(float(side))
            continue
        ends.append(
            float(np.tanh(np.arctanh(_clip_coefficient(shifted)) + side * z * _fisher_error(shifted, n, method, ties)))
        )
    return ends[0], ends[1]


def fisher_p(r: float, n: int, method: Method = "pearson", *, ties: float = 1.0) -> float | None:
    """Return the two-sided p-value of no relation.

    It is 1 minus the level at which `fisher_interval` ends at 0.
    """
    from scipy.special import stdtr

    if n <= _get_lost_pairs(method):
        return None
    shifted = abs(r) - _half_step(n, method)
    if shifted <= 0:
        return 1.0
    z = float(np.arctanh(_clip_coefficient(shifted))) / _fisher_error(shifted, n, method, ties)
    r_of_pearson = _clip_coefficient(float(np.tanh(z / (n - 3) ** 0.5)))
    return float(2 * stdtr(n - 2, -r_of_pearson * ((n - 2) / (1 - r_of_pearson**2)) ** 0.5))


def _quantile(level: float, n: int) -> float:
    """Return the critical distance of Pearson's r on Fisher's scale.

    It is in units of the error, where Student's t gives p = 1 − level.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(n - 2, 0.5 + level / 2))
    return float((n - 3) ** 0.5 * np.arctanh(_clip_coefficient(t / (n - 2 + t * t) ** 0.5)))


def _get_lost_pairs(method: Method) -> int:
    return 4 if method == "kendall" else 3


def _half_step(n: int, method: Method) -> float:
    """Return half the step between values of a tie-free rank correlation."""
    return {"pearson": 0.0, "spearman": 6 / (n**3 - n), "kendall": 2 / (n**2 - n)}[method]


def _clip_coefficient(r: float) -> float:
    return float(np.clip(r, -1 + 1e-15, 1 - 1e-15))


def _fisher_error(r: float, n: int, method: Method, ties: float) -> float:
    numerator = {"pearson": 1.0, "spearman": 1 + _clip_coefficient(r) ** 2 / 2, "kendall": 0.437 * ties}[method]
    return float(np.sqrt(numerator / (n - _get_lost_pairs(method))))


def _tie_factor(x: np.ndarray, y: np.ndarray) -> float:
    """Return the null variance of tau-b with ties, relative to that without.

    From Kendall (1970, Rank Correlation Methods, section 4.3). Without this factor, 6 to 7 % of unrelated columns that
    are mostly 0 over 12 bots had p < .05.
    """
    n = len(x)
    pairs = n * (n - 1)
    untied, terms, threes = [], [], []
    variance = pairs * (2 * n + 5) / 18
    for side in (x, y):
        t = np.unique(side, return_counts=True)[1].astype(float)
        twos = t * (t - 1)
        untied.append((pairs - twos.sum()) / 2)
        variance -= float((twos * (2 * t + 5)).sum()) / 18
        terms.append(float(twos.sum()))
        threes.append(float((twos * (t - 2)).sum()))
    variance += terms[0] * terms[1] / (2 * pairs) + threes[0] * threes[1] / (9 * pairs * (n - 2))
    return float(variance / (untied[0] * untied[1]) / (2 * (2 * n + 5) / (9 * pairs)))


def _by_fisher(r: float, n: int, method: Method, level: float, *, n_pairs: int = 0, ties: float = 1.0) -> Correlation:
    """Return the coefficient with Fisher's interval and the p-value that it gives.

    Args:
        n: number of independent pairs.
        n_pairs: number of pairs used, if larger.
    """
    low, high = fisher_interval(r, n, method, level, ties=ties)
    reason = None
    if low is None:
        text = f"no interval and no p: {n} pairs are too few"
        reason = Reason("few_pairs_for_interval", text, n_pairs=n)
    return Correlation(r, fisher_p(r, n, method, ties=ties), low, high, n_pairs or n, "Fisher's z", reason)


def rowwise(x: np.ndarray, y: np.ndarray, method: Method) -> np.ndarray:
    """Correlate row by row: (k, n) arrays to (k,).

    One of the two may be (n,). NaN for constant rows.
    """
    xs, ys = np.broadcast_arrays(np.atleast_2d(x), np.atleast_2d(y))
    if method == "kendall":
        return _rowwise_kendall(xs, ys)
    if method == "spearman":
        from scipy.stats import rankdata

        xs, ys = rankdata(xs, axis=1), rankdata(ys, axis=1)
    varies = _varies(xs) & _varies(ys)
    xs = xs - xs.mean(axis=1, keepdims=True)
    ys = ys - ys.mean(axis=1, keepdims=True)
    size = np.sqrt((xs**2).sum(axis=1) * (ys**2).sum(axis=1))
    r = np.divide((xs * ys).sum(axis=1), size, out=np.full(len(xs), np.nan), where=varies & (size > 0))
    return np.clip(r, -1.0, 1.0)


def _rowwise_kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute Kendall's tau-b of each row."""
    i, j = np.triu_indices(x.shape[1], k=1)
    step = max(1, _BLOCK // max(1, len(i)))
    out = np.full(len(x), np.nan)
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        dx = np.sign(x[part][:, i] - x[part][:, j])
        dy = np.sign(y[part][:, i] - y[part][:, j])
        size = np.sqrt((dx != 0).sum(axis=1) * (dy != 0).sum(axis=1).astype(float))
        out[part] = np.divide((dx * dy).sum(axis=1), size, out=np.full(len(dx), np.nan), where=size > 0)
    return out


def within_groups(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    groups: Sequence[Any],
    *,
    units: Sequence[Any] | np.ndarray | None = None,
    level: float = 0.95,
    interval: Literal["jackknife", "fisher"] = "jackknife",
) -> Correlation:
    """Compute Pearson's r after subtracting each group's mean on both sides.

    A relation that is only a difference between groups (two training corpora, two model families) vanishes. The means
    cost one degree of freedom per group beyond the first.

    Args:
        units, interval: as in `correlate`; the jackknife recomputes the means.
    """
    xs, ys = np.asarray(x, dtype=float).copy(), np.asarray(y, dtype=float).copy()
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[keep], ys[keep]
    labels, codes = np.unique(np.asarray(groups, dtype=object)[keep].astype(str), return_inverse=True)
    for code in range(len(labels)):
        xs[codes == code] -= xs[codes == code].mean()
        ys[codes == code] -= ys[codes == code].mean()
    n_free = len(xs) - len(labels) + 1  # effective number of independent pairs
    reason = undefined_reason(xs, ys)
    if reason is None and n_free < 3:
        text = f"{len(xs)} pairs in {len(labels)} groups are too few for a correlation"
        reason = Reason("few_pairs_in_groups", text, n_pairs=len(xs), n_groups=len(labels))
    if reason is not None:
        return Correlation(None, None, None, None, len(xs), reason=reason)
    r = float(rowwise(xs, ys, "pearson")[0])
    if interval == "jackknife":
        unit = _number_units(units, keep)
        n_units = int(unit.max()) + 1
        enough = n_units >= FEWEST_UNITS
        leave_one_out = leave_one_out_pearson(xs, ys, unit, codes) if enough else np.full(n_units, np.nan)
        carried = min(effective_units(side, unit) for side in (xs, ys))
        return _by_jackknife(r, leave_one_out, len(xs), level, carried)
    return _by_fisher(r, n_free, "pearson", level, n_pairs=len(xs))


def permutations(n: int, n_permutations: int, seed: int) -> np.ndarray:
    """Return all permutations of n things, or random ones: (k, n).

    Random ones if there are more than requested.
    """
    from itertools import permutations as every
    from math import factorial

    if n <= 8 and factorial(n) <= n_permutations:
        return np.array(list(every(range(n))))
    rng = np.random.default_rng(seed)
    return rng.permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1)


FEWEST_DRAWS = 6
"""Minimum number of defined permutations for a quantile."""


def null_point(draws: np.ndarray, quantile: float = 0.95) -> float | None:
    """Return the quantile of the defined draws; None if too few."""
    defined = draws[np.isfinite(draws)]
    return float(np.quantile(defined, quantile)) if len(defined) >= FEWEST_DRAWS else None


def ranks(values: np.ndarray) -> np.ndarray:
    """Return mean ranks."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=float)


def weighted_correlations(x: np.ndarray, y: np.ndarray, weights: np.ndarray, method: str) -> np.ndarray:
    """Return (B,) Pearson coefficients of x and y under weights.

    There are B rows of weights. Optionally correlates ranks among all replies.
    """
    if len(x) < 3 or is_constant(x):
        return np.zeros(len(weights))
    if method == "spearman":
        x, y = ranks(x), ranks(y)
    total = weights.sum(axis=1)
    total = np.where(total > 0, total, np.nan)
    x, y = x - x.mean(), y - y.mean()
    mean_x, mean_y = weights @ x / total, weights @ y / total
    covariance = weights @ (x * y) / total - mean_x * mean_y
    spread = (weights @ x**2 / total - mean_x**2) * (weights @ y**2 / total - mean_y**2)
    return np.divide(
        covariance, np.sqrt(np.maximum(spread, 0)), out=np.full(len(weights), np.nan), where=spread > 1e-12
    )
