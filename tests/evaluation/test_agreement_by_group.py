"""Agreement with people by data set: the best rater and the ceiling of reliability."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from evaluation.agreement_by_group import (
    NO_RATERS,
    ONLY_MEANS,
    best_raters_printed,
    ceiling_of,
    max_over_raters,
    max_over_raters_everywhere,
)
from evaluation.agreement_table import agreements_printed
from evaluation.items import JudgedItem
from evaluation.metric_agreement import judge, judgements_of
from evaluation.metrics.registry import metric_get


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
    rare = [[*one, ("c", value)] if k < 5 else one for k, (one, value) in enumerate(zip(usual, values, strict=True))]
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
    cells = [["all", "all"], ["all", "x"], ["all", "y"], *([d, m] for d in "st" for m in ("all", "x", "y"))]
    assert rows == [[name, *cell] for name in ("m", "Human") for cell in cells]
    [line] = [line for line in told if line.split()[:3] == ["m", "t", "y"]]
    assert line.split()[3:6] == ["2", "of", "2"]


def test_the_ceiling_is_the_root_of_the_means_reliability():
    # Two raters: between items mean square 2·var(means) = 2·4 = 8; within Σ(d²/2)/3 = (2 + 0 + 2)/3 = 4/3.
    found = ceiling_of([[("a", 0), ("b", 2)], [("a", 3), ("b", 3)], [("c", 4), ("d", 6)]])
    assert found.r == pytest.approx(np.sqrt((8 - 4 / 3) / 8))
    assert found.low < found.r < found.high
    assert (found.n_items, found.n_ratings) == (3, 6)


def test_a_metric_that_knows_the_true_values_reaches_it():
    rng = np.random.default_rng(0)
    true = rng.normal(size=4000)
    rated = true[:, None] + rng.normal(scale=2, size=(4000, 3))
    found = ceiling_of([[(str(k), value) for k, value in enumerate(row)] for row in rated])
    assert np.corrcoef(true, rated.mean(axis=1))[0, 1] == pytest.approx(found.r, abs=0.02)


def test_it_is_unknown_where_only_means_are_or_one_rater_was():
    assert ceiling_of([[("mean", 3.0)], [("mean", 4.0)]]).reason == ONLY_MEANS
    alone = ceiling_of([[("a", 3.0)], [("a", 4.0)]])
    assert alone.r is None
    assert alone.reason
    assert alone.to_json()["ci95"] is None


def items():
    rows = []
    for k, (said, references) in enumerate(
        [("a b c", ["x", "a b c"]), ("a b", ["a c", "b"]), ("x y", ["a", "q"]), ("q r s", ["q t", "s"])]
    ):
        rows.append(
            {
                "id": str(k),
                "context": [f"said {k}"],
                "response": said,
                "reference": references[0],
                "references": references,
                "ratings": [{"rater": "a", "overall": 5 - k}, {"rater": "b", "overall": 5 - k // 2}],
                "scale": [1, 5],
            }
        )
    return judgements_of(JudgedItem.model_validate_json(json.dumps(row)) for row in rows)


def test_several_references_give_the_best_score_or_the_mean():
    found = judge(items(), ["rouge_1"])["rouge_1"]
    shares = [[0.0, 1.0], [0.5, 2 / 3], [0.0, 0.0], [2 / 5, 1 / 2]]
    assert found.scores["rouge_1"].tolist() == pytest.approx([max(row) for row in shares])

    class Averaged(type(metric_get("rouge"))):
        over_references = "mean"

    found = judge(items(), [Averaged()])["rouge"]
    assert found.scores["rouge_1"].tolist() == pytest.approx([np.mean(row) for row in shares])


def test_rouge_l_takes_precision_and_recall_each_of_the_reference_that_is_best_for_it():
    row = {
        "id": "1", "context": ["said"], "response": "a b c d", "reference": "a b c x y z",
        "references": ["a b c x y z", "a b"], "ratings": [{"overall": 3}], "scale": [1, 5],
    }  # fmt: skip
    one = judgements_of([JudgedItem.model_validate_json(json.dumps(row))])
    found = judge(one, ["rouge_l"])["rouge_l"].scores["rouge_l"]
    assert found.tolist() == pytest.approx([2.44 * 0.75 / (1 + 1.44 * 0.75)])


def test_the_ceiling_stands_beside_the_metric():
    told = {"rouge_1": judge(items(), ["rouge_1"])["rouge_1"].to_json()}
    assert 0.5 < told["rouge_1"]["ceiling"]["r"] <= 1
    printed = agreements_printed(told)
    assert "ceiling: the highest Pearson's r" in printed
    assert printed.splitlines()[0].split()[-1] == "ceiling"
