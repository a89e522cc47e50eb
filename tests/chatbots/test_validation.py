"""Values from outside: what is read, and how all mistakes are told at once."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, field_validator, model_validator

from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, ValuesError, values_read


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
        found = []
        if self.epochs == 13:
            found.append(Mistake("epochs", "epochs is 13; nobody would"))
        if self.limits:
            found.append(Mistake("limits.n", "limits.n is not wanted"))
        if found:
            raise ValuesError(found)
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
            "epoch is no key here; did you mean epochs? Allowed: corpora, lr, epochs, search, stop, "
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
        ({"search": {"kind": "greedy", "width": 0}}, "search.width", "search.width is no key here; Allowed: kind"),
        ({"search": {"kind": "greedy", "key": "quality"}}, "search.key", "search.key is no key here; Allowed: kind"),
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
    assert mistakes(values, what="the config") == [(path, message)]


def test_all_mistakes_are_told_at_once() -> None:
    values = {"corpora": [{"format": "x"}, {"path": 3, "pth": 1}], "lr": 2, "epoch": 3, "name": ""}
    found = mistakes(values, path="trainings[2]")
    assert [path for path, _ in found] == [
        "trainings[2].corpora[0].path",
        "trainings[2].corpora[0].format",
        "trainings[2].corpora[1].path",
        "trainings[2].corpora[1].pth",
        "trainings[2].lr",
        "trainings[2].name",
        "trainings[2].epoch",
    ]
    with pytest.raises(ValuesError, match=r"^7 mistakes: \(1\) corpora\[0\].path is missing"):
        values_read(Training, values)


def test_a_check_of_the_whole_tells_several_mistakes() -> None:
    found = mistakes(GOOD | {"epochs": 13, "limits": {"n": 1}}, path="t")
    assert found == [("t.epochs", "t.epochs is 13; nobody would"), ("t.limits.n", "t.limits.n is not wanted")]


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
