"""Vocabularies: order, limits, the file, bad files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from chatbots.corpora.vocabulary import SPECIAL_TOKENS, UNK, Vocabulary, VocabularyError

TEXTS = [["b", "b", "b", "a", "a", "a", "c", "c"], ["d", "d", "d", "d"], ["e"]]


def test_frequent_words_first_then_the_alphabet() -> None:
    assert Vocabulary.build(TEXTS, min_count=2).words == (*SPECIAL_TOKENS, "d", "a", "b", "c")


def test_size_counts_the_specials_and_rare_words_are_left_out() -> None:
    assert Vocabulary.build(TEXTS, max_size=6, min_count=1).words[4:] == ("d", "a")
    assert Vocabulary.build(TEXTS, min_count=3).words[4:] == ("d", "a", "b")
    assert Vocabulary.build([["x"] * 5, ["y"] * 4]).words[4:] == ("x",)


def test_ids_and_words() -> None:
    vocabulary = Vocabulary.build(TEXTS, min_count=3)
    assert vocabulary.ids(["d", "nothing", "b"]) == [4, UNK, 6]
    assert vocabulary.tokens([4, 1, 6, 3]) == ["d", "<unk>", "b", "<eos>"]
    for wrong in (-1, 7):
        with pytest.raises(VocabularyError, match=f"{wrong} .*0 to 6"):
            vocabulary.tokens([wrong])


def test_one_word_is_enough_and_all_else_is_unknown() -> None:
    vocabulary = Vocabulary.build([["only"] * 5])
    assert len(vocabulary) == 5
    assert vocabulary.ids(["other", "things", "😀"]) == [UNK] * 3
    assert vocabulary.ids([]) == []


def test_specials_in_the_text_are_not_doubled() -> None:
    assert Vocabulary.build([["<unk>", "<eos>", "a"]], min_count=1).words[4:] == ("a",)


def test_nothing_left_is_said() -> None:
    with pytest.raises(VocabularyError, match="5 times or more among the 5 different"):
        Vocabulary.build(TEXTS)
    with pytest.raises(VocabularyError, match="the 0 different"):
        Vocabulary.build([])
    with pytest.raises(VocabularyError, match="max_size is 4; it must be 5"):
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
        ([*SPECIAL_TOKENS, "a", "", "b"], "line 6 is ''; a word is not empty"),
        ([*SPECIAL_TOKENS, "a b"], "line 5 is 'a b'"),
        ([*SPECIAL_TOKENS, "a", "b", "a"], "line 7 is 'a' again, as .*line 5"),
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
    with pytest.raises(VocabularyError, match="no UTF-8"):
        Vocabulary.read(tmp_path / "latin.txt")
