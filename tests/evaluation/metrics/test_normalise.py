"""Normalisers and rewards over a table, by hand and by definition (fact sheet section 1.6)."""

import math

import numpy as np
import pytest

from evaluation.metrics.table_2019 import (
    combined_reward,
    discounted,
    length_reward,
    min_max,
    zscore,
)


def test_zscore_and_min_max_leave_undefined_values_out():
    values = np.array([1.0, 3.0, np.nan, 5.0])
    spread = math.sqrt(8 / 3)
    np.testing.assert_allclose(zscore(values), [-2 / spread, 0, np.nan, 2 / spread])
    np.testing.assert_allclose(min_max(values), [0, 0.5, np.nan, 1])


@pytest.mark.parametrize("values", [[2.0, 2.0], [np.nan], []])
def test_a_constant_column_has_neither(values):
    assert np.isnan(zscore(np.array(values))).all()
    assert np.isnan(min_max(np.array(values))).all()


def test_length_reward():
    np.testing.assert_allclose(length_reward(4), [4 * 0.95**2, 4 * 0.95, 4, 0])
    assert length_reward(1).tolist() == [0]


def test_discounting_stays_within_a_conversation():
    found = discounted(np.array([1.0, 2.0, 4.0, 8.0]), np.array([0, 0, 1, 1]), 0.5)
    np.testing.assert_allclose(found, [2, 2, 8, 8])
    with pytest.raises(ValueError, match="gamma is 2"):
        discounted(np.array([1.0]), np.array([0]), 2)


def test_combination_is_the_weighted_sum_of_z_scores_of_discounted_rewards():
    of = np.array([0, 0, 0])
    rewards = {"a": np.array([1.0, 0.0, 2.0]), "b": np.array([0.0, 3.0, 1.0]), "c": np.ones(3)}
    found = combined_reward(rewards, {"a": 0.5, "b": -2.0}, of, epsilon=0.1)
    expected = np.zeros(3)
    for name, weight in (("a", 0.5), ("b", -2.0)):
        r = rewards[name].tolist()
        back = [r[0] + 0.9 * (r[1] + 0.9 * r[2]), r[1] + 0.9 * r[2], r[2]]
        mean = sum(back) / 3
        spread = math.sqrt(sum((x - mean) ** 2 for x in back) / 3)
        expected += [weight * (x - mean) / (spread + 0.1) for x in back]
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError, match="no reward 'd'"):
        combined_reward(rewards, {"d": 1.0}, of)
