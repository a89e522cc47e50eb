"""Semantic metrics: similarity of sentences and coherence of words."""

from __future__ import annotations

import numpy as np
import pytest

from chatbots import Conversation, Identity
from chatbots.encoders.sentence import sentence_encoder
from evaluation.metrics.semantic import FileWordCoherence, InferSentSimilarity, SemanticSimilarity, WordCoherence
from evaluation.metrics.text_cache import TextCache

COLUMN = "semantic_similarity_user_bot"


def test_is_the_cosine_of_the_encoders_vectors():
    texts = ["I have a cat", "Cats are lovely animals", "Yes", "What is its name?"]
    found = SemanticSimilarity().compute([Conversation.from_texts(texts, id="c")])
    vectors = np.concatenate([sentence_encoder().encode([text]) for text in texts])
    expected = [vectors[0] @ vectors[1], vectors[2] @ vectors[3]]
    np.testing.assert_allclose(found.turns[COLUMN].dropna(), expected, atol=1e-5)
    assert found.conversations.loc["c", COLUMN] == pytest.approx(np.mean(expected), abs=1e-5)


def test_a_blank_side_is_undefined_and_the_other_pair_is_not():
    found = SemanticSimilarity().compute([Conversation.from_texts(["hi", " ", "so", "so"], id="c")])
    assert np.isnan(found.turns.loc[("c", 1), COLUMN])
    assert found.turns.loc[("c", 3), COLUMN] == pytest.approx(1.0, abs=1e-5)
    assert "blank" in found.reasons[COLUMN]


class Turned:
    """Vectors by the length of a text, of length 1."""

    identity = Identity("turned", "1")

    def __init__(self):
        self.asked = []

    def unavailable_reason(self):
        return None

    def encode(self, texts):
        self.asked.extend(texts)
        return np.array([[np.cos(len(t)), np.sin(len(t))] for t in texts]).reshape(-1, 2)


def test_another_encoder_has_columns_of_its_own_and_sees_a_text_once():
    encoder, shared = Turned(), TextCache()
    metric = InferSentSimilarity(encoder=encoder)
    talk = Conversation.from_texts(["a", "bbb", "bbb", "a"], id="c")
    found = metric.compute([talk], shared=shared).turns.loc["c"]
    np.testing.assert_allclose(found["infersent_user_bot"].dropna(), [np.cos(2)] * 2)
    np.testing.assert_allclose(found["infersent_bot_user"].dropna(), [1])
    assert sorted(encoder.asked) == ["a", "bbb"]


def test_real_vectors_find_the_related_reply():
    related = Conversation.from_texts(["My dog ran away", "Cats and dogs often do"], id="a")
    other = Conversation.from_texts(["My dog ran away", "The tax office opens Monday"], id="b")
    found = WordCoherence().compute([related, other]).conversations
    for column in found.columns:
        assert found.loc["a", column] > found.loc["b", column], column


def test_without_a_known_word_it_is_undefined():
    found = WordCoherence().compute([Conversation.from_texts(["hello", "😀 😀"], id="a")])
    assert found.turns.isna().all().all()
    assert "vector" in found.reasons["word_coherence_average_user_bot"]


def test_equal_texts_cohere_fully():
    found = WordCoherence().compute([Conversation.from_texts(["I like tea"] * 2, id="a")])
    np.testing.assert_allclose(found.conversations.to_numpy(), 1.0, atol=1e-6)


def test_published_vectors_are_read_from_their_file(tmp_path):
    file = tmp_path / "tiny.vec"
    file.write_text("3 2\ncat 1 0\ndog 1 1\nCat 0 1\n")
    metric = FileWordCoherence(path=str(file), rows=2)
    assert metric.unavailable_reason() is None
    talk = [Conversation.from_texts(["cat Cat", "dog"], id="a")]
    found = metric.compute(talk).conversations.loc["a"]
    # Of two rows "Cat" is none, and case is kept: cos((1, 0), (1, 1)).
    np.testing.assert_allclose(found.to_numpy(), 1 / np.sqrt(2), atol=1e-6)
    missing = FileWordCoherence(path=str(tmp_path / "none.bin"))
    assert "none.bin" in missing.unavailable_reason()
    assert missing.identity.key != metric.identity.key
