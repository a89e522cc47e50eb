"""Differences of bots: least squares, Welch's test and corrections."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evaluation.stats.comparisons import holm, pairwise, welch

rng = np.random.default_rng(0)


def test_holm_is_statsmodels():
    for size in (1, 2, 7, 30):
        p = rng.uniform(size=size) ** 3
        np.testing.assert_allclose(holm(p.tolist()), multipletests(p, method="holm")[1])


def test_independent_ratings_are_compared_by_welch():
    values = np.concatenate([rng.normal(m, s, n) for m, s, n in ((0, 1, 20), (1, 3, 35), (5, 1, 12))])
    bots = ["a"] * 20 + ["b"] * 35 + ["c"] * 12
    found = {(c.a, c.b): c for c in pairwise(values, bots, level=0.9).pairs}
    assert set(found) == {("a", "b"), ("a", "c"), ("b", "c")}
    test = stats.ttest_ind(values[:20], values[20:55], equal_var=False)
    assert found["a", "b"].p == pytest.approx(test.pvalue)
    assert found["a", "b"].df == pytest.approx(test.df)
    assert found["a", "b"].low == pytest.approx(test.confidence_interval(0.9).low)
    assert found["a", "b"].difference == pytest.approx(values[:20].mean() - values[20:55].mean())
    assert found["a", "c"].ordered


def test_where_everybody_rates_both_bots_it_is_the_paired_test():
    people = np.arange(60)
    level = rng.normal(0, 3, 60)
    a, b = level + rng.normal(0, 0.5, 60), level + 0.6 + rng.normal(0, 0.5, 60)
    values, bots = np.concatenate([a, b]), ["a"] * 60 + ["b"] * 60
    (found,) = pairwise(values, bots, np.concatenate([people, people])).pairs
    paired = stats.ttest_rel(a, b)
    ends = paired.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((ends.low, ends.high, paired.pvalue))
    assert found.df == pytest.approx(59)
    assert found.ordered
    (apart,) = pairwise(values, bots).pairs
    assert not apart.ordered


def test_participants_seen_once_each_and_unknown_ones_are_independent():
    values = rng.normal(size=40)
    bots = ["a"] * 20 + ["b"] * 20
    plain = pairwise(values, bots)
    assert pairwise(values, bots, [None] * 40) == plain
    assert pairwise(values, bots, [float("nan")] * 40) == plain
    assert pairwise(values, bots, list(range(40))) == plain


def test_equal_bots_are_too_close():
    """The correction holds the chance of any wrong order among six equal bots near five per cent."""
    wrong = 0
    bots = np.repeat(list("abcdef"), 25)
    for _ in range(150):
        wrong += any(pair.ordered for pair in pairwise(rng.normal(size=150), bots).pairs)
    assert wrong <= 17


@pytest.mark.parametrize(
    ("values", "bots", "why"),
    [
        ([1.0, 2.0, 3.0], ["a", "a", "b"], "one rating"),
        ([1.0, 2.0, np.nan], ["a", "a", "b"], "b has no rating"),
        ([1.0, 1.0, 2.0, 2.0], ["a", "a", "b", "b"], "vary"),
    ],
)
def test_undefined_has_a_reason(values, bots, why):
    (found,) = pairwise(values, bots).pairs
    assert found.p is None
    assert found.p_holm is None
    assert not found.ordered
    assert why in found.reason


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
