"""What a perfect metric could reach, by hand and by simulation; and several references of one reply."""

import json

import numpy as np
import pytest

from evaluation.agreement_by_group import ONLY_MEANS, ceiling_of
from evaluation.agreement_table import agreements_printed
from evaluation.items import JudgedItem
from evaluation.metric_agreement import judge, judgements_of
from evaluation.metrics.registry import metric_get


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
        [
            ("a b c", ["x", "a b c"]),
            ("a b", ["a c", "b"]),
            ("x y", ["a", "q"]),
            ("q r s", ["q t", "s"]),
        ]
    ):
        rows.append(
            {
                "id": str(k),
                "context": [f"said {k}"],
                "response": said,
                "reference": references[0],
                "references": references,
                "ratings": [
                    {"rater": "a", "overall": 5 - k},
                    {"rater": "b", "overall": 5 - k // 2},
                ],
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
