"""Semantic distance (SS): the factor of dull replies by hand, distances by their formula, echoes."""

import math

import numpy as np
import pytest

from chatbots.encoders.sentence import MINILM
from evaluation.items import ReplyInContext
from evaluation.metrics.replies import NO_CONTEXT, item_scores
from evaluation.metrics.semantic_distance import SemanticDistance, dull_factor, dull_replies, words_beside_dull
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import save_classifier


class FakeShared(TextCache):
    """Vectors that a test can compute: counts of letters, of length 1."""

    def encode(self, texts, encoder=None):
        rows = np.array([[text.lower().count(letter) for letter in "abcdeo"] for text in texts], float)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("reply", "n", "m"),
    [
        ("i do n't know .", 1, 0),
        ("i do n't know what you mean !", 2, 0),
        ("i like red apples .", 3, 3),
        ("i do n't know where the red house stands", 4, 3),
        ("i 'm not saying apples , but red pears", 4, 3),
        ("i do n't know (really) [a+b]*", 3, 2),
    ],
)
def test_the_factor_counts_words_and_those_beside_dull_phrases(reply, n, m):
    # know, mean, like, apples … are words; i, do, n't, what, you … are none.
    expected = 1 + math.log10((2 + n) / (2 + m))
    assert dull_factor(reply.split(), dull_replies()) == pytest.approx(expected)


def test_the_example_of_the_paper_and_what_is_not_dull():
    assert dull_factor(["i", "do", "n't", "know", "."], dull_replies()) == pytest.approx(1.176, abs=5e-4)
    assert dull_factor(["red", "apples"], dull_replies()) == 1


def test_both_slots_count_and_of_several_patterns_the_one_that_leaves_least():
    patterns = ("i 'm not saying *", "i 'm not saying * , but *", "i 'm not saying * here")
    said = ["i", "'m", "not", "saying", "apples", ",", "but", "pears", "here"]
    assert words_beside_dull(said, patterns) == ["apples", "pears", "here"]
    assert words_beside_dull(said, ()) == said


def test_distances_are_those_of_the_formula():
    metric, shared = SemanticDistance(), FakeShared()
    replies = [ReplyInContext(("cab ace", "bad bead"), "bad dad"), ReplyInContext(("bad bead",), "Bad bead")]
    found = item_scores(metric, replies, shared)

    def cosine(one, other):
        a, b = shared.encode([one, other])
        return a @ b

    first = {name: values[0] for name, values in found.items()}
    assert first["semantic_distance_last_bot"] == pytest.approx(1 - cosine("bad dad", "bad bead"))
    assert first["semantic_distance_two_bot"] == pytest.approx(1 - cosine("bad dad", "cab ace bad bead"))
    assert first["semantic_distance_second_bot"] == pytest.approx(1 - cosine("bad dad", "cab ace"))
    assert first["semantic_distance_history_bot"] == first["semantic_distance_two_bot"]
    assert first["semantic_distance_echo_bot"] == 0.5
    second = {name: values[1] for name, values in found.items()}
    assert second["semantic_distance_last_bot"] == pytest.approx(0)
    assert np.isnan(second["semantic_distance_second_bot"])
    assert second["semantic_distance_echo_bot"] == 1


def test_a_reply_that_opens_a_conversation_has_no_distance():
    assert SemanticDistance().lacking(ReplyInContext((), "hello")) == NO_CONTEXT


def test_another_encoder_gives_the_distances_and_stands_in_the_identity(tmp_path):
    """The vectors are computed again by transformers: means of the last layer over the tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = save_classifier(tmp_path / "bert")
    metric = SemanticDistance("own", encoder=str(folder))
    assert metric.unavailable_reason() is None
    assert metric.licence == "that of the model that is chosen"
    said = ["hello how are you", "i am fine"]
    found = item_scores(metric, [ReplyInContext((said[0],), said[1])], TextCache())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        one, other = (
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy().mean(axis=0) for text in said
        )
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found["own_last_bot"][0] == pytest.approx(1 - cosine, abs=1e-5)
    usual = SemanticDistance("own")
    assert metric.identity.key != usual.identity.key
    assert usual.identity.key == SemanticDistance("own", encoder=MINILM).identity.key
    assert "no folder" in SemanticDistance(encoder=str(tmp_path / "none")).unavailable_reason()
