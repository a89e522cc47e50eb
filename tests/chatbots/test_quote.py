"""Messages that quote a value: of any value, short, and never an error of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chatbots.text import is_sanitised, quote
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
