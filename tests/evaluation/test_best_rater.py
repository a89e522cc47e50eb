"""The best of several raters, and the bounds by raters among themselves, against SciPy on hand-made scores."""

import numpy as np
import pytest
from scipy import stats

from evaluation.best_rater import NO_RATERS, best_raters_printed, max_over_raters


def test_the_best_rater_and_the_bounds_of_people_are_scipys_and_the_best_is_never_below_the_mean():
    rng = np.random.default_rng(2)
    scores = rng.integers(1, 7, size=(3, 20)).astype(float)
    values = scores[1] + rng.normal(size=20)
    given = [[(name, scores[k, n]) for k, name in enumerate("abc")] for n in range(20)]
    found = max_over_raters(values, given)
    own = [stats.spearmanr(values, one)[0] for one in scores]
    pairs = [stats.spearmanr(scores[a], scores[b])[0] for a, b in ((0, 1), (0, 2), (1, 2))]
    told = found["spearman"]
    assert told["max_over_raters"] == pytest.approx(max(own))
    assert told["mean_over_raters"] == pytest.approx(np.mean(own))
    assert told["max_over_raters"] >= told["mean_over_raters"]
    assert (told["human_mean"], told["human_max"]) == pytest.approx((np.mean(pairs), max(pairs)))
    assert "max over 3 raters" in best_raters_printed({"m": {"max_over_raters": found}})[0]


def test_published_means_are_no_raters():
    found = max_over_raters(np.arange(4.0), [[("mean", k)] for k in range(4)])
    assert found == {"n_raters": 0, "reason": NO_RATERS}
