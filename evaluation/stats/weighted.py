"""Correlations under weights, as leaving out whole contexts gives them to replies."""

from __future__ import annotations

import numpy as np

from evaluation.stats.correlation import is_constant


def ranks(values: np.ndarray) -> np.ndarray:
    """Return mean ranks."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=float)


def weighted_correlations(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, method: str
) -> np.ndarray:
    """Return (B,) Pearson coefficients of x and y, or of their ranks among all replies, under B rows of weights."""
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
        covariance,
        np.sqrt(np.maximum(spread, 0)),
        out=np.full(len(weights), np.nan),
        where=spread > 1e-12,
    )
