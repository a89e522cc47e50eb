"""Scores on the rater's own scale against SciPy and published standardised ratings."""

import numpy as np
import pytest
from scipy import stats

from evaluation.stats.zscores import rater_codes, rater_zscores
from tests.reference.ratings import JI_RATINGS, JI_Z_SCORES

rng = np.random.default_rng(0)


def test_each_raters_scores_are_scipys():
    raters = rng.permutation(np.repeat(["ann", "bob", "eve"], [12, 30, 9]))
    values = rng.normal(size=51)
    found = rater_zscores(values, raters)
    for name in ("ann", "bob"):
        own = raters == name
        np.testing.assert_allclose(found.values[own], stats.zscore(values[own], ddof=1))
    assert np.isnan(found.values[raters == "eve"]).all()
    assert found.left_out == {"eve": "9 of the 10 ratings needed"}
    assert (found.n_ratings, found.n_used) == (51, 42)
    assert set(found.raters) == {"ann", "bob"}


def test_published_scores_pool_a_workers_sliders():
    found = rater_zscores(JI_RATINGS, ["w"] * 6, min_ratings=2, pooled=True)
    np.testing.assert_allclose(found.values, JI_Z_SCORES, atol=6e-5)


def test_dimensions_by_themselves_and_missing_values():
    values = rng.normal(size=(20, 3))
    values[4, 1] = np.nan
    found = rater_zscores(values, ["w"] * 20)
    np.testing.assert_allclose(found.values, stats.zscore(values, ddof=1, nan_policy="omit"))
    assert np.isnan(found.values[4, 1])


def test_a_rater_who_never_varies_has_no_scores_but_can_be_centred():
    values = [4.0] * 10 + list(range(10))
    raters = ["flat"] * 10 + ["ok"] * 10
    found = rater_zscores(values, raters)
    assert np.isnan(found.values[:10]).all()
    assert "same" in found.left_out["flat"]
    centred = rater_zscores(values, raters, mode="centre")
    assert centred.values[:10].tolist() == [0.0] * 10
    assert centred.values[10] == -4.5


def test_unknown_raters_are_left_out_and_counted():
    found = rater_zscores([1.0, 2.0, 3.0], [None, float("nan"), ""], min_ratings=2)
    assert found.left_out == {"": "3 ratings without a rater"}
    assert found.n_used == 0


def test_codes_give_every_unknown_rater_a_code_of_their_own():
    assert rater_codes(["a", None, "b", "a", None]).tolist() == [0, 1, 2, 0, 3]


def test_refusals():
    with pytest.raises(ValueError, match="3 raters"):
        rater_zscores([1.0, 2.0], ["a", "b", "c"])
    with pytest.raises(ValueError, match="min_ratings is 1"):
        rater_zscores([1.0], ["a"], min_ratings=1)
