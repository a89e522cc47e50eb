"""The difference of two means: against scipy's tests, and its p-value against its interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.trajectories import LEAST_P, difference_of_means

rng = np.random.default_rng(3)
X, Y = rng.lognormal(1.6, 0.7, size=9), rng.lognormal(2.2, 0.7, size=14)
APART = np.arange(9), np.arange(9, 23)
FROM_NOTHING = (0.0, np.inf)


def test_without_a_scale_it_is_welchs_test() -> None:
    found = difference_of_means((X, Y), APART, 0.9)
    expected = stats.ttest_ind(X, Y, equal_var=False)
    assert found is not None
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.9)))


def test_the_interval_of_level_one_less_p_ends_at_nothing() -> None:
    for scale in (FROM_NOTHING, (0.0, 60.0)):
        told = difference_of_means((X, Y), APART, 0.9, scale)
        assert told is not None
        at_p = difference_of_means((X, Y), APART, 1 - told.p, scale)
        assert at_p is not None
        assert at_p.high == pytest.approx(0.0, abs=1e-6)
        assert (told.p < 0.1) == (told.high is not None and told.high < 0)


def test_one_persons_values_in_both_groups_make_it_narrower_where_they_go_together() -> None:
    x, y = X, X * 1.2 + rng.normal(size=9) * 0.1
    both = difference_of_means((x, y), (np.arange(9), np.arange(9)), 0.9, FROM_NOTHING)
    apart = difference_of_means((x, y), (np.arange(9), np.arange(9, 18)), 0.9, FROM_NOTHING)
    assert both is not None
    assert apart is not None
    assert None not in (both.low, both.high, apart.low, apart.high)
    assert both.high - both.low < 0.5 * (apart.high - apart.low)  # type: ignore[operator]
    assert both.p < apart.p


def test_a_group_that_does_not_vary_has_an_interval_only_where_both_ends_of_the_scale_are_known() -> (
    None
):
    never, often = np.zeros(12), np.tile([0.0, 1.0], 6)
    people = np.arange(12), np.arange(12, 24)
    on_scale = difference_of_means((never, often), people, 0.9, (0.0, 1.0))
    assert on_scale is not None
    assert on_scale.high is not None
    assert on_scale.high < 0
    for scale in (FROM_NOTHING, None):
        found = difference_of_means((never, often), people, 0.9, scale)
        assert found is not None
        assert (found.low, found.high) == (None, None)
        assert 0 < found.p < 0.05
    assert difference_of_means((never, never), people, 0.9, (0.0, 1.0)) is None
    one = np.zeros(12, dtype=int)
    assert difference_of_means((X[:2], often), (one[:2], people[1]), 0.9) is None


def test_a_p_value_beyond_what_levels_can_tell_is_the_least() -> None:
    low, high = rng.normal(10, 0.1, size=40), rng.normal(20, 0.1, size=40)
    found = difference_of_means((low, high), (np.arange(40), np.arange(40, 80)), 0.9, FROM_NOTHING)
    assert found is not None
    assert found.p == LEAST_P
    same = difference_of_means((low, low), (np.arange(40), np.arange(40, 80)), 0.9, FROM_NOTHING)
    assert same is not None
    assert same.p == 1.0
