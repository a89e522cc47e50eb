"""What metrics share: nothing is computed twice of a text, within a run and, with a store, between runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chatbots.conversation import Conversation
from chatbots.encoders.cache import TextStore
from evaluation.hybrid.features import pooled_embeddings
from evaluation.metrics.run import compute_all
from evaluation.metrics.text_cache import TextCache

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


def test_a_second_run_and_a_fit_of_the_same_texts_encode_nothing(tmp_path: Path, encoded_texts: list[str]) -> None:
    metrics = ["semantic_similarity", "sentiment", "self_similarity"]
    store = TextStore(tmp_path / "texts.sqlite3")
    first = compute_all(TALK, metrics, shared=TextCache(store=store))
    assert sorted(encoded_texts) == sorted({text for talk in TALK for text in talk.texts})
    encoded_texts.clear()
    again = TextCache(store=TextStore(tmp_path / "texts.sqlite3"))
    second = compute_all(TALK, metrics, shared=again)
    embeddings = pooled_embeddings(TALK, shared=TextCache(store=store))
    assert encoded_texts == []
    for name, table in first.items():
        np.testing.assert_array_equal(table.turns.to_numpy(), second[name].turns.to_numpy())
    assert not embeddings.isna().any().any()
