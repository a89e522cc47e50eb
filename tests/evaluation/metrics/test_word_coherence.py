"""Word coherence of real texts; its formulas are tested in `tests/chatbots/encoders/test_word_similarity.py`."""

import numpy as np
import pytest

from chatbots import Conversation
from evaluation.metrics.semantic import FileWordCoherence, WordCoherence


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


@pytest.mark.parametrize("kind", ["average", "extrema", "greedy", "greedy_ref"])
def test_columns_are_named_by_kind(kind):
    assert f"word_coherence_{kind}_user_bot" in {c.name for c in WordCoherence.columns}


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
