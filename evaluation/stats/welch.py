"""The difference of two means where the spreads may differ: Welch (1947), as scipy computes it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Welch:
    """Ends of the interval of mean(x) − mean(y), and the p-value of no difference."""

    low: float
    high: float
    p: float


def welch(x: np.ndarray, y: np.ndarray, level: float) -> Welch:
    """Compare two samples of two values or more, of which at least one varies.

    Args:
        level: of the interval, e.g. 0.90.
    """
    from scipy import stats

    with warnings.catch_warnings():
        # scipy warns of lost digits where one sample is constant: its variance is exactly 0 and right.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test = stats.ttest_ind(x, y, equal_var=False)
        ends = test.confidence_interval(level)
    return Welch(float(ends.low), float(ends.high), float(test.pvalue))
