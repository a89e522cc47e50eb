"""Positive and negative replies for PONE, and BM25 without JAX."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chatbots.registry import bot_get
from evaluation.training.metrics import pone
from evaluation.training.negatives import (
    Bm25,
    WordNegatives,
    _bucket,
    draw_columns,
    embedding_negatives,
    lexical_negatives,
    pool_probabilities,
    random_negatives,
    random_responses,
    text_numbers,
    weighted_responses,
)
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

REPLIES = ["tea", "tea tea milk", "tea milk sugar", "tea milk sugar cream and more", "rain", "snow"]


def test_a_lexical_negative_stands_in_the_middle_of_what_is_found() -> None:
    # "tea" finds the three others that hold it; the one that says it twice comes first, then the shorter.
    result = lexical_negatives(REPLIES, 0)
    assert result[0] == "tea milk sugar"
    # "rain" finds nothing, so one is drawn.
    assert result[4] in set(REPLIES) - {"rain"}
    assert all(false != true for false, true in zip(result, REPLIES, strict=True))
    assert lexical_negatives([*REPLIES, "tea"], 0)[-1] == "tea milk sugar"  # duplicates do not count


def test_the_reply_itself_is_none_of_the_hits_whose_middle_is_taken() -> None:
    words = ["tea", "milk", "sugar", "cream", "oats"]
    replies = [*(" ".join(words[:n]) for n in range(1, 6)), "rain", "snow"]
    # Four others share words with the last; those with more of them stand before, so the third of four has two.
    assert lexical_negatives(replies, 0)[4] == "tea milk"


def test_the_released_table_gives_the_reply_itself_for_few_hits() -> None:
    assert lexical_negatives(REPLIES, 0, middle_rule="lucene_buckets")[4] == "rain"
    assert lexical_negatives(["?", "rain"], 0, middle_rule="lucene_buckets")[0] == ""
    assert [_bucket(n) for n in (600_000, 10_001, 10_000, 1_001, 1_000, 201, 101, 51, 21, 20, 1)] == [
        299_995, 6_995, 695, 695, 195, 95, 45, 15, 10, 0, 0,
    ]  # fmt: skip


def test_an_embedding_negative_is_one_of_the_five_nearest() -> None:
    angles = np.arange(12) / 10
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    names = [f"reply {k}" for k in range(12)]
    drawn = {embedding_negatives(names, vectors, seed)[0] for seed in range(60)}
    assert drawn == {f"reply {k}" for k in range(1, 6)}
    assert {embedding_negatives(names, vectors, seed)[6] for seed in range(60)} <= {
        f"reply {k}" for k in (3, 4, 5, 7, 8, 9)
    }


def test_a_random_negative_is_another_reply() -> None:
    drawn = [random_negatives(["a", "b", "c", "a"], seed) for seed in range(60)]
    assert {row[0] for row in drawn} == {"b", "c"}
    assert {row[1] for row in drawn} == {"a", "c"}
    with pytest.raises(ValueError, match="1 distinct replies"):
        random_negatives(["a", "a"], 0)


TEXTS = ["a b", "c d", "A  b", "e f", "g h"]
NUMBERS = text_numbers(TEXTS)
# The first response is most like the fourth, then the second; the third is the same text.
VECTORS = np.array([[1, 0], [0.6, 0.8], [1, 0], [0.8, 0.6], [-1, 0]])


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_weights_are_the_softmax_over_the_pool_without_the_response_itself():
    result = pool_probabilities(np.array([[1.0, 0.6, 0.8]]), np.array([[True, False, False]]), 0.1)
    e6, e8 = math.exp(6), math.exp(8)
    assert result[0].tolist() == pytest.approx([0, e6 / (e6 + e8), e8 / (e6 + e8)])


def test_a_high_temperature_draws_uniformly_and_a_low_one_takes_the_most_similar():
    alike, same = np.array([[1.0, 0.6, 0.8]]), np.zeros((1, 3), bool)
    assert pool_probabilities(alike, same, 1e9)[0].tolist() == pytest.approx([1 / 3] * 3)
    assert pool_probabilities(alike, same, 1e-6)[0].tolist() == [1, 0, 0]
    assert pool_probabilities(alike, np.ones((1, 3), bool), 0.1)[0].tolist() == pytest.approx([1 / 3] * 3)


def test_draws_follow_the_probabilities(rng):
    p = np.repeat([[0.2, 0.0, 0.5, 0.3]], 4000, axis=0)
    shares = np.bincount(draw_columns(p, rng), minlength=4) / 4000
    assert shares == pytest.approx([0.2, 0, 0.5, 0.3], abs=0.03)


def test_a_negative_is_never_the_response_itself(rng):
    for _ in range(50):
        for drawn in (
            random_responses(NUMBERS, rng),
            weighted_responses(VECTORS, NUMBERS, rng, temperature=0.05, pool=2),
        ):
            assert (NUMBERS[drawn] != NUMBERS).all()


def test_a_negative_is_no_other_fitting_response_to_the_same_utterance(rng):
    """Response 1 is made of 0, and the most like it."""
    texts = text_numbers(["a b", "a b c", "a d", "e"])
    vectors = np.array([[1.0, 0], [1, 0], [0.6, 0.8], [-1, 0]])
    owners = np.array([0, 0, 1, 2])
    cold = weighted_responses(vectors, texts, rng, temperature=1e-4, pool=200, owners=owners)
    assert cold[:2].tolist() == [2, 2]
    words = WordNegatives(["a b", "a b c", "a d", "e"], rng, owners, best=1).draw(rng)
    assert words[:2].tolist() == [2, 2]
    for _ in range(50):
        assert (owners[random_responses(texts, rng, owners)] != owners).all()
    one_owner = random_responses(texts, rng, np.zeros(4, int))  # then only the text counts
    assert (texts[one_owner] != texts).all()


def test_random_negatives_are_uniform(rng):
    drawn = [random_responses(NUMBERS, rng)[0] for _ in range(3000)]
    assert np.bincount(drawn, minlength=5) / 3000 == pytest.approx([0, 1 / 3, 0, 1 / 3, 1 / 3], abs=0.04)


def test_a_cold_sampler_takes_the_most_similar_other_text(rng):
    drawn = weighted_responses(VECTORS, NUMBERS, rng, temperature=1e-4, pool=200)
    assert drawn[0] == 3
    assert drawn[2] == 3
    assert drawn[1] == 3
    assert drawn[4] == 1  # of cosines −1, −0.6, −1 and −0.8


def test_bm25_by_hand():
    index = Bm25(["a dog", "a cat sat", "a dog and a dog"])
    # k1 1.2, b .75, mean length 10 / 3; "dog" is in two texts of three, once in the first and twice in the third.
    idf = math.log(1 + 1.5 / 2.5)

    def score(count, length):
        return idf * count / (count + 1.2 * (0.25 + 0.75 * length / (10 / 3)))

    result = index.scores("Dog bird")
    assert result.tolist() == pytest.approx([score(1, 2), 0, score(2, 5)])
    assert index.scores("dog DOG") == pytest.approx(2 * result)
    assert index.best(["dog", "bird"], 2).tolist() == [[2, 0], [0, 1]]
    assert Bm25(["!", "?"]).best(["dog"], 1).tolist() == [[0]]


def test_word_negatives_share_words_with_the_response(rng):
    texts = ["the red car", "a red car", "blue sky", "blue sea", "The red  car"]
    for _ in range(10):
        result = WordNegatives(texts, rng, best=1).draw(rng)
        assert result[[0, 2, 3, 4]].tolist() == [1, 3, 2, 1]
        assert result[1] in (0, 4)


ROOT = Path(__file__).parents[3]
INDEXED = (
    "from evaluation.training.negatives import Bm25; print(Bm25(['a red house', 'the sea']).best(['red'], 1).tolist())"
)


@pytest.mark.parametrize("before", ["", "import jax; "], ids=["not imported", "imported before"])
def test_it_computes_nothing_by_jax(tmp_path: Path, before: str) -> None:
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lax.py").write_text("raise SystemExit('JAX is at work')")
    done = subprocess.run(
        [sys.executable, "-c", f"{before}{INDEXED}; import jax; print(jax.__name__)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["[[0]]", "jax"], done.stderr


WORDS = ["we", "had", "good", "food", "and", "good", "wine"]


def synonyms(word):
    return {"good": ["fine"], "food": ["fare"]}.get(word, [])


@pytest.fixture
def pone_rng():
    return np.random.default_rng(5)


def test_each_operation_does_what_it_says(pone_rng):
    replaced = replace_words(WORDS, 2, pone_rng, synonyms)
    assert replaced == ["we", "had", "fine", "fare", "and", "fine", "wine"]
    one = replace_words(WORDS, 1, pone_rng, synonyms)
    assert one in (
        ["we", "had", "fine", "food", "and", "fine", "wine"],
        ["we", "had", "good", "fare", "and", "good", "wine"],
    )
    inserted = insert_words(["good"], 2, pone_rng, synonyms)
    assert sorted(inserted) == ["fine", "fine", "good"] or sorted(inserted) == ["fine", "good", "good"]
    assert sorted(insert_words(WORDS, 1, pone_rng, None))[:-1] != sorted(WORDS)
    swapped = swap_words(WORDS, 1, pone_rng, None)
    assert sorted(swapped) == sorted(WORDS)
    assert sum(a != b for a, b in zip(swapped, WORDS, strict=True)) in (0, 2)
    assert swap_words(["one"], 1, pone_rng, None) == ["one"]
    assert delete_words(["one"], 1, pone_rng, None) == ["one"]
    lengths = [len(delete_words(WORDS, 2, pone_rng, None)) for _ in range(400)]
    assert np.mean(lengths) == pytest.approx(5, abs=0.2)


def test_copies_differ_and_are_as_many_as_asked_for(pone_rng):
    result = augmented(" ".join(WORDS), 5, pone_rng, synonyms=synonyms)
    assert len(set(result)) == 5
    assert " ".join(WORDS) not in result
    assert augmented("Yes.", 5, pone_rng) == ["Yes. Yes."]  # all that one word can become
    assert augmented("  ", 5, pone_rng) == []


def test_synonyms_of_wordnet_keep_marks_and_capitals_and_leave_grammar_alone(pone_rng):
    synonyms = wordnet_synonyms()
    assert synonyms("car") == ["auto", "automobile", "machine", "motorcar", "railcar"]
    assert synonyms("“Wine,”") == ["“Vino,”"]
    for word in ("a", "I", "have", "who", "2nd", "o'clock", "", "qwertz"):
        assert synonyms(word) == [], word
    replaced = replace_words(["I", "have", "a", "Food!"], 3, pone_rng, synonyms)
    assert replaced == ["I", "have", "a", "Nutrient!"]


def test_a_slice_that_is_missing_is_told_of_and_done_without(monkeypatch, caplog, tmp_path):
    def missing():
        return wordnet_synonyms(tmp_path / "none.gz")

    monkeypatch.setattr(pone, "wordnet_synonyms", missing)
    pairs = [(("Any news?",), "the car has good wine")]
    result, owners = pone._augmented(pairs, pone.PoneOptions(positives="eda"), 1)
    assert len(owners) == len(result)
    assert {word for _, text in result for word in text.split()} <= set(pairs[0][1].split())
    assert "augmented responses are made without synonyms" in caplog.text
    monkeypatch.undo()
    result, _ = pone._augmented(pairs, pone.PoneOptions(positives="eda", copies=30), 1)
    others = {word for _, text in result for word in text.split()} - set(pairs[0][1].split())
    assert others & {"vino", "auto", "automobile", "machine", "motorcar", "railcar"}


def test_a_bot_gives_its_different_replies():
    result = generated(bot_get("parrot"), [["Hello!", "Hi.", "Any news?"], ["Bye."]], 3)
    assert len(result) == 2
    assert all(1 <= len(replies) <= 3 and len(set(replies)) == len(replies) for replies in result)


def test_the_filter_keeps_what_the_scorer_is_sure_of():
    scores = np.array([0.01, 0.05, 0.3, 0.7, 0.95, 0.99])
    result = relabelled(scores, 0.05)
    assert result.is_kept.tolist() == [True, True, False, False, True, True]
    assert result.positive[result.is_kept].tolist() == [False, False, True, True]
    assert result.kept_share == pytest.approx(4 / 6)
    changed = relabelled(scores, 0.05, "change")
    assert changed.is_kept.all()
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
    assert labels_are_stable(Labels(one, first.is_kept), first)
    assert not labels_are_stable(Labels(~first.positive, first.is_kept), first)
