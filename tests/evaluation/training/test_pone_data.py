"""Positive replies for PONE."""

from __future__ import annotations

import numpy as np
import pytest

from chatbots.registry import bot_get
from evaluation.training.metrics import pone
from evaluation.training.pone_data import (
    Labels,
    all_positive,
    augmented,
    delete_words,
    generated,
    insert_words,
    labels_are_stable,
    relabelled,
    replace_words,
    swap_words,
    wordnet_synonyms,
)

WORDS = ["we", "had", "good", "food", "and", "good", "wine"]


def synonyms(word):
    return {"good": ["fine"], "food": ["fare"]}.get(word, [])


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_each_operation_does_what_it_says(rng):
    replaced = replace_words(WORDS, 2, rng, synonyms)
    assert replaced == ["we", "had", "fine", "fare", "and", "fine", "wine"]
    one = replace_words(WORDS, 1, rng, synonyms)
    assert one in (
        ["we", "had", "fine", "food", "and", "fine", "wine"],
        ["we", "had", "good", "fare", "and", "good", "wine"],
    )
    inserted = insert_words(["good"], 2, rng, synonyms)
    assert sorted(inserted) == ["fine", "fine", "good"] or sorted(inserted) == ["fine", "good", "good"]
    assert sorted(insert_words(WORDS, 1, rng, None))[:-1] != sorted(WORDS)
    swapped = swap_words(WORDS, 1, rng, None)
    assert sorted(swapped) == sorted(WORDS)
    assert sum(a != b for a, b in zip(swapped, WORDS, strict=True)) in (0, 2)
    assert swap_words(["one"], 1, rng, None) == ["one"]
    assert delete_words(["one"], 1, rng, None) == ["one"]
    lengths = [len(delete_words(WORDS, 2, rng, None)) for _ in range(400)]
    assert np.mean(lengths) == pytest.approx(5, abs=0.2)


def test_copies_differ_and_are_as_many_as_asked_for(rng):
    found = augmented(" ".join(WORDS), 5, rng, synonyms=synonyms)
    assert len(set(found)) == 5
    assert " ".join(WORDS) not in found
    assert augmented("Yes.", 5, rng) == ["Yes. Yes."]  # all that one word can become
    assert augmented("  ", 5, rng) == []


def test_synonyms_of_wordnet_keep_marks_and_capitals_and_leave_grammar_alone(rng):
    synonyms = wordnet_synonyms()
    assert synonyms("car") == ["auto", "automobile", "machine", "motorcar", "railcar"]
    assert synonyms("“Wine,”") == ["“Vino,”"]
    for word in ("a", "I", "have", "who", "2nd", "o'clock", "", "qwertz"):
        assert synonyms(word) == [], word
    replaced = replace_words(["I", "have", "a", "Food!"], 3, rng, synonyms)
    assert replaced == ["I", "have", "a", "Nutrient!"]


def test_a_slice_that_is_missing_is_told_of_and_done_without(monkeypatch, caplog, tmp_path):
    def missing():
        return wordnet_synonyms(tmp_path / "none.gz")

    monkeypatch.setattr(pone, "wordnet_synonyms", missing)
    pairs = [(("Any news?",), "the car has good wine")]
    found, owners = pone._augmented(pairs, pone.PoneOptions(positives="eda"), 1)
    assert len(owners) == len(found)
    assert {word for _, text in found for word in text.split()} <= set(pairs[0][1].split())
    assert "augmented responses get no synonyms" in caplog.text
    monkeypatch.undo()
    found, _ = pone._augmented(pairs, pone.PoneOptions(positives="eda", copies=30), 1)
    others = {word for _, text in found for word in text.split()} - set(pairs[0][1].split())
    assert others & {"vino", "auto", "automobile", "machine", "motorcar", "railcar"}


def test_a_bot_gives_its_different_replies():
    found = generated(bot_get("parrot"), [["Hello!", "Hi.", "Any news?"], ["Bye."]], 3)
    assert len(found) == 2
    assert all(1 <= len(replies) <= 3 and len(set(replies)) == len(replies) for replies in found)


def test_the_filter_keeps_what_the_scorer_is_sure_of():
    scores = np.array([0.01, 0.05, 0.3, 0.7, 0.95, 0.99])
    found = relabelled(scores, 0.05)
    assert found.kept.tolist() == [True, True, False, False, True, True]
    assert found.positive[found.kept].tolist() == [False, False, True, True]
    assert found.kept_share == pytest.approx(4 / 6)
    changed = relabelled(scores, 0.05, "change")
    assert changed.kept.all()
    assert changed.positive.tolist() == [False, False, True, True, True, True]


def test_theta_of_one_half_keeps_everything():
    scores = np.random.default_rng(0).random(100)
    assert relabelled(scores, 0.5).kept_share == 1
    with pytest.raises(ValueError, match=r"theta is 0\.6"):
        relabelled(scores, 0.6)


def test_labelling_ends_when_labels_rest():
    first = relabelled(np.array([0.01] * 999 + [0.99] * 1001))
    assert first.changed(all_positive(2000)) == pytest.approx(999 / 2000)
    assert not labels_are_stable(first, None)
    assert not labels_are_stable(first, all_positive(2000))
    one = first.positive.copy()
    one[0] = True
    assert labels_are_stable(Labels(one, first.kept), first)
    assert not labels_are_stable(Labels(~first.positive, first.kept), first)
