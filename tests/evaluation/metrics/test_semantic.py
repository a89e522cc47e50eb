"""Similarity of sentences, coherence and semantic distance; and many metrics, for which each text is encoded once."""

import math
from pathlib import Path

import numpy as np
import pytest

from chatbots import Conversation, Identity
from chatbots.encoders.cache import TextStore
from chatbots.encoders.sentence import MINILM, sentence_encoder
from chatbots.registry import UnknownName
from evaluation.data.items import ReplyInContext
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.registry import MetricUnavailable, compute_all, compute_batches
from evaluation.metrics.replies import NO_CONTEXT, item_scores
from evaluation.metrics.semantic import FileWordCoherence, InferSentSimilarity, SemanticSimilarity, WordCoherence
from evaluation.metrics.semantic_distance import SemanticDistance, dull_factor, dull_replies, words_beside_dull
from evaluation.metrics.text_cache import TextCache
from tests.tiny_models import save_classifier

COLUMN = "semantic_similarity_user_bot"


def test_is_the_cosine_of_the_encoders_vectors():
    texts = ["I have a cat", "Cats are lovely animals", "Yes", "What is its name?"]
    result = SemanticSimilarity().compute([Conversation.from_texts(texts, id="c")])
    vectors = np.concatenate([sentence_encoder().encode([text]) for text in texts])
    expected = [vectors[0] @ vectors[1], vectors[2] @ vectors[3]]
    np.testing.assert_allclose(result.turns[COLUMN].dropna(), expected, atol=1e-5)
    assert result.conversations.loc["c", COLUMN] == pytest.approx(np.mean(expected), abs=1e-5)


def test_a_blank_side_is_undefined_and_the_other_pair_is_not():
    result = SemanticSimilarity().compute([Conversation.from_texts(["hi", " ", "so", "so"], id="c")])
    assert np.isnan(result.turns.loc[("c", 1), COLUMN])
    assert result.turns.loc[("c", 3), COLUMN] == pytest.approx(1.0, abs=1e-5)
    assert "blank" in result.reasons[COLUMN]


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
    result = metric.compute([talk], shared=shared).turns.loc["c"]
    np.testing.assert_allclose(result["infersent_user_bot"].dropna(), [np.cos(2)] * 2)
    np.testing.assert_allclose(result["infersent_bot_user"].dropna(), [1])
    assert sorted(encoder.asked) == ["a", "bbb"]


def test_real_vectors_find_the_related_reply():
    related = Conversation.from_texts(["My dog ran away", "Cats and dogs often do"], id="a")
    other = Conversation.from_texts(["My dog ran away", "The tax office opens Monday"], id="b")
    result = WordCoherence().compute([related, other]).conversations
    for column in result.columns:
        assert result.loc["a", column] > result.loc["b", column], column


def test_without_a_known_word_it_is_undefined():
    result = WordCoherence().compute([Conversation.from_texts(["hello", "😀 😀"], id="a")])
    assert result.turns.isna().all().all()
    assert "vector" in result.reasons["word_coherence_average_user_bot"]


def test_published_vectors_are_read_from_their_file(tmp_path):
    file = tmp_path / "tiny.vec"
    file.write_text("3 2\ncat 1 0\ndog 1 1\nCat 0 1\n")
    metric = FileWordCoherence(path=str(file), rows=2)
    assert metric.unavailable_reason() is None
    talk = [Conversation.from_texts(["cat Cat", "dog"], id="a")]
    result = metric.compute(talk).conversations.loc["a"]
    # Of two rows "Cat" is none, and case is kept: cos((1, 0), (1, 1)).
    np.testing.assert_allclose(result.to_numpy(), 1 / np.sqrt(2), atol=1e-6)
    missing = FileWordCoherence(path=str(tmp_path / "none.bin"))
    assert "none.bin" in missing.unavailable_reason()
    assert missing.identity.key != metric.identity.key


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
    result = item_scores(metric, replies, shared)

    def cosine(one, other):
        a, b = shared.encode([one, other])
        return a @ b

    first = {name: values[0] for name, values in result.items()}
    assert first["semantic_distance_last_bot"] == pytest.approx(1 - cosine("bad dad", "bad bead"))
    assert first["semantic_distance_two_bot"] == pytest.approx(1 - cosine("bad dad", "cab ace bad bead"))
    assert first["semantic_distance_second_bot"] == pytest.approx(1 - cosine("bad dad", "cab ace"))
    assert first["semantic_distance_history_bot"] == first["semantic_distance_two_bot"]
    assert first["semantic_distance_echo_bot"] == 0.5
    second = {name: values[1] for name, values in result.items()}
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
    assert metric.licence == "that of the chosen model"
    texts = ["hello how are you", "i am fine"]
    result = item_scores(metric, [ReplyInContext((texts[0],), texts[1])], TextCache())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        one, other = (
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy().mean(axis=0) for text in texts
        )
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert result["own_last_bot"][0] == pytest.approx(1 - cosine, abs=1e-5)
    usual = SemanticDistance("own")
    assert metric.identity.key != usual.identity.key
    assert usual.identity.key == SemanticDistance("own", encoder=MINILM).identity.key
    assert "no folder" in SemanticDistance(encoder=str(tmp_path / "none")).unavailable_reason()


def conversations(n=7):
    rng = np.random.default_rng(1)
    words = ["cat", "dog", "love", "hate", "what", "haha", "music", "rain", "good", "bad"]
    return [
        Conversation.from_texts([" ".join(rng.choice(words, size=rng.integers(1, 6))) for _ in range(6)], id=f"c{i}")
        for i in range(n)
    ]


def test_no_text_is_encoded_twice_in_a_run(encoded_texts):
    class Again(SemanticSimilarity):
        """The same metric under another name: it needs the same vectors."""

        name = "again"

    shared = TextCache()
    result = conversations()
    list(compute_batches(result, [SemanticSimilarity(), Again()], batch=2, shared=shared))
    assert sorted(encoded_texts) == sorted({text for c in result for text in c.texts})


def test_unknown_and_unavailable_metrics_are_refused_before_anything_runs():
    with pytest.raises(UnknownName, match="words"):
        compute_all(conversations(1), ["wordz"])

    class Absent(MetricDefaults):
        name = "absent"

        def unavailable_reason(self):
            return "its weights are not here"

    with pytest.raises(MetricUnavailable, match="absent cannot be computed: its weights"):
        compute_all(conversations(1), [Absent()])


def test_infinite_values_become_undefined_with_a_reason():
    from evaluation.data.tables import per_turn

    class Broken(MetricDefaults):
        name = "broken"
        columns = per_turn("broken_bot", "Broken", unit="1", range=(None, None), direction="neither", description="x")

        def measure(self, layout, shared):
            return Measured({"broken_bot": layout.spread(layout.bot, [np.inf, 2.0])})

    table = Broken().compute([Conversation.from_texts(["a", "b", "c", "d"], id="c")])
    assert np.isnan(table.turns.loc[("c", 1), "broken_bot"])
    assert table.conversations.loc["c", "broken_bot"] == 2.0
    assert "finite" in table.reasons["broken_bot"]


TALK = [
    Conversation.from_texts(["Hello.", "Hi, how are you?", "I am sad.", "Why is that?"], id="1"),
    Conversation.from_texts(["Hello.", "What a day!", "It was, and I am glad.", "Good."], id="2"),
]


def test_a_metric_of_ones_own_computes_each_text_once() -> None:
    shared, asked = TextCache(), []

    def lengths(texts: list[str]) -> list[int]:
        asked.append(texts)
        return [len(text) for text in texts]

    assert shared.once("my length", ["a", "bb", "a"], lengths) == [1, 2, 1]
    assert shared.once("my length", ["ccc", "bb"], lengths) == [3, 2]
    assert shared.once("another", [("a", "b")], lambda pairs: [len(pairs[0])]) == [2]
    assert asked == [["a", "bb"], ["ccc"]]


def test_what_is_remembered_is_bounded() -> None:
    shared, asked = TextCache(most_texts=3), []

    def one(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return texts

    for texts in (["a", "b"], ["c", "d"], ["d", "a"]):
        assert shared.once("same", texts, one) == texts
    assert asked == ["a", "b", "c", "d", "a"]


def test_a_second_run_of_the_same_texts_encodes_nothing(tmp_path: Path, encoded_texts: list[str]) -> None:
    metrics = ["semantic_similarity", "sentiment", "self_similarity"]
    store = TextStore(tmp_path / "texts.sqlite3")
    first = compute_all(TALK, metrics, shared=TextCache(store=store))
    assert sorted(encoded_texts) == sorted({text for talk in TALK for text in talk.texts})
    encoded_texts.clear()
    again = TextCache(store=TextStore(tmp_path / "texts.sqlite3"))
    second = compute_all(TALK, metrics, shared=again)
    assert encoded_texts == []
    for name, table in first.items():
        np.testing.assert_array_equal(table.turns.to_numpy(), second[name].turns.to_numpy())
