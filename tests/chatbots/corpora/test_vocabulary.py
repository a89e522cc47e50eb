"""Tokens and vocabularies: what is split, spelt and counted, and joined to text again."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatbots.corpora.vocabulary import (
    SPECIAL_TOKENS,
    TOKENISERS,
    UNK,
    Vocabulary,
    VocabularyError,
    detokenise,
    tokenise,
    tokeniser_get,
)
from chatbots.generation.streamed_text import GrowingText

TEXTS = [["b", "b", "b", "a", "a", "a", "c", "c"], ["d", "d", "d", "d"], ["e"]]


def test_frequent_words_first_then_the_alphabet() -> None:
    assert Vocabulary.build(TEXTS, min_count=2).words == (*SPECIAL_TOKENS, "d", "a", "b", "c")


def test_size_counts_the_specials_and_rare_words_are_left_out() -> None:
    assert Vocabulary.build(TEXTS, max_size=6, min_count=1).words[4:] == ("d", "a")
    assert Vocabulary.build(TEXTS, min_count=3).words[4:] == ("d", "a", "b")
    assert Vocabulary.build([["x"] * 5, ["y"] * 4]).words[4:] == ("x",)


def test_one_word_is_enough_and_all_else_is_unknown() -> None:
    vocabulary = Vocabulary.build([["only"] * 5])
    assert len(vocabulary) == 5
    assert vocabulary.ids(["other", "things", "😀"]) == [UNK] * 3
    assert vocabulary.ids([]) == []


def test_nothing_left_is_said() -> None:
    with pytest.raises(VocabularyError, match="at least 5 times among the 5 distinct"):
        Vocabulary.build(TEXTS)
    with pytest.raises(VocabularyError, match="the 0 distinct"):
        Vocabulary.build([])
    with pytest.raises(VocabularyError, match="max_size is 4; it must be at least 5"):
        Vocabulary.build(TEXTS, max_size=4)


def test_the_file_gives_it_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build([["ü", "😀", "שלום", "x"]], min_count=1)
    file = tmp_path / "vocabulary.txt"
    vocabulary.write(file)
    assert file.read_text(encoding="utf-8").splitlines()[:4] == list(SPECIAL_TOKENS)
    assert Vocabulary.read(file) == vocabulary
    assert vocabulary.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))  # saved again on Windows
    assert Vocabulary.read(file).digest == vocabulary.digest


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1 is ''; .*<pad>"),
        (["<pad>", "<unk>"], "line 3 is missing"),
        (["<pad>", "<eos>", "<sos>", "<unk>"], "line 2 is '<eos>'"),
        ([*SPECIAL_TOKENS, "a", "", "b"], "line 6 is ''; a word must not be empty"),
        ([*SPECIAL_TOKENS, "a b"], "line 5 is 'a b'"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], "line 7 is 'a' again, like .*line 5"),
        ([*SPECIAL_TOKENS, "<unk>"], "line 5 is '<unk>' again"),
    ],
)
def test_a_bad_file_is_refused_by_line(tmp_path: Path, lines: list[str], message: str) -> None:
    file = tmp_path / "v.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.read(file)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="cannot be read"):
        Vocabulary.read(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(VocabularyError, match="not UTF-8"):
        Vocabulary.read(tmp_path / "latin.txt")


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
    "text", ["I don't know, they're late... is it 7:30 now?", "It costs $5! 100% 😀", "שלום, עולם!", "你好。很好"]
)
def test_text_survives_the_way_there_and_back(text: str) -> None:
    assert detokenise(tokenise(text)) == text


def test_capitals_come_back() -> None:
    assert (
        detokenise(["hi", ".", "i", "think", "i", "'m", "ok", "!", "are", "you", "?"]) == "Hi. I think I'm ok! Are you?"
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
    assert paper.detokenise(["i", "'m", "gon", "na", "say", "<unk>", ",", "do", "n't", ".", "<eos>"]) == (
        "i'm gonna say <unknown>, don't."
    )
    assert paper.detokenise(["can", "t", ",", "it", "s", "got", "ta", "be", "'ll"]) == "can't, it's gotta be'll"
    assert paper.detokenise(["t", "s"]) == "t's"
    assert paper.detokenise([]) == detokenise([]) == ""


WORDS = ["a", "i", "n't", "'s", ".", "...", ",", "$", "t", "na", "😀", "你", "。", "?", "<unk>", "<pad>", "222", "0"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_a_growing_reply_takes_nothing_back(words: list[str]) -> None:
    for tokeniser in TOKENISERS.values():
        growing = GrowingText()
        texts = [tokeniser.detokenise(words[:n]) for n in range(len(words) + 1)]
        shown = "".join(growing.grow(text)[0] for text in texts) + growing.end(texts[-1])
        assert shown == texts[-1]


@settings(deadline=None)
@given(st.text(alphabet="abimrsv019 .,:;'n`t$%&!?()-<3_", max_size=30))
def test_plain_text_is_cut_alike_beside_other_scripts(text: str) -> None:
    assert tokenise(f"{text} é") == [*tokenise(text), "é"]
