"""Pooled embeddings: whose turns, and what is undefined."""

from __future__ import annotations

import numpy as np

from chatbots import Conversation
from evaluation.hybrid.features import block_of, pooled_embeddings, shown_names


class ByLength:
    """Stands for the texts of a run: the vector of a text is its length and 1."""

    def encode(self, texts):
        return np.array([[len(text), 1.0] for text in texts]).reshape(-1, 2)


def test_a_participants_answers_and_a_bots_turns_are_averaged():
    talk = [
        Conversation.from_texts(["opener", "ab", "abcd", "abc", "abcdef"], id="1"),
        Conversation.from_texts(["hello", "a"], id="2"),
    ]
    table = pooled_embeddings(talk, shared=ByLength()).set_index("conversation")
    assert table.loc["1", "embedding_user_000"] == 5.0  # what answers nothing is left out
    assert table.loc["1", "embedding_bot_000"] == 2.5
    assert np.isnan(table.loc["2", "embedding_user_000"])
    assert table.loc["2", "embedding_bot_000"] == 1.0


def test_in_self_play_both_describe_the_next_utterances():
    talk = [Conversation.from_texts(["opener", "ab", "abcd"], id="1")]
    table = pooled_embeddings(talk, self_play=True, shared=ByLength())
    assert table["embedding_user_000"].tolist() == [3.0]
    assert table["embedding_bot_000"].tolist() == [3.0]


def test_no_conversation_gives_the_columns_all_the_same():
    table = pooled_embeddings([], shared=ByLength(), blocks=["embedding_user"])
    assert list(table.columns) == ["conversation", "embedding_user_000", "embedding_user_001"]
    assert not len(table)


def test_a_block_is_named_once():
    names = ["words_user", "embedding_user_000", "embedding_user_001", "embedding_bot_000"]
    assert shown_names(names) == ["words_user", "embedding_user", "embedding_bot"]
    assert block_of("embedding_user_383") == "embedding_user"
    assert block_of("words_user") is None
