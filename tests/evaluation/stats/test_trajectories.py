"""Means over the turns of a conversation, and their differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.stats.trajectories import LEAST_P, course, difference_of_means, extremes

NAN = float("nan")


def test_the_best_and_the_worst():
    scores = [3, 1, NAN, 9, 7, 5, 2]
    found = extremes(scores, 2)
    assert found.best.tolist() == [3, 4]
    assert found.worst.tolist() == [1, 6]
    assert (found.lowest_best, found.highest_worst) == (7, 2)
    assert found.n_tied == (1, 1)
    assert found.reason is None


def test_ties_at_the_border_are_drawn_by_the_seed():
    scores = np.repeat([1.0, 5.0, 9.0], [10, 10, 10])
    draws = [extremes(scores, 4, seed=seed) for seed in range(40)]
    assert all(set(d.best) <= set(range(20, 30)) and set(d.worst) <= set(range(10)) for d in draws)
    assert all(d.n_tied == (10, 10) for d in draws)
    assert set().union(*(d.best for d in draws)) == set(range(20, 30))  # everyone has a chance
    again = extremes(scores, 4, seed=3)
    np.testing.assert_array_equal(again.best, draws[3].best)


def test_the_groups_never_share_a_conversation():
    scores = np.repeat([1.0, 2.0], [3, 6])
    for seed in range(20):
        found = extremes(scores, 100, seed=seed)
        assert len(found.best) == len(found.worst) == 4
        assert not set(found.best) & set(found.worst)
    assert found.reason == "9 conversations rated; 100 best and 100 worst need 200"


def test_no_best_where_all_are_alike_or_nobody_rated():
    assert extremes([4.0] * 300).reason == "all conversations are rated the same"
    assert "1 conversation rated" in extremes([1.0, NAN]).reason
    assert len(extremes([NAN, NAN]).best) == 0
    with pytest.raises(ValueError, match="k is 0"):
        extremes([1.0, 2.0], 0)


def test_means_and_intervals_by_turn():
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=rng.integers(1, 7)).tolist() for _ in range(30)]
    rows[0] = [None, NAN, 1.5]
    found = course(rows, level=0.9)
    frame = pd.DataFrame([pd.Series(row, dtype=float) for row in rows])
    np.testing.assert_allclose(found.mean, frame.mean())
    np.testing.assert_array_equal(found.n, frame.count())
    for turn in range(frame.shape[1]):
        values = frame[turn].dropna()
        ends = stats.t.interval(0.9, len(values) - 1, values.mean(), stats.sem(values))
        assert (found.low[turn], found.high[turn]) == pytest.approx(ends)


def test_conversations_of_one_person_count_as_that_person_does():
    rows = [[1.0], [1.2], [3.0], [3.1], [5.0], [4.8]]
    found = course(rows, ["p", "p", "q", "q", "r", "r"])
    means = [1.1, 3.05, 4.9]
    ends = stats.t.interval(0.9, 2, np.mean(means), stats.sem(means))
    assert (found.low[0], found.high[0]) == pytest.approx(ends)
    nobody = course(rows, [None] * 6)
    assert nobody.high[0] < found.high[0]
    shares = course([[1.0], [1.0], [1.0]], scale=(0.0, 1.0))
    assert 0 < shares.low[0] < 0.7
    assert shares.high[0] == 1


def test_one_conversation_has_no_interval_and_none_no_mean():
    found = course([[1.0, None, 3.0], [2.0, None]])
    assert found.n.tolist() == [2, 0, 1]
    assert np.isnan(found.mean[1])
    assert np.isnan(found.low[2])
    assert found.mean[2] == 3.0
    assert len(course([]).mean) == 0


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


def test_a_group_that_does_not_vary_has_an_interval_only_where_both_ends_of_the_scale_are_known() -> None:
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
