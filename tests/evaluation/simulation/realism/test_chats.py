"""Quantities of turns on texts made by hand."""

import math

import numpy as np
import pytest

from chatbots import Conversation, Turn
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from evaluation.simulation.realism.chats import (
    QUANTITIES,
    ChatTurns,
    has_emoji,
    is_lower_case,
    is_unpunctuated,
    text_key,
    unknown_share,
)
from evaluation.simulation.realism.result import TRAITS
from tests.evaluation.simulation.realism.made import chat, read

TALK = chat(
    "c1",
    "a",
    "Hello there.",
    "Do you like jazz music?",
    "yes i love jazz",
    "Great. Which band?",
    "What do you mean?",
    "A band is a group.",
    "Thanks, I love jazz bands :-)",
    "Bye.",
)


def test_every_trait_has_a_quantity() -> None:
    assert {trait for trait, _title in QUANTITIES.values()} | {"leaving"} == set(TRAITS)


def test_turns_are_the_answers_to_the_bot_with_its_turn_before() -> None:
    text = read(TALK)
    assert text.texts == ["yes i love jazz", "What do you mean?", "Thanks, I love jazz bands :-)"]
    assert text.before == ["Do you like jazz music?", "Great. Which band?", "A band is a group."]
    assert text.turn.tolist() == [2, 4, 6]
    assert text.log_turns == pytest.approx([math.log(4)])  # the opening is a turn, too


def test_quantities_by_hand() -> None:
    values = read(TALK).values
    assert values["log_words"] == pytest.approx(np.log([5, 5, 7]))
    assert values["question_mark"].tolist() == [0, 1, 0]
    assert values["appreciation"].tolist() == [0, 0, 1]
    assert values["confusion"].tolist() == [0, 1, 0]
    assert values["negation"].tolist() == [0, 0, 0]
    assert values["lower_case"].tolist() == [1, 0, 0]
    assert values["unpunctuated"].tolist() == [1, 0, 1]
    assert values["emoji"].tolist() == [0, 0, 1]
    # Content words: {yes, love, jazz}, {what, mean}, {thanks, love, jazz, bands}.
    assert values["self_repetition"] == pytest.approx([np.nan, 0, 0.5], nan_ok=True)
    assert values["overlap"] == pytest.approx([1 / 3, 0, 0])
    both = read(TALK, chat("c2", "b", "Hello."))
    assert both.means("self_repetition") == pytest.approx([0.25, np.nan], nan_ok=True)
    assert both.means("log_turns") == pytest.approx([math.log(4), 0])


def test_quantities_that_metrics_have_too_are_theirs() -> None:
    shared = TextCache()
    result = ChatTurns.from_chats([TALK], shared)
    table = metric_get("reactions").compute([TALK[1]], shared=shared).turns
    for name in ("log_words", "question_mark", "appreciation", "confusion", "negation", "sentiment", "overlap"):
        of_metric = table[f"reaction_{name}_user"].to_numpy()[result.turn]
        assert result.values[name] == pytest.approx(of_metric, nan_ok=True), name


def test_sentiment_change_and_closest_own_turn_are_of_the_turns_before() -> None:
    text = read(TALK)
    sentiment, vectors = text.values["sentiment"], text.vectors
    assert text.values["sentiment_change"][1:] == pytest.approx(np.diff(sentiment))
    assert np.isnan(text.values["sentiment_change"][0])
    by_hand = [np.nan, vectors[1] @ vectors[0], max(vectors[2] @ vectors[0], vectors[2] @ vectors[1])]
    assert text.values["self_similarity"] == pytest.approx(by_hand, nan_ok=True)
    with_bot = [float(a @ b) for a, b in zip(vectors, text.before_vectors, strict=True)]
    assert text.values["similarity"] == pytest.approx(with_bot, abs=1e-6)


def test_neighbouring_turns_of_a_speaker_are_one() -> None:
    turns = (Turn("bot", "Hi"), Turn("human", "one"), Turn("human", "two"), Turn("bot", "ok"), Turn("human", " "))
    assert read(("a", Conversation("c", turns))).texts == ["one two"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i like cats", 0),
        ("i lkie cats", 1 / 3),
        ("I met Xqzly there", 0),  # a name
        ("XQZLY", 1),
        ("don't you’re", 0),
        ("123 !", float("nan")),
    ],
)
def test_share_of_unknown_words(text: str, expected: float) -> None:
    assert unknown_share(text) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ok :)", True), ("ok 😀", True), ("<3", True), ("see 10:30", False), ("a:b", False), ("http://x.org", False)],
)
def test_emoji_and_emoticons(text: str, expected: bool) -> None:
    assert has_emoji(text) is expected


def test_surface() -> None:
    assert is_lower_case("hello you")
    assert not is_lower_case("Hello")
    assert not is_lower_case("12")
    assert is_unpunctuated("hello")
    assert not is_unpunctuated("he said “no.” ")
    assert text_key(" Hi  THERE ") == text_key("hi there")
