"""Text from outside made storable, whole and in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatbots.text import (
    CUT_MARK,
    SanitisedStream,
    error_text,
    is_blank,
    sanitise,
    sanitise_id,
    sanitise_input,
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
    assert sanitise(text) == stored


@given(any_text, st.none() | st.integers(len(CUT_MARK), 40))
def test_it_can_be_encoded_fits_and_does_not_change_again(text: str, limit: int | None) -> None:
    stored = sanitise(text, limit)
    stored.encode()
    assert "\x00" not in stored
    assert limit is None or len(stored) <= limit
    assert sanitise(stored, limit) == stored
    assert limit is None or len(sanitise(text)) <= limit or stored.endswith(CUT_MARK)


@given(st.lists(any_text), st.none() | st.integers(len(CUT_MARK), 40))
def test_pieces_joined_are_the_whole(pieces: list[str], limit: int | None) -> None:
    stream = SanitisedStream(limit)
    given = [stream.take(piece) for piece in pieces]
    assert "".join(given) + stream.end() == sanitise("".join(pieces), limit)
    assert stream.is_full == (limit is not None and len(sanitise("".join(pieces))) > limit)


def test_a_long_text_ends_with_a_mark() -> None:
    assert sanitise("x" * 100, 100) == "x" * 100
    assert sanitise("x" * 101, 100) == "x" * 96 + " […]"


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
    assert sanitise_input(" a\x00b \n") == "ab"
    assert sanitise_input("\u200b \u2800") == ""
    assert sanitise_input("\u200bx") == "\u200bx"
    assert sanitise_input(" " + "x" * 101, 100) == "x" * 96 + " […]"


def test_an_id_has_one_spelling() -> None:
    assert sanitise_id("\ufeff p 1\u200b\n\x00") == "p 1"
    assert sanitise_id("\u200b \t") == ""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def test_an_error_becomes_one_line_whatever_it_says() -> None:
    assert error_text(ValueError("half \ud83d\n and\x00 more")) == "half \ufffd and more"
    assert error_text(Unspeakable()) == ""
    assert len(error_text(ValueError("x" * 10**6), 500)) == 500
