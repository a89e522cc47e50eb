"""Scores of each reply: positions by hand, the order of disagreements, and the reason for every missing score."""

import json
from pathlib import Path

import numpy as np
import pytest

import confab
from evaluation.agreement.agreement_by_group import NOT_JUDGED
from evaluation.agreement.reply_scores import positions_in_sets, rank_disagreements
from evaluation.metrics.replies import NO_REFERENCE
from evaluation.metrics.text_cache import BLANK


def judged(folder: Path) -> Path:
    """Write five replies of two data sets; one is blank, one is not rated, one has no reference."""
    rows = [
        ("a", "one", "x", "a b c", "a b c", [1, 2], [3]),
        ("b", "one", "y", "a b", "a b c", [5, 5], [4]),
        ("c", "one", "x", "d", "a b c", [3, 3], []),
        ("d", "two", "x", "e", None, [2, 4], []),
        ("e", "two", "x", " ", "f", [2, 2], []),
        ("f", "two", "x", "g", "g", [], [1]),
    ]
    lines = [
        {
            "id": name,
            "source": source,
            "model": model,
            "context": ["hi", "there"],
            "response": response,
            "reference": reference,
            "ratings": [*({"good": x} for x in good), *({"fluent": x} for x in fluent)],
            "scale": [1, 5],
        }
        for name, source, model, response, reference, good, fluent in rows
    ]
    path = folder / "judged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_positions_are_ranks_within_a_data_set_from_0_to_100() -> None:
    positions = positions_in_sets([3, 1, 1, 9, np.nan, 7], ["p", "p", "p", "q", "q", "r"])
    np.testing.assert_allclose(positions, [100, 25, 25, np.nan, np.nan, np.nan])


def test_disagreements_are_sorted_and_compare_only_replies_with_both_scores() -> None:
    rows = rank_disagreements([1, 2, 3, 4, np.nan], [9, 2, 3, 4, 1], ["s"] * 5)
    assert [row.index for row in rows] == [0, 1, 2, 3]
    first = rows[0]
    assert (first.metric_position, first.human_position, first.difference) == (0, 100, -100)
    assert rows[1].difference == pytest.approx(100 / 3)
    assert rank_disagreements([1.0], [2.0], ["s"]) == [], "one reply has no position"


def test_each_reply_has_its_scores_or_the_reason(tmp_path: Path) -> None:
    scores = confab.score_replies(judged(tmp_path), ["rouge_l", "words_bot"], target="good")
    table = scores.table().set_index("id")
    assert table.loc["a", ["data_set", "model", "context_length", "reply_words", "n_ratings"]].tolist() == [
        *("one", "x", 2, 3, 2)
    ]
    assert table.loc["a", "human_mean"] == 1.5
    assert table.loc["a", "human_means"] == {"good": 1.5, "fluent": 3.0}
    assert table.loc["a", "rouge_l"] == pytest.approx(1)
    assert table.loc["b", "words_bot"] == 2
    assert table.loc["d", "reasons"]["rouge_l"] == NO_REFERENCE
    assert table.loc["e", "reasons"] == dict.fromkeys(["rouge_l", "words_bot"], BLANK)
    assert table.loc["f", "reasons"]["rouge_l"] == NOT_JUDGED
    worst = scores.disagreements("words_bot")[0]
    assert (scores.items[worst.index].id, worst.difference) == ("a", 100)
    assert [scores.items[row.index].id for row in scores.disagreements("words_bot", model="y")] == ["b"]
    with pytest.raises(KeyError):
        scores.disagreements("bleu")
