"""RADE's data rules on rows written by hand."""

import json

import numpy as np
import pytest

from evaluation.items import judged_read
from evaluation.training.rade_data import (
    NO_REFERENCE_SCORE,
    OTHER_SCALE,
    UNPAIRED,
    UNREADABLE,
    RatedPair,
    context_key,
    grouped_folds,
    judged_lines,
    leaking_folds,
    rated_pairs_of,
    rated_pairs_read,
)

FIRST = RatedPair(("Hi.", "Hello!"), "How are you?", "Nice day.", 2.0, 4.0)
SECOND = RatedPair(("Hi.", "Hello!"), "Bye.", "Nice day.", 1.0, 4.0)
OTHER = RatedPair(("Do you ski?",), "I do.", "Never.", 3.0, 5.0)


def both(*pairs):
    return [row for pair in pairs for row in (pair, pair.mirrored)]


def test_the_first_of_two_mirrored_rows_has_the_system_s_response():
    found = rated_pairs_of(both(FIRST, SECOND, OTHER))
    assert found.pairs == (FIRST, SECOND, OTHER)
    assert len(found.rows) == 6
    assert found.counts() == {
        "rows": 6, "pairs": 3, "contexts": 2, "repeated": 0, "conflicting": 0, "same_text": 0, "skipped": {},
    }  # fmt: skip


def test_rows_without_any_mirror_are_system_responses_but_a_lone_one_among_mirrored_is_left_out():
    assert rated_pairs_of([FIRST, OTHER]).pairs == (FIRST, OTHER)
    found = rated_pairs_of([*both(FIRST), OTHER])
    assert found.pairs == (FIRST,)
    assert found.skipped == {UNPAIRED: 1}


def test_a_pair_told_thrice_counts_once_with_the_mean_of_its_two_different_scores():
    again = RatedPair(FIRST.context, "how are  you ?", FIRST.reference, 3.0, 4.5)
    found = rated_pairs_of(both(FIRST, OTHER, FIRST, again))
    assert found.pairs == (RatedPair(FIRST.context, "How are you?", "Nice day.", 2.5, 4.25), OTHER)
    assert (found.repeated, found.conflicting) == (2, 1)


def test_equal_texts_and_scores_beyond_the_scale_are_counted():
    same = RatedPair(("Hi.",), "Bye.", "bye.", 2.0, 3.0)
    beyond = RatedPair(("Hi.",), "Bye.", "Yes.", 6.0, 3.0)
    found = rated_pairs_of(both(same, beyond))
    assert found.same_text == 1
    assert found.skipped == {OTHER_SCALE: 2}


def test_both_forms_of_a_file_give_the_same_pairs(tmp_path):
    release = {
        "context": ["I ' m here .", "", "Hello !"],
        "output": "Do n't go .",
        "reference": "Stay .",
        "s_output": 2,
        "s_reference": 4.5,
    }
    judged = {
        "id": "1",
        "context": release["context"],
        "response": release["output"],
        "reference": "Stay .",
        "ratings": [{"rater": "a", "overall": 1}, {"rater": "b", "overall": 3}],
        "reference_rating": 4.5,
    }
    for name, line in (("release", release), ("judged", judged)):
        (tmp_path / name).write_text(f"{json.dumps(line)}\n[]\n{{}}\n")
        found = rated_pairs_read(tmp_path / name)
        assert found.pairs == (RatedPair(("I'm here.", "Hello!"), "Don't go.", "Stay.", 2, 4.5),)
        assert found.skipped == {UNREADABLE: 2}


def test_scores_of_several_qualities_and_scales_are_averaged_on_1_to_5(tmp_path):
    """As the first stage's data has them, whose references nobody scored."""
    row = {
        "id": 7, "context": ["Hi."], "response": "Bye.", "reference": "Hello.", "scale": [0, 2],
        "ratings": [{"rater": "a", "fit": 2, "fun": 0}, {"rater": "b", "fit": 1, "fun": 0}],
    }  # fmt: skip
    scored = {**row, "context": ["Yo."], "reference_score": 1}
    beyond = {**row, "ratings": [{"fit": 3}], "reference_score": 1}
    (tmp_path / "a").write_text("\n".join(map(json.dumps, (row, scored, beyond))))
    first = rated_pairs_read(tmp_path / "a", reference_scores=False)
    # fit: 1.5 of 0 … 2 is 4; fun: 0 is 1
    assert [pair.score for pair in first.pairs] == [2.5, 2.5]
    assert [pair.reference_score for pair in first.pairs] == [None, 3]
    second = rated_pairs_read(tmp_path / "a")
    assert [pair.context for pair in second.pairs] == [("Yo.",)]
    assert second.skipped == {NO_REFERENCE_SCORE: 1, OTHER_SCALE: 1}
    (tmp_path / "b").write_text(json.dumps(row))
    with pytest.raises(ValueError, match="only `stage: 1` does without"):
        rated_pairs_read(tmp_path / "b")


def test_a_file_without_pairs_says_what_is_wrong(tmp_path):
    (tmp_path / "a").write_text('{"context": ["Hi"], "output": "", "reference": "x", "s_output": 1}')
    with pytest.raises(ValueError, match=r"has no rated pair; line 1: .*response is ''"):
        rated_pairs_read(tmp_path / "a")


def test_folds_keep_a_context_together_and_differ_by_seed():
    pairs = [RatedPair((f"context {k // 3}",), f"reply {k}", "other", 2.0, 3.0) for k in range(30)]
    folds = grouped_folds(pairs, 5, seed=1)
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]
    by_context = {}
    for pair, fold in zip(pairs, folds, strict=True):
        by_context.setdefault(context_key(pair), set()).add(fold)
    assert all(len(found) == 1 for found in by_context.values())
    assert (np.bincount(folds) == 6).all()
    assert (folds == grouped_folds(pairs, 5, seed=1)).all()
    assert (folds != grouped_folds(pairs, 5, seed=2)).any()
    with pytest.raises(ValueError, match="10 contexts cannot be dealt into 11 folds"):
        grouped_folds(pairs, 11, seed=1)


def test_a_random_split_of_rows_leaks():
    rows = both(*(RatedPair((f"context {k}",), "a", "b", 2.0, 3.0) for k in range(20)))
    folds = leaking_folds(rows, 5, seed=1)
    assert (np.bincount(folds) == 8).all()
    assert (folds[0::2] != folds[1::2]).any()  # a pair's mirrored copy is in training


def test_pairs_are_judged_items_again(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(judged_lines([FIRST, OTHER], "rade/x")))
    assert rated_pairs_read(tmp_path / "a.jsonl").pairs == (FIRST, OTHER)
    first, other = judged_read(tmp_path / "a.jsonl")
    assert first.reply == FIRST.reply
    assert other.scores("overall") == ([("mean", 3.0)], 0)
