"""Laughter, question score, words and length on examples worked out by hand."""

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from evaluation.metrics.laughter import laughs, laughs_substring
from evaluation.metrics.length import Length
from evaluation.metrics.question import Question, question_score
from evaluation.metrics.words import Words, n_words


@pytest.mark.parametrize(
    ("text", "words", "letters"),
    [
        ("haha", 1, 2),
        ("Ha! HAHAHA, hah", 3, 1),
        ("that is what I have", 0, 3),
        ("ahahah", 1, 2),
        ("hahaha ha", 2, 4),
        ("", 0, 0),
        ("😂", 0, 0),
    ],
)
def test_laughter(text, words, letters):
    assert laughs(text) == words
    assert laughs_substring(text) == letters


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("How are you?", 1.0),
        ("You like it?", 0.5),
        ("I know what you mean.", 0.5),
        ("Somehow I knew", 0.0),  # a question word inside another is none
        ("which one", 0.0),
        ("WHY", 0.5),
        ("", 0.0),
    ],
)
def test_question_score(text, score):
    assert question_score(text, Question_tokens(text)) == score
    table = Question().compute([Conversation.from_texts(["hi", text], id="c")])
    assert table.turns.loc[("c", 1), "question_bot"] == score


def Question_tokens(text):
    """The words of these simple texts, without the tokenizer."""
    return text.lower().replace("?", " ?").replace(".", " .").split()


def test_words_skip_the_first_message_and_keep_zero_apart_from_undefined():
    assert n_words("two  words ") == 2
    turns = tuple(
        Turn(s, t)
        for s, t in [
            ("human", "one two three"),
            ("bot", "a b"),
            ("human", ""),
            ("human", "x y z w"),
        ]
    )
    found = Words().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(found.turns["words_user"], [np.nan, np.nan, 0, 4])
    assert found.conversations.loc["c", "words_user"] == 2
    assert found.conversations.loc["c", "words_bot"] == 2


def test_length_counts_a_run_once():
    turns = tuple(Turn(s, "x") for s in ("human", "human", "bot", "bot", "human", "bot"))
    found = Length().compute([Conversation("c", turns), Conversation("d")])
    assert found.conversations.loc["c"].tolist() == [6, 2]
    assert found.conversations.loc["d"].tolist() == [0, 0]
    assert list(found.turns.columns) == []
    assert len(found.turns) == 6
