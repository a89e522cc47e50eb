"""Growing text: nothing broken is shown and nothing is taken back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatbots.detokenise import GrowingText


def shown(beginnings: list[str], stops: tuple[str, ...] = ()) -> list[str]:
    """The pieces shown as a text grows."""
    growing = GrowingText(stops)
    pieces = []
    for text in beginnings[:-1]:
        piece, stopped = growing.grow(text)
        pieces.append(piece)
        if stopped:
            return pieces
    return [*pieces, growing.end(beginnings[-1])]


def test_words_are_held_back_until_they_are_whole():
    assert shown(["I", "I am", "I am hap", "I am happy", "I am happy."]) == [
        "",
        "I",
        " am",
        "",
        " happy.",
    ]


def test_blanks_at_either_end_are_not_shown():
    assert "".join(shown([" ", "  hi", "  hi there", "  hi there \n"])) == "hi there"


def test_broken_characters_are_never_shown():
    assert shown(["caf\ufffd", "caf\ufffd\ufffd", "café", "café au", "café au\ufffd"]) == [
        "",
        "",
        "",
        "café",
        " au",
    ]


def test_text_without_blanks_grows_by_characters():
    assert shown(["你", "你\ufffd", "你好", "你好。"]) == ["你", "", "好", "。"]


def test_a_stop_ends_the_text_and_is_not_shown():
    assert shown(["Yes", "Yes.\nUs", "Yes.\nUser:", "never"], ("\nUser:",)) == ["", "Yes.", ""]


def test_the_beginning_of_a_stop_is_held_back():
    texts = ["a b", "a b c END", "a b c END now", "a b c END nowhere"]
    assert "".join(shown([*texts, texts[-1]], ("END of it",))) == "a b c END nowhere"
    assert "".join(shown([*texts[:2], "a b c END of it", ""], ("END of it",))) == "a b c"


@given(
    st.text(alphabet="ab \n.你é\ufffd", max_size=40), st.sampled_from([(), (" a",), ("b.", ".b")])
)
def test_pieces_joined_are_the_text(text, stops):
    pieces = shown([text[:n] for n in range(1, len(text) + 1)] + [text], stops)
    whole = text.replace("\ufffd", "").lstrip()
    ends = [at for stop in stops if (at := whole.find(stop)) >= 0]
    assert "".join(pieces) == (whole[: min(ends)] if ends else whole).rstrip()
    assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_nothing_but_blanks_is_nothing(text):
    assert shown([text, text]) == ["", ""]
