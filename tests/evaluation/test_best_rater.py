"""The best of several raters, and bounds by raters among themselves, against SciPy on hand-made scores."""

import numpy as np
import pytest
from scipy import stats

from evaluation.agreement_by_group import (
    NO_RATERS,
    best_raters_printed,
    max_over_raters,
    max_over_raters_everywhere,
)


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


def test_published_means_are_no_raters():
    found = max_over_raters(np.arange(4.0), [[("mean", k)] for k in range(4)])
    assert found == {"n_raters": 0, "n_named": 0, "replies": {}, "reason": NO_RATERS}
    assert NO_RATERS in "\n".join(best_raters_printed({"m": {"max_over_raters": found}}))


def test_who_judged_fewer_than_half_of_the_replies_is_not_the_best_rater():
    rng = np.random.default_rng(4)
    values = rng.normal(size=12)
    usual = [[("a", float(rng.integers(1, 6))), ("b", float(rng.integers(1, 6)))] for _ in values]
    rare = [
        [*one, ("c", value)] if k < 5 else one
        for k, (one, value) in enumerate(zip(usual, values, strict=True))
    ]
    found = max_over_raters(values, rare)
    assert found["replies"] == {"a": 12, "b": 12, "c": 5}
    assert (found["n_raters"], found["n_named"]) == (2, 3)
    assert set(found["pearson"]["raters"]) == {"a", "b"}
    assert found["pearson"] == max_over_raters(values, usual)["pearson"]


def test_each_cell_has_its_best_rater_and_people_stand_below_the_metrics():
    rng = np.random.default_rng(5)
    sources = np.array(["s"] * 10 + ["t"] * 10, dtype=object)
    models = np.array(["x", "y"] * 10, dtype=object)
    scores = rng.integers(1, 6, size=(2, 20)).astype(float)
    values = scores[0] + rng.normal(size=20)
    given = [[("a", scores[0, k]), ("b", scores[1, k])] for k in range(20)]
    found = max_over_raters_everywhere(values, given, sources, models)
    here = (sources == "t") & (models == "y")
    wanted = max(stats.pearsonr(values[here], one[here])[0] for one in scores)
    assert found["sources"]["t"]["models"]["y"]["pearson"]["max_over_raters"] == pytest.approx(wanted)  # fmt: skip
    assert found["models"]["x"]["replies"] == {"a": 10, "b": 10}
    told = best_raters_printed({"m": {"max_over_raters": found}})
    rows = [line.split()[:3] for line in told if line.startswith(("m ", "Human "))]
    cells = [
        ["all", "all"],
        ["all", "x"],
        ["all", "y"],
        *([d, m] for d in "st" for m in ("all", "x", "y")),
    ]
    assert rows == [[name, *cell] for name in ("m", "Human") for cell in cells]
    [line] = [line for line in told if line.split()[:3] == ["m", "t", "y"]]
    assert line.split()[3:6] == ["2", "of", "2"]
