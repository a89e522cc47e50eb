"""Published figures as facts: they add up to what the papers say of them, and stand beside the right figures of ours."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from evaluation.judgements import judge
from evaluation.judgements_printed import agreements_printed
from evaluation.metrics.registry import metric_list
from evaluation.published.rows import (
    beside,
    caveats_of,
    published_of,
    published_rows,
    published_sets,
)
from evaluation.stats.correlation import fisher_interval


def test_figures_add_up_to_the_papers_headlines() -> None:
    for name, headline in (("dailydialog", 0.294), ("convai2", 0.579), ("empatheticdialogues", 0.298)):  # fmt: skip
        values = [
            value
            for row in published_of(f"grade/{name}", "coherence")
            if row.metric == "GRADE" and row.system.startswith("transformer")
            for value in row.values.values()
        ]
        assert len(values) == 4
        assert fmean(values) == pytest.approx(headline, abs=6e-4)
    of_pone = {
        metric: [v for row in published_rows() if row.table == "7" and row.metric == metric for v in row.values.values()]
        for metric in ("PONE", "BERT-RUBER")
    }  # fmt: skip
    gain = fmean(of_pone["PONE"]) - fmean(of_pone["BERT-RUBER"])
    assert gain == pytest.approx(0.1318, abs=5e-5), "the 13.18 % of its abstract"
    [ts] = [row for row in published_of("rade/emotion", "overall") if row.metric == "RADE TS"]
    assert ts.values == {"pearson": 0.863, "spearman": 0.849, "kendall": 0.685}
    assert ts.interval("pearson") == fisher_interval(0.863, 500)


def test_every_row_names_a_set_and_columns_that_there_are() -> None:
    columns = {column.name for metric in metric_list() for column in metric.columns}
    rows = published_rows()
    assert {row.set for row in rows} == set(published_sets())
    assert {name for row in rows for name in row.ours} <= columns
    assert all(row.values and all(-1 <= v <= 1 for v in row.values.values()) for row in rows)
    places = [(row.set, row.system, row.title, row.place) for row in rows]
    assert len(places) == len(set(places))


def test_a_row_stands_beside_its_own_set_dimension_and_model_only() -> None:
    convai = published_of("grade/convai2", "coherence")
    same = beside(convai, "rouge_l", "bert_ranker")
    assert same is not None
    assert same.is_same
    assert same.values["pearson"] == 0.157
    nearest = beside(convai, "grade_lite_bot")
    assert nearest is not None
    assert not nearest.is_same
    assert nearest.title == "GRADE"
    assert beside(convai, "rouge_l", "another model") is None
    assert beside(convai, "words_bot") is None
    assert published_of("grade/convai2", "fluency") == ()
    assert published_of("my own", "overall") == ()
    assert any("best of three raters" in told for told in caveats_of(published_of("pone/cornell", "overall")))  # fmt: skip
    assert any("share no context" in told for told in caveats_of(published_of("rade/persona", "overall")))  # fmt: skip


def test_the_command_s_table_prints_them(tmp_path: Path) -> None:
    rows = [
        {
            "id": k,
            "source": "grade/convai2",
            "model": "bert_ranker",
            "context": [f"context {k}"],
            "response": " ".join(["one", "two", "three"][: 1 + k % 3]),
            "reference": "one two",
            "ratings": [{"coherence": 1 + k % 4}],
        }
        for k in range(8)
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = {name: one.to_json() for name, one in judge(file, ["rouge_l"]).items()}
    assert result["rouge_l"]["source"] == "grade/convai2"
    printed = agreements_printed(result)
    assert ".136 .140 (n 600)" in printed, "the survey's row of all dialogue models"
    assert "published: Pearson and Spearman of the whole set; Yeh et al." in printed
