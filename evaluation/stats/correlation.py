"""Correlation with its doubt: coefficient, p-value, interval, and why there is none.

Pearson, Spearman and Kendall's tau-b by SciPy; intervals by resampling the right unit (bots, participants,
conversations) or by Fisher's z with the variances of Bonett and Wright (2000) and Fieller, Hartley and Pearson (1957); correlation
within groups, which tells a real relation from a difference between two families of bots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from evaluation.reasons import Reason
from evaluation.stats.resampling import interval_of_draws

Method = Literal["pearson", "spearman", "kendall"]
METHODS: tuple[Method, ...] = ("pearson", "spearman", "kendall")

N_BOOTSTRAP = 2000
BOOTSTRAP_LIMIT = 2_500
"""With more values than this the interval is Fisher's: the two then agree, and ranks take long."""
_BLOCK = 2_000_000  # numbers handled at once
_PAIRWISE = 1_000
"""With more values than this sorting each resample is quicker than products with all pairs of pairs."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation coefficient.

    Attributes:
        r: the coefficient (Kendall: tau-b); None where undefined.
        p: two-sided p-value of no relation, as if all n values were independent.
        low, high: ends of the interval; None where there is none.
        n: pairs used.
        interval: how the interval was made.
        reason: why `r`, or else its interval, is missing.
    """

    r: float | None
    p: float | None
    low: float | None
    high: float | None
    n: int
    interval: str = ""
    reason: Reason | None = None

    def to_json(self, level: float = 0.95) -> dict[str, Any]:
        """Return `{"r", "p", "ci95"}` with nulls where undefined, and then the reason."""
        pair = None if self.low is None or self.high is None else [self.low, self.high]
        found: dict[str, Any] = {"r": self.r, "p": self.p, f"ci{round(level * 100)}": pair}
        if self.reason is not None:
            found["reason"] = self.reason.to_json()
        return found


def correlate(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    method: Method = "pearson",
    *,
    level: float = 0.95,
    interval: Literal["bootstrap", "fisher"] = "bootstrap",
    units: Sequence[Any] | None = None,
    n_bootstrap: int = N_BOOTSTRAP,
    bootstrap_limit: int = BOOTSTRAP_LIMIT,
    seed: int = 0,
) -> Correlation:
    """Correlate two series; pairs with an undefined side are left out.

    Args:
        x, y: (n,).
        level: of the interval.
        interval: expanded percentiles of resampled units, or Fisher's z.
        units: (n,) what is resampled whole (participants, bots); by default each pair by itself.
        n_bootstrap: how often.
        bootstrap_limit: with more pairs the interval is Fisher's, which knows nothing of units.
        seed: of the resampling.

    Returns:
        `r` None, with the reason, with fewer than three pairs or a constant side.
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

    test = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    found = test[method](xs, ys)
    r, p = float(np.clip(found.statistic, -1.0, 1.0)), float(found.pvalue)
    p_value = p if np.isfinite(p) else None

    if interval == "fisher" or n > bootstrap_limit:
        low, high = fisher_interval(r, n, method, level)
        how = "Fisher's z"
        text = f"no interval: {n} pairs are too few"
        why = Reason("few_pairs_for_interval", text, n_pairs=n)
    else:
        codes = None
        if units is not None:
            codes = np.unique(
                np.asarray(units, dtype=object)[keep].astype(str), return_inverse=True
            )[1]
        low, high = _bootstrap_interval(xs, ys, method, level, codes, n_bootstrap, seed)
        n_units = n if codes is None else int(codes.max()) + 1
        how = f"bootstrap over {n_units} units"
        why = Reason("constant_resamples", "no interval: most resamples are constant")
    if low is None or high is None:
        return Correlation(r, p_value, None, None, n, reason=why)
    return Correlation(r, p_value, low, high, n, interval=how)


def correlate_all(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, **options: Any
) -> dict[str, Correlation]:
    """Correlate by each of the three methods; arguments as in `correlate`."""
    return {method: correlate(x, y, method, **options) for method in METHODS}


def undefined_reason(x: np.ndarray, y: np.ndarray) -> Reason | None:
    """Say why finite series have no correlation, or return None."""
    if len(x) < 3:
        why = f"only {len(x)} of the 3 pairs that a correlation needs"
        return Reason("few_pairs", why, n_pairs=len(x))
    if is_constant(x) or is_constant(y):
        return Reason("constant_side", "one side is constant")
    return None


def is_constant(values: np.ndarray) -> bool:
    """Tell whether values are equal up to rounding: the rest of a constant after arithmetic must not be correlated."""
    return not len(values) or not bool(_varies(np.asarray(values, dtype=float)[None])[0])


def _varies(rows: np.ndarray) -> np.ndarray:
    """Tell for each row whether it is more than a constant with rounding errors: (k, n) to (k,)."""
    return np.ptp(rows, axis=1) > 1e-12 * np.maximum(1.0, np.abs(rows).max(axis=1))


def fisher_interval(
    r: float, n: int, method: Method = "pearson", level: float = 0.95
) -> tuple[float | None, float | None]:
    """Return the interval of a coefficient on Fisher's scale; None if n is too small for a variance.

    The variance of artanh r is 1 / (n − 3) for Pearson (Fisher 1921), (1 + r² / 2) / (n − 3) for Spearman (Bonett and Wright 2000,
    Psychometrika 65) and .437 / (n − 4) for Kendall (Fieller, Hartley and Pearson 1957, Biometrika 44). Ranks of few pairs take few
    values, and all in order give 1, about which there would be no interval: its ends are those of the values half a step
    further out, without ties 6 / (n³ − n) and 2 / (n² − n). Without that, 95 % intervals of eight bots of true r = .9 hold in 87 %.
    """
    lost, step = 4 if method == "kendall" else 3, 0.0
    if n <= lost:
        return None, None
    if method != "pearson":
        step = 6 / (n**3 - n) if method == "spearman" else 2 / (n**2 - n)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    ends = []
    for side in (-1, 1):
        at = r + side * step
        if step and side * at >= 1:
            ends.append(float(side))
            continue
        at = float(np.clip(at, -1 + 1e-15, 1 - 1e-15))
        numerator = {"pearson": 1.0, "spearman": 1 + at**2 / 2, "kendall": 0.437}[method]
        ends.append(float(np.tanh(np.arctanh(at) + side * z * np.sqrt(numerator / (n - lost)))))
    return ends[0], ends[1]


def rowwise(x: np.ndarray, y: np.ndarray, method: Method) -> np.ndarray:
    """Correlate row by row: two (k, n) arrays, or one of them (n,), to (k,); NaN for a constant row."""
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
    r = np.divide(
        (xs * ys).sum(axis=1), size, out=np.full(len(xs), np.nan), where=varies & (size > 0)
    )
    return np.clip(r, -1.0, 1.0)


def _rowwise_kendall(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute tau-b = Σ sgn(Δx) sgn(Δy) / √(pairs untied in x · pairs untied in y) of each row."""
    i, j = np.triu_indices(x.shape[1], k=1)
    step = max(1, _BLOCK // max(1, len(i)))
    out = np.full(len(x), np.nan)
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        dx = np.sign(x[part][:, i] - x[part][:, j])
        dy = np.sign(y[part][:, i] - y[part][:, j])
        size = np.sqrt((dx != 0).sum(axis=1) * (dy != 0).sum(axis=1).astype(float))
        out[part] = np.divide(
            (dx * dy).sum(axis=1), size, out=np.full(len(dx), np.nan), where=size > 0
        )
    return out


def _bootstrap_interval(
    x: np.ndarray,
    y: np.ndarray,
    method: Method,
    level: float,
    codes: np.ndarray | None,
    n_bootstrap: int,
    seed: int,
) -> tuple[float | None, float | None]:
    rng = np.random.default_rng(seed)
    if codes is None and len(x) <= 60:
        rows = rng.integers(0, len(x), size=(n_bootstrap, len(x)))
        draws = rowwise(x[rows], y[rows], method)
    else:
        draws = _draws_by_unit(x, y, method, codes, n_bootstrap, rng)
    n_units = len(x) if codes is None else int(codes.max()) + 1
    return interval_of_draws(draws, n_units, level) or (None, None)


def _draws_by_unit(
    x: np.ndarray,
    y: np.ndarray,
    method: Method,
    codes: np.ndarray | None,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Compute the coefficients of resamples of whole units: (n_bootstrap,)."""
    codes = np.arange(len(x)) if codes is None else codes
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    n_units = len(members)
    if method == "pearson":
        return _pearson_by_unit(x, y, codes, n_units, n_bootstrap, rng)
    if method == "spearman" and len(x) > 200:
        # With this many pairs a resample's own ranks are, up to scale and noise of order 1/n, the
        # ranks in the whole sample; making them anew for every resample would take seconds.
        from scipy.stats import rankdata

        return _pearson_by_unit(rankdata(x), rankdata(y), codes, n_units, n_bootstrap, rng)
    if len(x) <= 200:
        times = _times_drawn(rng, n_bootstrap, n_units)
        weighted = _weighted_spearman if method == "spearman" else _weighted_kendall
        return weighted(x, y, times[:, codes])
    # The order of a resample must be made anew; a fifth of the resamples keeps that short.
    n_draws = max(400, n_bootstrap // 5)
    if len(x) <= _PAIRWISE:
        return _weighted_kendall(x, y, _times_drawn(rng, n_draws, n_units)[:, codes])
    draws = np.full(n_draws, np.nan)
    for k in range(len(draws)):
        rows = np.concatenate([members[u] for u in rng.integers(0, n_units, size=n_units)])
        draws[k] = _kendall(x[rows], y[rows])
    return draws


def _times_drawn(rng: np.random.Generator, n_draws: int, n_units: int) -> np.ndarray:
    """Draw as many units as there are, with replacement: how often each resample has each unit, (n_draws, n_units)."""
    chosen = rng.integers(0, n_units, size=(n_draws, n_units))
    chosen += np.arange(n_draws)[:, None] * n_units
    counts = np.bincount(chosen.ravel(), minlength=n_draws * n_units)
    return counts.reshape(n_draws, n_units).astype(float)


def _weighted_kendall(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Compute tau-b of resamples in which pair i stands `times[k, i]` times, (k,); its sums run over pairs of pairs."""
    dx, dy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)  # (n, n)
    both, untied_x, untied_y = (
        ((times @ m) * times).sum(axis=1) for m in (dx * dy, np.abs(dx), np.abs(dy))
    )
    size = np.sqrt(untied_x * untied_y)
    return np.divide(both, size, out=np.full(len(times), np.nan), where=size > 0)


def _weighted_spearman(x: np.ndarray, y: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of resamples in which pair i stands `times[k, i]` times, (k,).

    It is Pearson's r of the mid-ranks within each resample.
    """
    n = times.sum(axis=1, keepdims=True)

    def ranks(values: np.ndarray) -> np.ndarray:
        below = (values[:, None] < values) + 0.5 * (values[:, None] == values)
        found = times @ below  # (k, n), up to a constant
        return np.asarray(found - (times * found).sum(axis=1, keepdims=True) / n)

    rx, ry = ranks(x), ranks(y)
    vx, vy = (times * rx**2).sum(axis=1), (times * ry**2).sum(axis=1)
    size = np.sqrt(vx * vy)
    return np.divide(
        (times * rx * ry).sum(axis=1), size, out=np.full(len(times), np.nan), where=size > 1e-9
    )


def _pearson_by_unit(
    x: np.ndarray,
    y: np.ndarray,
    codes: np.ndarray,
    n_units: int,
    n_bootstrap: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Compute Pearson's r of resamples: (n_bootstrap,). It needs only sums, which add up over a resample's units."""
    x, y = x - x.mean(), y - y.mean()
    moments = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)  # (n, 6)
    sums = np.zeros((n_units, 6))
    np.add.at(sums, codes, moments)
    draws = np.empty(n_bootstrap)
    step = max(1, _BLOCK // n_units)
    for start in range(0, n_bootstrap, step):
        size = min(step, n_bootstrap - start)
        n, sx, sy, sxx, syy, sxy = (_times_drawn(rng, size, n_units) @ sums).T
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        good = (vx > 1e-12 * sxx) & (vy > 1e-12 * syy)
        draws[start : start + size] = np.divide(
            sxy - sx * sy / n,
            np.sqrt(np.where(good, vx * vy, 1.0)),
            out=np.full(size, np.nan),
            where=good,
        )
    return draws


def _kendall(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(x, y).statistic)


def within_groups(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    groups: Sequence[Any],
    *,
    level: float = 0.95,
) -> Correlation:
    """Compute Pearson's r after taking each group's mean from both sides.

    A relation that is only a difference between groups (two training corpora, two model families)
    vanishes here. The means cost one degree of freedom per group beyond the first.
    """
    from scipy import stats

    xs, ys = np.asarray(x, dtype=float).copy(), np.asarray(y, dtype=float).copy()
    keep = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[keep], ys[keep]
    labels, codes = np.unique(
        np.asarray(groups, dtype=object)[keep].astype(str), return_inverse=True
    )
    for code in range(len(labels)):
        xs[codes == code] -= xs[codes == code].mean()
        ys[codes == code] -= ys[codes == code].mean()
    n_free = len(xs) - len(labels) + 1  # counts as this many independent pairs
    reason = undefined_reason(xs, ys)
    if reason is None and n_free < 3:
        why = f"{len(xs)} pairs in {len(labels)} groups leave nothing to correlate"
        reason = Reason("few_pairs_in_groups", why, n_pairs=len(xs), n_groups=len(labels))
    if reason is not None:
        return Correlation(None, None, None, None, len(xs), reason=reason)
    r = float(rowwise(xs, ys, "pearson")[0])
    t = r * np.sqrt((n_free - 2) / max(1 - r * r, 1e-300))
    low, high = fisher_interval(r, n_free, "pearson", level)
    return Correlation(
        r, float(2 * stats.t.sf(abs(t), n_free - 2)), low, high, len(xs), interval="Fisher's z"
    )


def permutation_null(
    x: Sequence[float] | np.ndarray,
    y: Sequence[float] | np.ndarray,
    method: Method = "pearson",
    *,
    quantile: float = 0.95,
    n_permutations: int = 10_000,
    seed: int = 0,
) -> float | None:
    """Return the coefficient that chance passes with probability 1 − quantile, when the pairing is shuffled.

    For predictions that were themselves learned from `y`, shuffle before the learning instead
    (`evaluation.hybrid` does).

    Returns:
        None where the correlation is undefined.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if undefined_reason(xs, ys) is not None:
        return None
    shuffled = permutations(len(ys), n_permutations, seed)
    return null_point(rowwise(xs, ys[shuffled], method), quantile)


def permutations(n: int, n_permutations: int, seed: int) -> np.ndarray:
    """Return all permutations of n things if that is no more than asked for, else random ones: (k, n)."""
    from itertools import permutations as every
    from math import factorial

    if n <= 8 and factorial(n) <= n_permutations:
        return np.array(list(every(range(n))))
    rng = np.random.default_rng(seed)
    return rng.permuted(np.tile(np.arange(n), (n_permutations, 1)), axis=1)


def null_point(draws: np.ndarray, quantile: float = 0.95) -> float | None:
    """Return the quantile of the defined draws, or None if there are hardly any."""
    defined = draws[np.isfinite(draws)]
    return float(np.quantile(defined, quantile)) if len(defined) >= 6 else None
