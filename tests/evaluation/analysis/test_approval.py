"""Shares of people who chose an option, held against statsmodels, and weights against scipy's softmax."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax
from statsmodels.stats.proportion import proportion_confint

from evaluation.analysis.answers import Approval, approval, softmax_weights
from evaluation.result_json import result_dump, result_load

OPTIONS = ("relevance", "engagingness", "fluency", "understandability", "empathy", "persona")


def choices(n: int = 100, k: int = 4, seed: int = 2) -> np.ndarray:
    """Make people who choose exactly k options, the first ones more often."""
    rng = np.random.default_rng(seed)
    table = np.zeros((n, len(OPTIONS)))
    for row in table:
        row[rng.choice(len(OPTIONS), k, replace=False, p=np.array([6, 5, 4, 3, 2, 1]) / 21)] = 1
    return table


def test_shares_have_the_intervals_of_statsmodels() -> None:
    table = choices()
    found = approval(table, OPTIONS)
    assert found.n_people == 100
    assert sum(one.approval for one in found.options) == pytest.approx(4), "each chose four"
    for j, one in enumerate(found.options):
        n = int(table[:, j].sum())
        assert (one.option, one.n, one.approval) == (OPTIONS[j], n, n / 100)
        assert (one.low, one.high) == pytest.approx(proportion_confint(n, 100, method="wilson"))
    nobody = approval(np.array([[0.0], [0.0]]), ["a"]).options[0]
    assert nobody.low == 0
    assert nobody.high > 0, "two people who did not choose it prove little"
    assert (nobody.weight_low, nobody.weight_high) == (1, 1), "the only option"


def test_weights_are_the_softmax_of_the_shares() -> None:
    table = choices()
    found = approval(table, OPTIONS)
    expected = softmax(table.mean(axis=0))
    assert list(found.weights.values()) == pytest.approx(expected.tolist())
    assert softmax_weights(dict(zip(OPTIONS, table.mean(axis=0), strict=True))) == pytest.approx(
        found.weights
    )
    assert sum(found.weights.values()) == pytest.approx(1)
    assert max(found.weights.values()) / min(found.weights.values()) <= np.e
    assert softmax_weights({"a": 0.5, "b": 0.5}) == {"a": 0.5, "b": 0.5}
    assert softmax_weights({}) == {}


def test_the_interval_of_a_weight_covers_what_other_people_say() -> None:
    """Of samples of a known population 95 in 100 intervals and more hold its weight, of few people, too, who may all
    choose alike.
    """
    population = choices(n=4000, seed=7)
    true = softmax(population.mean(axis=0))
    for n_people, n_samples in ((4, 100), (8, 100), (60, 200)):
        rng = np.random.default_rng(0)
        held = []
        for _sample in range(n_samples):
            drawn = population[rng.choice(len(population), n_people)]
            for one, weight in zip(approval(drawn, OPTIONS).options, true, strict=True):
                assert one.weight_low is not None
                assert one.weight_high is not None
                assert 0 < one.weight_low <= one.weight <= one.weight_high < 1
                held.append(one.weight_low <= weight <= one.weight_high)
        assert np.mean(held) > 0.93


def test_one_person_has_no_interval_of_weights_and_nobody_a_reason() -> None:
    alone = approval(np.array([[1.0, 0.0]]), ["a", "b"]).options
    assert [one.weight_low for one in alone] == [None, None]
    nobody = approval(np.zeros((0, 2)), ["a", "b"])
    assert nobody.reason is not None
    assert nobody.reason.code == "nobody_chose"
    assert "no participant" in nobody.summary()
    with pytest.raises(ValueError, match="0 or 1"):
        approval(np.array([[2.0, 0.0]]), ["a", "b"])


def test_the_result_is_kept_as_json() -> None:
    found = approval(choices(10), OPTIONS)
    json.dumps(found.to_json(), allow_nan=False)
    assert result_load(result_dump(found, Approval), Approval) == found
    assert "relevance" in found.summary()
