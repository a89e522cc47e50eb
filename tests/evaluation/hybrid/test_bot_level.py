"""Results over bots: correlation, chance and pairs in order."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.hybrid.bot_level import ceiling_of, influence_of, interval_over_conversations, within_groups_of


def test_the_ceiling_is_the_reliability_of_the_means():
    rng = np.random.default_rng(0)
    n, n_bots = 40, 60
    ratings = {f"b{k}": rng.normal() * 0.5 + rng.normal(size=n) * 2 for k in range(n_bots)}
    found = ceiling_of(ratings)
    true = 0.25 / (0.25 + 4 / n)  # variance of the true means over that of the observed ones
    assert found.reliability == pytest.approx(true, abs=0.12)
    assert found.low < true < found.high
    assert found.best_r == pytest.approx(np.sqrt(found.reliability))


def test_without_true_differences_there_is_nothing_to_predict():
    rng = np.random.default_rng(1)
    ratings = {f"b{k}": rng.normal(size=30) for k in range(40)}
    assert ceiling_of(ratings).reliability < 0.5
    few = ceiling_of({"a": np.arange(4.0), "b": np.arange(1.0)})
    assert few.reliability is None
    assert "1 bot with two" in few.reason


def test_influence_is_r_without_the_bot_minus_r():
    x, y = [1.0, 2.0, 3.0, 9.0], [1.0, 3.0, 2.0, 9.0]
    found = influence_of(x, y, ["a", "b", "c", "d"])
    whole = np.corrcoef(x, y)[0, 1]
    for k, bot in enumerate("abcd"):
        rest = np.corrcoef(np.delete(x, k), np.delete(y, k))[0, 1]
        assert found[bot] == pytest.approx(rest - whole)
    assert influence_of([1, 2, 3], [1, 2, 3], ["a", "b", "c"]) == dict.fromkeys("abc")


def test_the_interval_over_conversations_holds_the_r_of_as_many_others():
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        true = rng.normal(size=8) * 0.4
        score = 0.8 * true + 0.12 * rng.normal(size=8)
        first, other = (
            [(p + 0.3 * rng.normal(size=30), t + rng.normal(size=30)) for p, t in zip(score, true, strict=True)]
            for _ in range(2)
        )
        low, high = interval_over_conversations(first, seed=0)
        here, there = (
            np.corrcoef([p.mean() for p, _ in some], [t.mean() for _, t in some])[0, 1] for some in (first, other)
        )
        assert low < here < high
        held += low <= there <= high
    assert held / 100 > 0.95 - 2 * np.sqrt(0.95 * 0.05 / 100)


def test_a_difference_between_groups_alone_vanishes_within_them():
    predicted = {"a": 1.0, "b": 1.1, "c": 5.0, "d": 5.1, "e": 1.05}
    human = {"a": 2.1, "b": 2.0, "c": 6.1, "d": 6.0, "e": 2.05}
    groups = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "x"}
    assert np.corrcoef(list(predicted.values()), list(human.values()))[0, 1] > 0.99
    assert within_groups_of(predicted, human, groups).r < -0.9
    assert within_groups_of(predicted, human, {}) is None
