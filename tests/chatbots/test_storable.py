"""Text from outside made storable, whole and in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatbots.storable import (
    CUT,
    StorableStream,
    error_text,
    given_id,
    given_text,
    is_blank,
    storable,
)

any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x00\ud83d\ude00"))


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("as it is: é, 😀, \n\t", "as it is: é, 😀, \n\t"),
        ("NUL\x00 goes", "NUL goes"),
        ("half \ud83d", "half \ufffd"),
        ("other half \ude00.", "other half \ufffd."),
        ("both halves \ud83d\ude00", "both halves 😀"),
        ("\ud83d\x00\ude00", "\ufffd\ufffd"),
        ("\ufeffmark", "\ufeffmark"),
    ],
)
def test_what_a_database_takes(text: str, stored: str) -> None:
    assert storable(text) == stored


@given(any_text, st.none() | st.integers(len(CUT), 40))
def test_it_can_be_encoded_fits_and_does_not_change_again(text: str, limit: int | None) -> None:
    stored = storable(text, limit)
    stored.encode()
    assert "\x00" not in stored
    assert limit is None or len(stored) <= limit
    assert storable(stored, limit) == stored
    assert limit is None or len(storable(text)) <= limit or stored.endswith(CUT)


@given(st.lists(any_text), st.none() | st.integers(len(CUT), 40))
def test_pieces_joined_are_the_whole(pieces: list[str], limit: int | None) -> None:
    stream = StorableStream(limit)
    given = [stream.take(piece) for piece in pieces]
    assert "".join(given) + stream.end() == storable("".join(pieces), limit)
    assert stream.is_full == (limit is not None and len(storable("".join(pieces))) > limit)


def test_a_long_text_ends_with_a_mark() -> None:
    assert storable("x" * 100, 100) == "x" * 100
    assert storable("x" * 101, 100) == "x" * 96 + " […]"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "\u200b\ufeff",
        "\u2060",
        "\u2800",
        "\u3164",
        "\u115f\u1160",
        "\ufe0f",
        "\U000e0101",
        "\ufffd \ufffd",
        "\x07",
    ],
)
def test_what_nobody_sees_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", [".", "你", "😀", "\u200bx", "\U0001fae9"])
def test_what_somebody_sees_is_not(text: str) -> None:
    assert not is_blank(text)


def test_a_text_that_is_given_is_storable_whole_and_empty_where_nothing_is_seen() -> None:
    assert given_text(" a\x00b \n") == "ab"
    assert given_text("\u200b \u2800") == ""
    assert given_text("\u200bx") == "\u200bx"
    assert given_text(" " + "x" * 101, 100) == "x" * 96 + " […]"


def test_an_id_has_one_spelling() -> None:
    assert given_id("\ufeff p 1\u200b\n\x00") == "p 1"
    assert given_id("\u200b \t") == ""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def test_an_error_becomes_one_line_whatever_it_says() -> None:
    assert error_text(ValueError("half \ud83d\n and\x00 more")) == "half \ufffd and more"
    assert error_text(Unspeakable()) == ""
    assert len(error_text(ValueError("x" * 10**6), 500)) == 500
