"""Tokenisers: cleaning, other scripts, emoji, and text that reads well again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatbots.corpora.vocabulary import (
    SPECIAL_TOKENS,
    TOKENISERS,
    detokenise,
    tokenise,
    tokeniser_get,
)
from chatbots.generation.streamed_text import GrowingText
from chatbots.registry import UnknownName

paper = tokeniser_get("paper-2019")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know...", "i do n't know ..."),
        ("It's Ann's, they've left!?", "it 's ann 's , they 've left ! ?"),
        ("DON'T we'll I'd you're I'm", "do n't we 'll i 'd you 're i 'm"),
        ("  Two\n blanks.\tEnd. ", "two blanks . end ."),
        ('well-known (yes) "no" #1', "well known yes no 1"),
        ("o'clock y'all", "o'clock y'all"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("name", TOKENISERS)
def test_both_agree_on_plain_english(name: str, text: str, words: str) -> None:
    assert tokeniser_get(name).tokenise(text) == words.split()


def test_the_paper_blanks_what_is_not_ascii() -> None:
    assert paper.tokenise("café 😀 100% עולם") == ["caf", "100"]
    assert paper.tokenise("😀 שלום 你好") == []
    assert paper.tokenise("I'm gonna 'go', it costs 1,000") == (
        ["i", "'m", "gon", "na", "'", "go", "'", ",", "it", "costs", "1", ",", "000"]
    )


def test_every_script_has_words() -> None:
    assert tokenise("Über café ΣΟΦΟΣ नमस्ते") == ["über", "café", "σοφος", "नमस्ते"]
    assert tokenise("שלום, עולם! \u200fمرحبا بك؟") == ["שלום", ",", "עולם", "!", "مرحبا", "بك", "؟"]
    assert tokenise("你好。ok") == ["你", "好", "。", "ok"]
    assert tokenise("cafe\u0301") == tokenise("caf\u00e9")  # composed or not


def test_an_emoji_is_one_word() -> None:
    family = "👨\u200d👩\u200d👧"
    assert tokenise(f"hi😀👍🏽 {family}❤\ufe0f🇩🇪🇫🇷 :) <3") == (
        ["hi", "😀", "👍🏽", family, "❤", "🇩🇪", "🇫🇷", ":)", "<3"]
    )


def test_numbers_and_abbreviations_stay_whole() -> None:
    assert tokenise("Mr. X paid $1,000.50 at 7:30pm in the U.S. today.") == (
        ["mr.", "x", "paid", "$", "1,000.50", "at", "7:30", "pm", "in", "the", "u.s.", "today", "."]
    )


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_gives_a_special_an_empty_word_or_a_blank(text: str) -> None:
    for tokeniser in TOKENISERS.values():
        for word in tokeniser.tokenise(text + "<unk><eos>"):
            assert word not in SPECIAL_TOKENS
            assert word.split() == [word]


def test_half_a_surrogate_pair_is_dropped() -> None:
    assert tokenise("a \ud83d b") == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "I don't know, they're late... is it 7:30 now?",
        "It costs $5! 100% 😀",
        "שלום, עולם!",
        "你好。很好",
    ],
)
def test_text_survives_the_way_there_and_back(text: str) -> None:
    assert detokenise(tokenise(text)) == text


def test_capitals_come_back() -> None:
    assert (
        detokenise(["hi", ".", "i", "think", "i", "'m", "ok", "!", "are", "you", "?"])
        == "Hi. I think I'm ok! Are you?"
    )


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("It was 222-0!", "It was 222-0!"),  # a score, which the demo models like to quote
        ("In 2016-2020", "In 2016-2020"),
        ("2220, 1,000 or 3.5", "2220, 1,000 or 3.5"),
        ("700 000", "700 000"),
        ("5 $", "5 $"),
    ],
)
def test_two_numbers_in_a_row_were_parted_by_a_hyphen(text: str, back: str) -> None:
    """The tokeniser drops hyphens; "222 0" reads as two numbers and "2220" would be another one."""
    assert detokenise(tokenise(text)) == back


def test_the_papers_detokenising() -> None:
    assert paper.detokenise(
        ["i", "'m", "gon", "na", "say", "<unk>", ",", "do", "n't", ".", "<eos>"]
    ) == ("i'm gonna say <unknown>, don't.")
    assert (
        paper.detokenise(["can", "t", ",", "it", "s", "got", "ta", "be", "'ll"])
        == "can't, it's gotta be'll"
    )
    assert paper.detokenise(["t", "s"]) == "t's"
    assert paper.detokenise([]) == detokenise([]) == ""


WORDS = [
    "a",
    "i",
    "n't",
    "'s",
    ".",
    "...",
    ",",
    "$",
    "t",
    "na",
    "😀",
    "你",
    "。",
    "?",
    "<unk>",
    "<pad>",
    "222",
    "0",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_a_growing_reply_takes_nothing_back(words: list[str]) -> None:
    for tokeniser in TOKENISERS.values():
        growing = GrowingText()
        texts = [tokeniser.detokenise(words[:n]) for n in range(len(words) + 1)]
        shown = "".join(growing.grow(text)[0] for text in texts) + growing.end(texts[-1])
        assert shown == texts[-1]


def test_an_unknown_tokeniser_names_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"'paper-2018'; did you mean paper-2019\? .*words-1"):
        tokeniser_get("paper-2018")


@settings(deadline=None)
@given(st.text(alphabet="abimrsv019 .,:;'n`t$%&!?()-<3_", max_size=30))
def test_plain_text_is_cut_alike_beside_other_scripts(text: str) -> None:
    assert tokenise(f"{text} é") == [*tokenise(text), "é"]
