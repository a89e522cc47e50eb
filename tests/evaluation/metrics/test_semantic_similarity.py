"""Semantic similarity against the encoder asked directly."""

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.encoders.sentence import sentence_encoder
from evaluation.metrics.semantic_similarity import SemanticSimilarity

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
