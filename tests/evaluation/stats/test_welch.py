"""Welch's interval against the textbook's formula, and samples that do not vary."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.comparisons import welch


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([3.0, 4.0, 6.0, 7.0, 7.0], [2.0, 2.0, 5.0]),
        ([7.0, 7.0, 7.0], [5.0, 6.0, 7.0, 7.0]),  # one side is constant
    ],
)
def test_the_formula(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = welch(np.array(x), np.array(y), 0.90)
    a, b = np.var(x, ddof=1) / len(x), np.var(y, ddof=1) / len(y)
    df = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    gap, error = np.mean(x) - np.mean(y), np.sqrt(a + b)
    half = stats.t.ppf(0.95, df) * error
    assert (found.low, found.high) == pytest.approx((gap - half, gap + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(gap) / error, df))
