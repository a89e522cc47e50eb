"""Semantic similarity against the encoder asked directly."""

import numpy as np
import pytest

from chatbots import Conversation, Identity
from chatbots.encoders.sentence import sentence_encoder
from evaluation.metrics.semantic import InferSentSimilarity, SemanticSimilarity
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
