"""Turns and pairs that suffixes mean, lexical metrics and repetition, worked out by hand."""

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
from evaluation.metrics.layout import Layout
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
from evaluation.metrics.repetition import Repetition, SelfSimilarity, utterance_repetition, word_similarity
from evaluation.metrics.text_cache import TextCache, content_words


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
    result = WordCounts().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(result.turns["words_user"], [np.nan, np.nan, 0, 4])
    assert result.conversations.loc["c", "words_user"] == 2
    assert result.conversations.loc["c", "words_bot"] == 2


@pytest.mark.parametrize(
    ("text", "words"), [("Well - I don't!", 3), ("...", 0), ("", 0), ("😀 yes", 1), ("a_b  c", 2), ("l'été, déjà", 2)]
)
def test_response_length_is_without_punctuation(text, words):
    assert n_words_spoken(text) == words


def test_characters_are_counted_on_both_sides():
    result = WordCounts().compute([Conversation.from_texts(["hi", "abc", "d  e"], id="c")]).turns.loc["c"]
    np.testing.assert_array_equal(result["characters_bot"], [np.nan, 3, np.nan])
    np.testing.assert_array_equal(result["characters_user"], [np.nan, np.nan, 4])


def test_votes_stand_at_the_bots_turns_and_nowhere_in_self_play():
    turns = (Turn("human", "a"), Turn("bot", "b", 1), Turn("bot", "c", -1), Turn("bot", "d"))
    result = Votes().compute([Conversation("c", turns)])
    np.testing.assert_array_equal(result.turns["vote_bot"], [np.nan, 1, -1, 0])
    assert result.conversations.loc["c", "vote_bot"] == 0
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
    result = PhraseDetectors().compute([Conversation.from_texts(["hi", text], id="c")]).conversations.loc["c"]
    assert {kind for kind in (*PHRASES, "you") if result[f"{kind}_bot"] == 1} == kinds


def test_every_listed_phrase_is_found_in_a_sentence():
    for kind, phrases in PHRASES.items():
        for phrase in phrases:
            assert has_phrase(kind, f"Oh, {phrase.capitalize()}!"), phrase


def test_length_counts_a_run_once():
    turns = tuple(Turn(s, "x") for s in ("human", "human", "bot", "bot", "human", "bot"))
    result = Length().compute([Conversation("c", turns), Conversation("d")])
    assert result.conversations.loc["c"].tolist() == [6, 2]
    assert result.conversations.loc["d"].tolist() == [0, 0]
    assert list(result.turns.columns) == []
    assert len(result.turns) == 6


def test_by_hand():
    # words: a b a | b a → 2 of 5; pairs: ab ba | ba → 2 of 3, none across the border
    assert distinct([["a", "b", "a"], ["b", "a"]]) == (2 / 5, 2 / 3)


@pytest.mark.parametrize("utterances", [[], [[]], [[], []]])
def test_without_a_word_it_is_undefined(utterances):
    assert all(math.isnan(share) for share in distinct(utterances))


def test_each_side_over_its_conversation():
    first = Conversation.from_texts(["hi hi", "Yes yes", "no no no", "YES"], id="a")
    second = Conversation.from_texts(["x", "😀"], id="b")
    result = Distinct().compute([first, second])
    assert result.conversations.loc["a"].tolist() == [1 / 3, 1.0, 1 / 3, 1 / 2]
    # One word has no pair; the participant of b has answered nothing.
    np.testing.assert_array_equal(result.conversations.loc["b"], [1, np.nan, np.nan, np.nan])
    assert "pair" in result.reasons["distinct_2_bot"]


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
    result = Readability().compute([Conversation.from_texts(texts, id="c")])
    turns = result.turns.loc["c"]
    np.testing.assert_allclose(turns["reading_ease_bot"], [np.nan, 116.145, np.nan, np.nan])
    grade = 0.39 * 5 / 2 + 11.8 * 5 / 5 - 15.59
    np.testing.assert_allclose(turns["reading_grade_user"], [np.nan, np.nan, grade, np.nan])
    assert "no word" in result.reasons["reading_ease_bot"]


def speaking(pattern: str, id: str = "c") -> Conversation:
    """Make a conversation from a pattern such as "hbbh": who speaks, turn by turn."""
    names = {"h": "human", "b": "bot"}
    return Conversation(id, tuple(Turn(names[s], f"{s}{i}") for i, s in enumerate(pattern)))


@pytest.mark.parametrize(
    ("pattern", "bot", "user", "exchanges", "transitions"),
    [
        # q1 r1 q2 r2 q3: the first message answers nothing, the last has no reply
        ("hbhbh", [1, 3], [2, 4], [(0, 1), (2, 3)], [(0, 2), (2, 4)]),
        # the bot opens: every message answers it
        ("bhbh", [0, 2], [1, 3], [(1, 2)], [(1, 3)]),
        # runs: a pair takes the last turn of each
        ("hhbbhh", [2, 3], [4, 5], [(1, 3)], [(1, 5)]),
        ("bbhhb", [0, 1, 4], [2, 3], [(3, 4)], []),
        ("hhh", [], [], [], []),
        ("b", [0], [], [], []),
        ("", [], [], [], []),
    ],
)
def test_suffixes_of_human_bot_conversations(pattern, bot, user, exchanges, transitions):
    layout = Layout.of([speaking(pattern)])
    assert layout.bot.tolist() == bot
    assert layout.user.tolist() == user
    assert [tuple(pair) for pair in layout.exchanges.tolist()] == exchanges
    assert [tuple(pair) for pair in layout.transitions.tolist()] == transitions


@pytest.mark.parametrize(
    ("pattern", "answers"),
    [
        ("hbhbh", [(1, 2), (3, 4)]),
        ("bhbh", [(0, 1), (2, 3)]),
        ("hhbbhh", [(3, 5)]),  # of a run the last turn
        ("hb", []),
        ("", []),
    ],
)
def test_answers_pair_the_bots_turn_with_what_follows_it(pattern, answers):
    layout = Layout.of([speaking(pattern)])
    assert [tuple(pair) for pair in layout.answers.tolist()] == answers
    assert layout.said.tolist() == layout.bot.tolist()


def test_self_play_takes_every_following_utterance():
    layout = Layout.of([speaking("hbhb"), speaking("h", "d")], self_play=True)
    assert layout.bot.tolist() == layout.user.tolist() == [1, 2, 3]
    steps = [[0, 1], [1, 2], [2, 3]]
    assert layout.exchanges.tolist() == layout.transitions.tolist() == steps
    assert layout.answers.tolist() == steps
    assert layout.said.tolist() == [0, 1, 2, 3, 4]


def test_two_conversations_of_one_id_are_refused():
    with pytest.raises(ValueError, match="'c'"):
        Layout.of([speaking("hb"), speaking("bh")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don’t like the dogs' food!", ["like", "dogs", "food"]),
        ("what is it, who's there?", ["what", "who"]),  # question words stay
        ("We can't; she'd rather cook", ["rather", "cook"]),
        ("do n't stop <unk> now", ["stop", "<unk>", "now"]),
        ("-- ... 😀", []),
        ("dog dog", ["dog", "dog"]),
        ("", []),
    ],
)
def test_content_words(text, words):
    assert content_words(text) == words


def test_utterance_repetition_counts_the_words_that_repeat_another():
    assert utterance_repetition("a b a a") == -2
    assert utterance_repetition("") == 0


def test_word_similarity():
    # content: cats, love, dogs, what, <unk>; taken up: dogs, love (what and <unk> never count); 7 tokens
    text, answer = "what cats love dogs and the <unk>", "I love dogs . what <unk>"
    assert word_similarity(text, answer) == pytest.approx(2 / 7)
    assert word_similarity("dog dog", "dog") == 1 / 2
    assert math.isnan(word_similarity(" ", "dog"))


def test_columns_by_hand():
    texts = ["hi", "I like dogs", "dogs are nice", "dogs like dogs", "x", "i  LIKE dogs", "y", " "]
    result = Repetition().compute([Conversation.from_texts(texts, id="c")])
    nan = np.nan
    turns = result.turns.loc["c"]
    expected = {
        "conversation_repetition_bot": [nan, 0, nan, -2, nan, -2, nan, 0],
        "utterance_repetition_bot": [nan, 0, nan, -1, nan, 0, nan, 0],
        "self_repetition_bot": [nan, nan, nan, 1, nan, 1, nan, nan],
        "repeated_turn_bot": [nan, nan, nan, 0, nan, 1, nan, nan],
        "word_similarity_bot_user": [nan, nan, 1 / 3, nan, 0, nan, 0, nan],
    }
    for column, values in expected.items():
        np.testing.assert_allclose(turns[column], values, err_msg=column)
    assert "no earlier turn" in result.reasons["self_repetition_bot"]


def test_in_self_play_the_first_utterance_counts_as_said():
    talk = Conversation.from_texts(["dogs bark", "dogs bark", "cats"], id="c")
    turns = Repetition().compute([talk], self_play=True).turns.loc["c"]
    np.testing.assert_array_equal(turns["repeated_turn_bot"], [np.nan, 1, 0])
    np.testing.assert_array_equal(turns["conversation_repetition_bot"], [np.nan, -2, 0])


@pytest.mark.parametrize("self_play", [False, True])
def test_self_similarity_against_a_plain_loop(self_play):
    texts = ["Do you have a pet?", "I have a dog", "Nice", "", "So?", "My dog barks", "ok", "I have a dog"]
    shared = TextCache()
    result = SelfSimilarity().compute([Conversation.from_texts(texts, id="c")], self_play=self_play, shared=shared)
    vectors = shared.encode(texts)
    said = [i for i in (range(8) if self_play else (1, 3, 5, 7)) if texts[i]]
    expected = [np.nan] * 8
    for k, i in enumerate(said):
        if k:
            expected[i] = max(sum(float(a * b) for a, b in zip(vectors[i], vectors[j], strict=True)) for j in said[:k])
    column = result.turns.loc["c", "self_similarity_bot"]
    np.testing.assert_allclose(column, expected, atol=1e-5)
    assert column[7] == pytest.approx(1.0, abs=1e-5)
