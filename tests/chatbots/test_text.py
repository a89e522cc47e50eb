"""Text that can be quoted and stored, whatever it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatbots.text import (
    CUT_MARK,
    SanitisedStream,
    error_text,
    is_blank,
    is_sanitised,
    quote,
    sanitise,
    sanitise_id,
    sanitise_input,
)
from chatbots.validation import InputModel, Many, ValuesError, values_read, yaml_read

HUGE = int("f" * 6000, 16)


class Unwritable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


VALUES = {
    "huge": HUGE,
    "negative": -HUGE,
    "inside": {"a": [HUGE]},
    "key": {HUGE: 1},
    "deep": nested(100_000),
    "endless": endless(),
    "long": "x" * 10**7,
    "surrogates": "\ud800\udfff" * 50,
    "nul": "\x00" * 50,
    "unwritable": Unwritable(),
    "of unwritable": [Unwritable()],
    "bytes": b"\xff" * 1000,
}


@pytest.mark.parametrize("name", VALUES)
def test_a_quoted_value_is_short_and_storable(name: str) -> None:
    text = quote(VALUES[name])
    assert 0 < len(text) <= 80
    assert is_sanitised(text)


def test_a_quoted_value_is_written_as_in_python_without_passwords() -> None:
    assert quote("it's") == '"it\'s"'
    assert quote({"b": 1, "a": None}) == "{'b': 1, 'a': None}"
    assert quote("postgres://me:secret@host/db") == "'postgres://…@host/db'"
    assert quote(HUGE) == "a number of about 7225 digits"
    assert quote("abcdef", 5) == "'abc…"


class Model(InputModel):
    number: float = 1.0
    text: str = ""
    several: Many[int] = ()
    named: dict[str, int] = {}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("field", ["number", "text", "several", "named", "named.one", "several[0]"])
def test_mistakes_of_any_value_are_told(name: str, field: str) -> None:
    value = VALUES[name]
    given = {"named.one": {"named": {"one": value}}, "several[0]": {"several": [value]}}
    with pytest.raises(ValuesError) as raised:
        values_read(Model, {**given.get(field, {field: value}), "another": value})
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("key", ["x" * 10**6, HUGE, "\ud800", "\x00"], ids=lambda key: "key")
def test_keys_of_any_length_are_told(key: Any) -> None:
    with pytest.raises(ValuesError) as raised:
        values_read(Model, {key: 1})
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    "text",
    ["a: " + "7" * 6000, "a: " + "[" * 5000, "a: 2020-13-45", "a: [" + "1" * 6000 + "]"],
    ids=["digits", "nested", "date", "inside"],
)
def test_a_yaml_file_of_any_text_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bots.yaml"
    path.write_text(text)
    with pytest.raises(ValuesError, match=r"bots\.yaml cannot be read") as raised:
        yaml_read(path)
    assert "sys." not in str(raised.value)


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
