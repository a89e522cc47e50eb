"""Text and values from outside: what can be read, quoted and stored, and how all mistakes are told at once."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator

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
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, ValuesError, values_read, yaml_read

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
    values = {"named.one": {"named": {"one": value}}, "several[0]": {"several": [value]}}
    with pytest.raises(ValuesError) as raised:
        values_read(Model, {**values.get(field, {field: value}), "another": value})
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
    results = [stream.take(piece) for piece in pieces]
    assert "".join(results) + stream.end() == sanitise("".join(pieces), limit)
    assert stream.is_full == (limit is not None and len(sanitise("".join(pieces))) > limit)


def test_a_long_text_ends_with_a_mark() -> None:
    assert sanitise("x" * 100, 100) == "x" * 100
    assert sanitise("x" * 101, 100) == "x" * 96 + " […]"


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n\t", "\u200b\ufeff", "\u2060", "\u2800", "\u3164", "\u115f\u1160", "\ufe0f", "\U000e0101"),
        *("\ufffd \ufffd", "\x07"),
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


class Beam(InputModel):
    kind: Literal["beam"]
    width: int = Field(ge=1)


class Greedy(InputModel):
    kind: Literal["greedy"] = "greedy"


class Corpus(InputModel):
    path: str
    format: Literal["cornell", "jsonl"] = "jsonl"


class Training(InputModel):
    corpora: Many[Corpus] = Field((), min_length=1)
    lr: Number = Field(1e-4, gt=0, lt=1)
    epochs: int = Field(30, ge=1)
    search: Annotated[Beam | Greedy, Field(discriminator="kind")] = Greedy()
    stop: str | list[int] | None = None
    limits: dict[str, int] = {}
    name: Annotated[str, Field(pattern="^[a-z]+$"), TypeDescription("lower-case letters")] = "x"
    shuffle: bool = True
    api_key_env: str = Field("", pattern="^[A-Z_]+$", repr=False)
    seed: int | None = None

    @field_validator("seed")
    @classmethod
    def _even(cls, value: int | None) -> int | None:
        if value is not None and value % 2:
            raise ValueError("it must be even")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Training:
        results = []
        if self.epochs == 13:
            results.append(Mistake("epochs", "epochs is 13; nobody would"))
        if self.limits:
            results.append(Mistake("limits.n", "limits.n is not wanted"))
        if results:
            raise ValuesError(results)
        if self.name == "bad":
            raise ValueError("name is 'bad'; it must be good")
        return self


GOOD: dict[str, Any] = {"corpora": [{"path": "a"}]}


def mistakes(values: Any, **where: str) -> list[tuple[str, str]]:
    with pytest.raises(ValuesError) as caught:
        values_read(Training, values, **where)
    return [(each.path, each.message) for each in caught.value.mistakes]


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        (3, "", "the config is 3; it must be a mapping"),
        ({}, "corpora", "corpora is []; it must be a list that is not empty"),
        ({"corpora": 3}, "corpora", "corpora is 3; it must be a list that is not empty"),
        ({"corpora": [{}]}, "corpora[0].path", "corpora[0].path is missing; it must be a text"),
        ({"corpora": [3]}, "corpora[0]", "corpora[0] is 3; it must be a mapping"),
        ({"lr": "fast"}, "lr", "lr is 'fast'; it must be a number above 0 and below 1"),
        ({"lr": float("nan")}, "lr", "lr is nan; it must be a number above 0 and below 1"),
        ({"lr": True}, "lr", "lr is True; it must be a number above 0 and below 1"),
        ({"epochs": 0}, "epochs", "epochs is 0; it must be a whole number of at least 1"),
        ({"epochs": 1.0}, "epochs", "epochs is 1.0; it must be a whole number of at least 1"),
        ({"epochs": "1"}, "epochs", "epochs is '1'; it must be a whole number of at least 1"),
        ({"shuffle": 1}, "shuffle", "shuffle is 1; it must be true or false"),
        (
            {"epoch": 3},
            "epoch",
            "epoch is an unknown key; did you mean epochs? Allowed: corpora, lr, epochs, search, stop, "
            "limits, name, shuffle, api_key_env, seed",
        ),
        (
            {"corpora": [{"path": "a", "format": "cornel"}]},
            "corpora[0].format",
            "corpora[0].format is 'cornel'; did you mean cornell? It must be one of cornell, jsonl",
        ),
        ({"search": {}}, "search.kind", "search.kind is missing; it must be one of beam, greedy"),
        (
            {"search": {"kind": "bean"}},
            "search.kind",
            "search.kind is 'bean'; did you mean beam? It must be one of beam, greedy",
        ),
        (
            {"search": {"kind": "beam", "width": 0}},
            "search.width",
            "search.width is 0; it must be a whole number of at least 1",
        ),
        ({"search": {"kind": "greedy", "width": 0}}, "search.width", "search.width is an unknown key; Allowed: kind"),
        ({"search": {"kind": "greedy", "key": "quality"}}, "search.key", "search.key is an unknown key; Allowed: kind"),
        ({"stop": 3}, "stop", "stop is 3; it must be a text, a list or null"),
        ({"stop": ["a"]}, "stop[0]", "stop[0] is 'a'; it must be a whole number"),
        ({"limits": {"n": "a"}}, "limits.n", "limits.n is 'a'; it must be a whole number"),
        ({"limits": {3: 3}}, "limits", "limits has the key 3; its keys must be a text"),
        ({"name": "A"}, "name", "name is 'A'; it must be lower-case letters"),
        ({"seed": 3}, "seed", "seed is 3; it must be even"),
        ({"name": "bad"}, "name", "name is 'bad'; it must be good"),
    ],
)
def test_a_mistake_names_its_place_the_value_and_what_is_right(values: Any, path: str, message: str) -> None:
    values = GOOD | values if isinstance(values, dict) and values else values
    if values == {}:
        values = {"corpora": []}
    assert mistakes(values, subject="the config") == [(path, message)]


def test_all_mistakes_are_told_at_once() -> None:
    values = {"corpora": [{"format": "x"}, {"path": 3, "pth": 1}], "lr": 2, "epoch": 3, "name": ""}
    result = mistakes(values, path="trainings[2]")
    assert [path for path, _ in result] == [
        *("trainings[2].corpora[0].path", "trainings[2].corpora[0].format", "trainings[2].corpora[1].path"),
        *("trainings[2].corpora[1].pth", "trainings[2].lr", "trainings[2].name", "trainings[2].epoch"),
    ]
    with pytest.raises(ValuesError, match=r"^7 mistakes: \(1\) corpora\[0\].path is missing"):
        values_read(Training, values)


def test_a_check_of_the_whole_tells_several_mistakes() -> None:
    result = mistakes(GOOD | {"epochs": 13, "limits": {"n": 1}}, path="t")
    assert result == [("t.epochs", "t.epochs is 13; nobody would"), ("t.limits.n", "t.limits.n is not wanted")]


def test_secrets_are_not_shown() -> None:
    (path, message), (_, other) = mistakes(GOOD | {"api_key_env": "sk-1", "API-Key": "sk-2"})
    assert path == "api_key_env"
    assert message.startswith("api_key_env is not usable; it must be a text of the form")
    assert "environment variable and name that variable" in other
    assert "sk-" not in message + other


def test_an_error_survives_the_way_between_processes() -> None:
    error = ValuesError([Mistake("a", "a is 1"), Mistake("b", "b is 2")])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.mistakes) == (str(error), error.mistakes)
    assert str(ValuesError("the file is gone")) == "the file is gone"
