"""Lexical metrics: counts, cues, distinct n-grams and readability, by hand."""

from __future__ import annotations

import math

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
from evaluation.metrics.lexical import (
    Distinct,
    Length,
    Readability,
    WordCounts,
    counts,
    distinct,
    n_syllables,
    n_words,
    n_words_spoken,
    reading_ease,
    reading_grade,
)
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
        Turn(s, t) for s, t in [("human", "one two three"), ("bot", "a b"), ("human", ""), ("human", "x y z w")]
    )
    found = WordCounts().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(found.turns["words_user"], [np.nan, np.nan, 0, 4])
    assert found.conversations.loc["c", "words_user"] == 2
    assert found.conversations.loc["c", "words_bot"] == 2


@pytest.mark.parametrize(
    ("text", "words"), [("Well - I don't!", 3), ("...", 0), ("", 0), ("😀 yes", 1), ("a_b  c", 2), ("l'été, déjà", 2)]
)
def test_response_length_is_without_punctuation(text, words):
    assert n_words_spoken(text) == words


def test_characters_are_counted_on_both_sides():
    found = WordCounts().compute([Conversation.from_texts(["hi", "abc", "d  e"], id="c")]).turns.loc["c"]
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
    found = PhraseDetectors().compute([Conversation.from_texts(["hi", text], id="c")]).conversations.loc["c"]
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


def test_by_hand():
    # words: a b a | b a → 2 of 5; pairs: ab ba | ba → 2 of 3, none across the border
    assert distinct([["a", "b", "a"], ["b", "a"]]) == (2 / 5, 2 / 3)


@pytest.mark.parametrize("utterances", [[], [[]], [[], []]])
def test_without_a_word_it_is_undefined(utterances):
    assert all(math.isnan(share) for share in distinct(utterances))


def test_each_side_over_its_conversation():
    first = Conversation.from_texts(["hi hi", "Yes yes", "no no no", "YES"], id="a")
    second = Conversation.from_texts(["x", "😀"], id="b")
    found = Distinct().compute([first, second])
    assert found.conversations.loc["a"].tolist() == [1 / 3, 1.0, 1 / 3, 1 / 2]
    # One word has no pair; the participant of b has answered nothing.
    np.testing.assert_array_equal(found.conversations.loc["b"], [1, np.nan, np.nan, np.nan])
    assert "pair" in found.reasons["distinct_2_bot"]


BY_EAR = {
    1: "the be make makes hoped real great you see friend one asked used pleased tea sea free names loved",
    2: "table wanted people every boxes changes little puzzled science social being agree coffee movie "
    "something lonely careful diet quiet okay lion create question houses hundred before called_out",
    3: "creation idea beautiful family video radio area piano violin opinion vacation favourite animals",
    4: "interesting society reality experience",
    5: "university",
}


@pytest.mark.parametrize("n", BY_EAR)
def test_syllables(n):
    words = [word for word in BY_EAR[n].split() if "_" not in word]
    assert {word: n_syllables(word) for word in words} == dict.fromkeys(words, n)


def test_counts():
    assert counts("I like it. Do you?\nYes!!! ...") == (6, 3, 6)
    assert counts("No full stop at 3.5 pm") == (5, 1, 5)
    assert counts("😀 ... 42") == (0, 0, 0)


def test_formulas():
    # The example sentence of Kincaid's formula: 6 words, 1 sentence, 6 syllables.
    assert counts("The cat sat on the mat.") == (6, 1, 6)
    assert reading_ease(6, 1, 6) == pytest.approx(116.145)
    assert reading_grade(6, 1, 6) == pytest.approx(-1.45)
    assert math.isnan(reading_ease(0, 0, 0))
    assert math.isnan(reading_grade(0, 0, 0))


def test_columns():
    texts = ["Hi", "The cat sat on the mat.", "I like it. Do you?", "😀"]
    found = Readability().compute([Conversation.from_texts(texts, id="c")])
    turns = found.turns.loc["c"]
    np.testing.assert_allclose(turns["reading_ease_bot"], [np.nan, 116.145, np.nan, np.nan])
    grade = 0.39 * 5 / 2 + 11.8 * 5 / 5 - 15.59
    np.testing.assert_allclose(turns["reading_grade_user"], [np.nan, np.nan, grade, np.nan])
    assert "no word" in found.reasons["reading_ease_bot"]
