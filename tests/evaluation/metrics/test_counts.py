"""Laughter, question score, words and length on examples worked out by hand."""

import numpy as np
import pytest

from chatbots import Conversation
from chatbots.conversation import Turn
from evaluation.metrics.cues import (
    PHRASES,
    PhraseDetectors,
    QuestionScore,
    has_phrase,
    laughs,
    laughs_substring,
    question_score,
)
from evaluation.metrics.lexical import Length, WordCounts, n_words, n_words_spoken
from evaluation.metrics.reactions import Votes


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
    table = QuestionScore().compute([Conversation.from_texts(["hi", text], id="c")])
    assert table.turns.loc[("c", 1), "question_bot"] == score


def Question_tokens(text):
    """Return the words of these simple texts, without the tokenizer."""
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
    found = WordCounts().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(found.turns["words_user"], [np.nan, np.nan, 0, 4])
    assert found.conversations.loc["c", "words_user"] == 2
    assert found.conversations.loc["c", "words_bot"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [("Well - I don't!", 3), ("...", 0), ("", 0), ("😀 yes", 1), ("a_b  c", 2), ("l'été, déjà", 2)],
)
def test_response_length_is_without_punctuation(text, words):
    assert n_words_spoken(text) == words


def test_characters_are_counted_on_both_sides():
    found = (
        WordCounts()
        .compute([Conversation.from_texts(["hi", "abc", "d  e"], id="c")])
        .turns.loc["c"]
    )
    np.testing.assert_array_equal(found["characters_bot"], [np.nan, 3, np.nan])
    np.testing.assert_array_equal(found["characters_user"], [np.nan, np.nan, 4])


def test_votes_stand_at_the_bots_turns_and_nowhere_in_self_play():
    turns = (Turn("human", "a"), Turn("bot", "b", 1), Turn("bot", "c", -1), Turn("bot", "d"))
    found = Votes().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(found.turns["vote_bot"], [np.nan, 1, -1, 0])
    assert found.conversations.loc["c", "vote_bot"] == 0
    alone = Votes().compute([Conversation("c", turns)], self_play=True)
    assert alone.turns["vote_bot"].isna().all()
    assert "has no votes" in alone.reasons["vote_bot"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Thank  you, that’s a GREAT idea", {"politeness", "compliment", "you"}),
        ("Don’t worry!", {"support"}),
        ("yay", {"cheer"}),
        ("Yayoi is displeased with youth", set()),  # letters inside other words
        ("", set()),
        ("🎉", set()),
    ],
)
def test_phrases_are_whole_words(text, kinds):
    assert {kind for kind in (*PHRASES, "you") if has_phrase(kind, text)} == kinds
    found = (
        PhraseDetectors()
        .compute([Conversation.from_texts(["hi", text], id="c")])
        .conversations.loc["c"]
    )
    assert {kind for kind in (*PHRASES, "you") if found[f"{kind}_bot"] == 1} == kinds


def test_every_listed_phrase_is_found_in_a_sentence():
    for kind, phrases in PHRASES.items():
        for phrase in phrases:
            assert has_phrase(kind, f"Oh, {phrase.capitalize()}!"), phrase


def test_length_counts_a_run_once():
    turns = tuple(Turn(s, "x") for s in ("human", "human", "bot", "bot", "human", "bot"))
    found = Length().compute([Conversation("c", turns), Conversation("d")])
    assert found.conversations.loc["c"].tolist() == [6, 2]
    assert found.conversations.loc["d"].tolist() == [0, 0]
    assert list(found.turns.columns) == []
    assert len(found.turns) == 6
