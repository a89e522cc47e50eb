"""Tables of the benchmark papers: published values beside ours, the form on other data, and the five reasons."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from statsmodels.stats.inter_rater import fleiss_kappa

from evaluation.agreement.metric_agreement import JudgedReplies, judge, judgements_of
from evaluation.agreement.paper_tables import BENCHMARK_PAPERS, RatedSet, layout_tables, paper_tables, print_paper_table
from evaluation.analysis.answers import approval
from evaluation.data.items import JudgedItem
from evaluation.data.result_tables import NamedTable
from evaluation.published.correlations import published_rows
from evaluation.published.papers import GapReason, papers

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "looked", "at", "all", "of", "us", "for", "a", "while"]


def make_item(k: int, source: str, model: str, rng: np.random.Generator) -> JudgedItem:
    words = WORDS[: 2 + k % 9]
    ratings = tuple({"rater": f"r{j}", "coherence": int(rng.integers(1, 6))} for j in range(3))
    fields: dict[str, Any] = {"source": source, "model": model, "ratings": ratings, "scale": (1.0, 5.0)}
    return JudgedItem(
        id=f"{model}{k}", context=(f"context {k}",), response=" ".join(words), reference=" ".join(WORDS[1:8]), **fields
    )


@pytest.fixture(scope="module")
def judged() -> JudgedReplies:
    rng = np.random.default_rng(3)
    items = [
        make_item(k, source, model, rng)
        for source in ("grade/dailydialog", "ours")
        for model in ("transformer_ranker", "transformer_generator")
        for k in range(12)
    ]
    return judgements_of(items)


@pytest.fixture(scope="module")
def tables(judged: JudgedReplies) -> dict[str, list[NamedTable]]:
    agreements = judge(judged, ["rouge_l", "words_bot"])
    return {
        paper: [table for _name, table in paper_tables(paper, "file", judged, agreements)] for paper in BENCHMARK_PAPERS
    }


def cell(table: NamedTable, row: str, column: str) -> Any:
    at = [header.text for header in table.table.headers].index(column)
    return next(cells[at] for cells in table.table.rows if cells[0].text == row)


def values_of(judged: JudgedReplies, source: str, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of words and the mean ratings of the replies."""
    items = [item for item in judged.items if (item.source, item.model) == (source, model)]
    means = [np.mean([rating["coherence"] for rating in item.ratings]) for item in items]  # type: ignore[arg-type]
    return np.array([len(item.response.split()) for item in items], dtype=float), np.array(means)


def test_published_values_stand_beside_those_computed_here(
    judged: JudgedReplies, tables: dict[str, list[NamedTable]]
) -> None:
    table = next(table for table in tables["grade2020"] if table.id == "table-1-grade-dailydialog")
    published = {
        (row.metric, row.system): row.values
        for row in published_rows()
        if (row.source_key, row.table, row.set) == ("grade", "1", "grade/dailydialog")
    }
    assert cell(table, "ROUGE-L", "transformer ranker: Pearson, published").raw == (
        published["ROUGE-L", "transformer_ranker"]["pearson"],
    )
    agreement = judge(judged, ["rouge_l"])["rouge_l"].to_json()
    here = agreement["sources"]["grade/dailydialog"]["models"]["transformer_ranker"]["spearman"]["r"]
    assert cell(table, "ROUGE-L", "transformer ranker: Spearman, here").raw == (here,)
    four = [published["ROUGE-L", system][m] for system in ("transformer_ranker", "transformer_generator") for m in
            ("pearson", "spearman")]  # fmt: skip
    assert cell(table, "ROUGE-L", "Average, published").raw[0] == pytest.approx(np.mean(four))


def test_the_form_is_filled_with_a_data_set_that_the_paper_lacks(
    judged: JudgedReplies, tables: dict[str, list[NamedTable]]
) -> None:
    table = next(table for table in tables["grade2020"] if table.id == "table-1-ours")
    words, means = values_of(judged, "ours", "transformer_ranker")
    assert cell(table, "words_bot", "transformer ranker: Pearson").raw[0] == pytest.approx(pearsonr(words, means)[0])
    assert cell(table, "words_bot", "transformer ranker: Spearman").raw[0] == pytest.approx(spearmanr(words, means)[0])
    assert cell(table, "BERTScore-F1", "transformer ranker: Pearson").reason == GapReason.NOT_COMPUTED
    assert cell(table, "ADEM", "transformer ranker: Pearson").reason == GapReason.UNAVAILABLE


def test_insignificant_values_are_starred(tables: dict[str, list[NamedTable]]) -> None:
    for table in tables["grade2020"]:
        assert table.id.startswith("figure") or "* p > 0.05" in table.note
    starred = [c for t in tables["grade2020"] for row in t.table.rows for c in row if c.text.endswith("*")]
    assert starred
    assert all(abs(c.raw[0] or 0.0) < 0.6 for c in starred)  # n = 12: |r| < .576 has p > .05


def test_values_on_data_that_served_to_develop_the_metric_are_marked(judged: JudgedReplies) -> None:
    stored = {**judge(judged, ["rouge_l"])["rouge_l"].to_json(), "column": "grade_lite_bot"}
    by_id = {t.id: t for t in layout_tables("grade2020", [RatedSet("file", [stored], judged)])["Table 1"]}
    seen = cell(by_id["table-1-grade-dailydialog"], "GRADE", "transformer ranker: Pearson, here")
    own = cell(by_id["table-1-ours"], "GRADE", "transformer ranker: Pearson")
    assert seen.text.endswith("†")
    assert own.text[-1] in "0123456789*"


def test_agreement_between_raters_fills_the_rows_of_people(judged: JudgedReplies) -> None:
    agreements = judge(judged, ["words_bot"], by_best_rater=True)
    tables = {t.id: t for _name, t in paper_tables("pone2020", "file", judged, agreements)}
    figures = agreements["words_bot"].to_json()["max_over_raters"]["sources"]["ours"]["models"]["transformer_ranker"]
    row = cell(tables["table-7-ours"], "Human (max)", "transformer ranker: Pearson")
    assert row.raw == (figures["pearson"]["human_max"],)
    assert "best of three raters" in tables["table-7-pone-dailydialog"].note


def test_shares_by_rating_need_a_scale_from_1_to_5(judged: JudgedReplies) -> None:
    items = [item.model_copy(update={"scale": (1.0, 7.0)}) for item in judged.items if item.source == "ours"]
    [table] = layout_tables("rade2023", [RatedSet("file", (), judgements_of(items))])["Table 2"]
    row = next(row for row in table.table.rows if row[0].text == "ours")
    assert {c.reason for c in row[-5:]} == {GapReason.NO_DATA}


def test_every_empty_cell_has_one_of_five_reasons(tables: dict[str, list[NamedTable]]) -> None:
    reasons: Counter[str] = Counter()
    for table in (table for several in tables.values() for table in several):
        for one in (one for row in table.table.rows for one in row):
            if one.text in ("", "–"):
                assert one.reason in set(GapReason), (table.id, one)
                reasons[one.reason] += 1
    assert set(reasons) >= {GapReason.NO_DATA, GapReason.NOT_COMPUTED, GapReason.UNAVAILABLE, GapReason.NOT_PUBLISHED}


def test_a_terminal_numbers_each_reason_once(tables: dict[str, list[NamedTable]]) -> None:
    table = next(table for table in tables["grade2020"] if table.id == "table-1-grade-dailydialog")
    printed = print_paper_table("Table 1", table)
    assert printed.count(GapReason.NOT_COMPUTED) == 1
    assert "–¹" in printed
    assert "Table 1. " in printed


def test_agreement_of_annotators_is_fleiss_kappa(judged: JudgedReplies, tables: dict[str, list[NamedTable]]) -> None:
    [table] = [table for table in tables["pone2020"] if table.id == "table-1"]
    ratings = [
        [rating["coherence"] for rating in item.ratings] for item in judged.items if item.source == "ours"
    ]  # fmt: skip
    counts = np.array([[row.count(step) for step in range(1, 6)] for row in ratings])
    row = next(row for row in table.table.rows if row[0].text == "ours")
    assert row[3].raw[0] == pytest.approx(fleiss_kappa(counts))
    assert row[2].reason == GapReason.NOT_PUBLISHED


def test_statistics_of_the_data_are_counted(judged: JudgedReplies, tables: dict[str, list[NamedTable]]) -> None:
    by_id = {table.id: table for table in tables["rade2023"]}
    texts = [text for item in judged.items if item.source == "ours" for text in (*item.context, item.response)]
    assert cell(by_id["table-7"], "ours", "words, here").raw[0] == pytest.approx(
        np.mean([len(text.split()) for text in texts])
    )
    counts = [row for row in by_id["table-5"].table.rows if row[0].text == "ours"]
    assert {row[1].text: row[3].raw[0] for row in counts} == {"transformer_ranker": 12, "transformer_generator": 12}
    shares = next(row for row in by_id["table-2"].table.rows if row[0].text == "ours")[-5:]
    assert math.fsum(share.raw[0] or 0.0 for share in shares) == pytest.approx(1)


def test_quartiles_are_those_of_each_dialogue_model(judged: JudgedReplies, tables: dict[str, list[NamedTable]]) -> None:
    [table] = [table for table in tables["grade2020"] if table.id == "figure-3"]
    _words, means = values_of(judged, "ours", "transformer_generator")
    row = next(
        row
        for row in table.table.rows
        if [c.text for c in row[:3]] == ["ours", "transformer generator", "people: coherence"]
    )
    assert [c.raw[0] for c in row[4:9]] == pytest.approx(np.percentile(means, [0, 25, 50, 75, 100]))


def test_classes_are_compared_with_stretched_human_scores(judged: JudgedReplies) -> None:
    grades = [(np.mean([r["coherence"] for r in item.ratings]) - 1) / 4 * 3 for item in judged.items]  # type: ignore[arg-type]
    classes = [float(k % 3) for k in range(len(grades))]
    rated_set = RatedSet("file", (), judged, {"lite_class_bot": classes})
    by_item = layout_tables("entailment2019", [rated_set])
    expected = [
        2.0 if grade >= 2 else 1.0 if grade >= 1 else 0.0
        for item, grade in zip(judged.items, grades, strict=True)
        if item.source == "ours"
    ]
    ours = [label for item, label in zip(judged.items, classes, strict=True) if item.source == "ours"]
    row = next(row for row in by_item["Table 2"][0].table.rows if row[0].text == "ours")
    assert row[3].raw[0] == pytest.approx(np.mean(np.array(ours) == np.array(expected)))
    figure = by_item["Figure 1"][0]
    neutral = next(row for row in figure.table.rows if [c.text for c in row[:3]] == ["ours", "lite", "neutral"])
    scores = [g for g, i, c in zip(grades, judged.items, classes, strict=True) if i.source == "ours" and c == 1]
    assert neutral[6].raw[0] == pytest.approx(np.median(scores))


def test_choices_are_compared_by_group() -> None:
    experts = approval(np.array([[1, 0], [1, 1], [1, 0], [0, 1]], dtype=float), ["fluency", "relevance"])
    users = approval(np.array([[0, 1], [0, 1]], dtype=float), ["fluency", "relevance"])
    [table] = layout_tables("rade2023", [RatedSet("", approval={"experts": experts, "users": users})])["Figure 4"]
    assert [header.text for header in table.table.headers][1::2] == ["experts (4)", "users (2)"]
    assert [row[1].raw[0] for row in table.table.rows] == [0.75, 0.5]
    assert [row[3].raw[0] for row in table.table.rows] == [0.0, 1.0]


def test_all_numbered_items_of_the_papers_are_listed() -> None:
    items = [item for paper in papers().values() for item in paper.items]
    assert len(items) == 62
    assert Counter(item.kind == "drawing" for item in items) == {True: 9, False: 53}
    for item in items:
        assert bool(item.where) == (item.kind in ("page", "command")), item
    for paper in BENCHMARK_PAPERS:
        layouts = [item.item for item in papers()[paper].items if item.kind == "layout"]
        assert list(layout_tables(paper, ())) == layouts
