"""Repetition by words and by meaning, by hand and against plain loops."""

import math

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.metrics.repetition import Repetition, SelfSimilarity, utterance_repetition, word_similarity
from evaluation.metrics.text_cache import TextCache, content_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don’t like the dogs' food!", ["like", "dogs", "food"]),
        ("what is it, who's there?", ["what", "who"]),  # question words stay
        ("We can't; she'd rather cook", ["rather", "cook"]),
        ("do n't stop <unk> now", ["stop", "<unk>", "now"]),
        ("-- ... 😀", []),
        ("dog dog", ["dog", "dog"]),
        ("", []),
    ],
)
def test_content_words(text, words):
    assert content_words(text) == words


def test_utterance_repetition_counts_the_words_that_repeat_another():
    assert utterance_repetition("a b a a") == -2
    assert utterance_repetition("") == 0


def test_word_similarity():
    # content: cats, love, dogs, what, <unk>; taken up: dogs, love (what and <unk> never count); 7 tokens
    text, answer = "what cats love dogs and the <unk>", "I love dogs . what <unk>"
    assert word_similarity(text, answer) == pytest.approx(2 / 7)
    assert word_similarity("dog dog", "dog") == 1 / 2
    assert math.isnan(word_similarity(" ", "dog"))


def test_columns_by_hand():
    texts = ["hi", "I like dogs", "dogs are nice", "dogs like dogs", "x", "i  LIKE dogs", "y", " "]
    found = Repetition().compute([Conversation.from_texts(texts, id="c")])
    nan = np.nan
    turns = found.turns.loc["c"]
    expected = {
        "conversation_repetition_bot": [nan, 0, nan, -2, nan, -2, nan, 0],
        "utterance_repetition_bot": [nan, 0, nan, -1, nan, 0, nan, 0],
        "self_repetition_bot": [nan, nan, nan, 1, nan, 1, nan, nan],
        "repeated_turn_bot": [nan, nan, nan, 0, nan, 1, nan, nan],
        "word_similarity_bot_user": [nan, nan, 1 / 3, nan, 0, nan, 0, nan],
    }
    for column, values in expected.items():
        np.testing.assert_allclose(turns[column], values, err_msg=column)
    assert "said nothing before" in found.reasons["self_repetition_bot"]


def test_in_self_play_the_first_utterance_counts_as_said():
    talk = Conversation.from_texts(["dogs bark", "dogs bark", "cats"], id="c")
    turns = Repetition().compute([talk], self_play=True).turns.loc["c"]
    np.testing.assert_array_equal(turns["repeated_turn_bot"], [np.nan, 1, 0])
    np.testing.assert_array_equal(turns["conversation_repetition_bot"], [np.nan, -2, 0])


@pytest.mark.parametrize("self_play", [False, True])
def test_self_similarity_against_a_plain_loop(self_play):
    texts = ["Do you have a pet?", "I have a dog", "Nice", "", "So?", "My dog barks", "ok", "I have a dog"]
    shared = TextCache()
    found = SelfSimilarity().compute([Conversation.from_texts(texts, id="c")], self_play=self_play, shared=shared)
    vectors = shared.encode(texts)
    said = [i for i in (range(8) if self_play else (1, 3, 5, 7)) if texts[i]]
    expected = [np.nan] * 8
    for k, i in enumerate(said):
        if k:
            expected[i] = max(sum(float(a * b) for a, b in zip(vectors[i], vectors[j], strict=True)) for j in said[:k])
    column = found.turns.loc["c", "self_similarity_bot"]
    np.testing.assert_allclose(column, expected, atol=1e-5)
    assert column[7] == pytest.approx(1.0, abs=1e-5)
