"""YAML from people: read as plain values, written so that it is read back the same, refused where it could do harm."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from webapp.core.plain_yaml import MOST_BYTES, NotPlain, plain_read, plain_text

TEXTS = some.text(some.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | some.sampled_from("\n\r\t"))
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some.dictionaries(TEXTS, VALUES, min_size=1, max_size=3))
def test_what_is_written_is_read_back_the_same(values: dict[str, Any]) -> None:
    assert plain_read(plain_text(values)) == values


@pytest.mark.parametrize(
    "text", ["yes", "No", "1e-4", "12:30", "2026-01-01", "007", "~", "null", "=", "0x1F", ".5", "a: b"]
)  # fmt: skip
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert plain_read(plain_text({"a": text})) == {"a": text}


def test_answers_and_dates_are_texts_as_people_mean_them() -> None:
    found = plain_read("options: [Yes, No, On]\nday: 2026-01-01\nat: 12:30\nn: 007\nx: 1e-4\nok: true")
    assert found == {
        "options": ["Yes", "No", "On"],
        "day": "2026-01-01",
        "at": "12:30",
        "n": 7,
        "x": 0.0001,
        "ok": True,
    }
    assert plain_read(b"\xef\xbb\xbfa: 1") == plain_read('{"a": 1}') == {"a": 1}
    assert plain_read("{a: 1, b: [Yes]}") == {"a": 1, "b": ["Yes"]}
    assert plain_read("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x", "anchors (&) and aliases (*) are not read"),
        ("a: &x 1", "anchors (&)"),
        ("a: !!python/object/apply:os.system [ls]", "python/object"),
        ("a: 1\nb: 2\na: 3", "the key 'a' stands there twice (line 3, column 1)"),
        ('{"a": 1, "a": 2}', "the key 'a' stands there twice"),
        ("a: {b: [1", "line 1"),
        ('{"a": ', "line 1, column 7"),
        ("? [1, 2]\n: 3", "a key must be a text or a number"),
        ("[" * 5000, "nested too deeply"),
        ('{"a":' * 5000, "nested too deeply"),
        ("a: \x00", "not allowed"),
        (b"a: \xff", "byte 4 is none"),
        ("a: " + "9" * 5000, "digits"),
        ("a" * (MOST_BYTES + 1), f"at most {MOST_BYTES}"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(text: str | bytes, said: str) -> None:
    with pytest.raises(NotPlain) as refused:
        plain_read(text)
    assert said in str(refused.value)


def test_a_few_lines_that_stand_for_gigabytes_are_refused_at_once() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    began = time.monotonic()
    with pytest.raises(NotPlain):
        plain_read(bomb)
    assert time.monotonic() - began < 1
