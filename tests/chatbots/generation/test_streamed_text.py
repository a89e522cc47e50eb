"""Growing text: nothing broken is shown and nothing is taken back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatbots.generation.streamed_text import GrowingText, SentencePieces, sentences_end


def shown(beginnings: list[str], stops: tuple[str, ...] = ()) -> list[str]:
    """Return the pieces shown as a text grows."""
    growing = GrowingText(stops)
    pieces = []
    for text in beginnings[:-1]:
        piece, stopped = growing.grow(text)
        pieces.append(piece)
        if stopped:
            return pieces
    return [*pieces, growing.end(beginnings[-1])]


def test_broken_characters_are_never_shown():
    assert shown(["caf\ufffd", "caf\ufffd\ufffd", "café", "café au", "café au\ufffd"]) == ["", "", "", "café", " au"]


def test_the_beginning_of_a_stop_is_held_back():
    texts = ["a b", "a b c END", "a b c END now", "a b c END nowhere"]
    assert "".join(shown([*texts, texts[-1]], ("END of it",))) == "a b c END nowhere"
    assert "".join(shown([*texts[:2], "a b c END of it", ""], ("END of it",))) == "a b c"


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_nothing_but_blanks_is_nothing(text):
    assert shown([text, text]) == ["", ""]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("I am here. And you are", "I am here."),
        ("Really? Yes! I would", "Really? Yes!"),
        ('He said "No." Then he', 'He said "No."'),
        ("Great! 😊 I would", "Great! 😊"),
        ("你好。我是", "你好。"),
        ("We saw Mr. Smith and Dr. Jones in the", ""),
        ("Well... I think that J. K. Rowling has", ""),
        ("Do this:\n1. Sit down\n2. Stand", ""),
        ("It was in 1999. Since then", "It was in 1999."),
        ("It costs 3.5 dollars and", ""),
        ("So do I. We should", "So do I."),
        ("nothing ends", ""),
        ("", ""),
    ],
)
def test_where_the_last_whole_sentence_ends(text, whole):
    assert text[: sentences_end(text)] == whole


def test_a_text_that_is_cut_ends_with_its_last_whole_sentence():
    growing = GrowingText()
    said = "I like it. It rains a lot here. But the sum"
    pieces = [growing.grow(said[:n])[0] for n in range(1, len(said) + 1)]
    assert "".join(pieces) == "I like it. It rains a lot here."
    assert growing.end(said, cut=True) == ""
    # Nothing has to be taken back: only the first sentence came word by word.
    assert [piece for piece in pieces if piece] == ["I", " like", " it.", " It rains a lot here."]


def test_a_text_without_a_whole_sentence_stays_as_it_is():
    growing = GrowingText()
    assert growing.grow("a wide road to")[0] == "a wide road"
    assert growing.end("a wide road to the", cut=True) == " to the"


@given(st.text(alphabet='aB .!?\n1"。😊', max_size=40))
def test_what_was_shown_is_never_taken_back_by_the_cut(text):
    growing = GrowingText()
    pieces = [growing.grow(text[:n])[0] for n in range(1, len(text) + 1)]
    pieces.append(growing.end(text, cut=True))
    whole = text.strip()
    assert "".join(pieces) == whole[: sentences_end(whole) or None]


def test_pieces_pass_until_a_sentence_is_whole_and_then_wait_for_the_next():
    stream = SentencePieces()
    pieces = [stream.take(p) for p in ("He", "llo. A", "re you", " well? It", " is 3.", "5 ", "degr")]
    assert pieces == ["He", "llo.", "", " Are you well?", "", "", ""]
    assert stream.end(cut=True) == ""


@example(given_pieces=["B! 😊", " a"], cut=True)
@example(given_pieces=["3.", "5 a"], cut=True)
@given(given_pieces=st.lists(st.text(alphabet='aB .!?\n1"。😊', max_size=6), max_size=12), cut=st.booleans())
def test_pieces_joined_are_the_whole_sentences(given_pieces, cut):
    stream = SentencePieces()
    shown = "".join([stream.take(piece) for piece in given_pieces]) + stream.end(cut=cut)
    text = "".join(given_pieces)
    assert shown == text[: (sentences_end(text) if cut else 0) or None]
