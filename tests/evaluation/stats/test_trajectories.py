"""Best and worst conversations, and means by turn against pandas and SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from evaluation.stats.trajectories import course, extremes

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
