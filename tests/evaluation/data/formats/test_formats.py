"""Readers: whatever stands in a file, good records come through and the rest is told by line."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatbots import Turn
from evaluation.data.formats.base import BadRecord, Note, Record, Skipped
from evaluation.data.formats.csv_columns import CsvColumns, CsvLayout
from evaluation.data.formats.jsonl import JsonRecords, record_of
from evaluation.data.formats.text_files import format_for

GOOD: dict[str, Any] = {
    "dialogue_id": "d1",
    "bot": "alpha",
    "source": "test",
    "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "hello", "vote": 1}],
    "ratings": [{"rater": "r1", "quality": 5, "fluency": 4.5}],
}


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in GOOD.items() if k != key}


def read(path: Path) -> list[Record | Skipped]:
    return list(format_for(path).read(path))


def test_a_record_becomes_turns_and_ratings() -> None:
    record = record_of(GOOD, line=7)
    assert record.turns == (Turn("human", "hi"), Turn("bot", "hello", 1))
    assert record.external_id == "test/d1"
    assert record.line == 7
    assert [(r.rater, dict(r.answers)) for r in record.ratings] == [("r1", {"quality": 5, "fluency": 4.5})]


@pytest.mark.parametrize(
    "data",
    [
        without("ratings"),
        without("source"),
        {**GOOD, "ratings": None},
        {**GOOD, "ratings": [{"quality": 3}, {"rater": None, "quality": 4}]},
        {**GOOD, "ratings": [{"rater": "a", "quality": None, "fluency": 2}]},
        {**GOOD, "ratings": [{"rater": "a", "comment": "well"}]},
        {**GOOD, "ratings": [{"rater": 7, "Overall Quality": 1}]},
        {**GOOD, "meta": {"x": [1]}, "split": "train"},
        {**GOOD, "turns": [{"speaker": "bot", "text": ""}, {"speaker": "bot", "text": "x"}]},
        {**GOOD, "turns": [{"speaker": "bot", "text": "x", "vote": None, "turn_rating": 2}]},
        {**GOOD, "dialogue_id": 12},
    ],
)
def test_the_loose_ends_of_real_files_are_accepted(data: dict[str, Any]) -> None:
    assert record_of(data, line=1).turns


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "the line is a list; it must be an object {…}"),
        (without("turns"), "turns is missing"),
        (without("bot"), "bot is missing"),
        (without("dialogue_id"), "dialogue_id is missing"),
        ({**GOOD, "turns": []}, "turns is []; it must be a list of at least one turn"),
        ({**GOOD, "turns": ["hi"]}, "turns[0] is a text; it must be an object"),
        (
            {**GOOD, "turns": [{"speaker": "Bot", "text": "x"}]},
            "turns[0].speaker is \"Bot\"; it must be 'human' or 'bot'",
        ),
        ({**GOOD, "turns": [{"speaker": "bot"}]}, "turns[0].text is null; it must be a text"),
        ({**GOOD, "turns": [{"speaker": "bot", "text": "x", "vote": 2}]}, "turns[0].vote is 2; it must be -1, 0 or 1"),
        ({**GOOD, "turns": [{"speaker": "human", "text": "x", "vote": 1}]}, "turns[0].vote is 1 on a human turn"),
        ({**GOOD, "turns": [{"speaker": "bot", "text": "a\x00b"}]}, "turns[0].text contains the character U+0000"),
        ({**GOOD, "turns": [{"speaker": "bot", "text": "\ud800"}]}, "turns[0].text contains half a surrogate pair"),
        ({**GOOD, "ratings": {}}, "ratings is {}; it must be a list"),
        ({**GOOD, "ratings": [{"quality": "5"}]}, 'ratings[0].quality is "5"; it must be a number'),
        ({**GOOD, "ratings": [{"quality": True}]}, "ratings[0].quality is true; it must be a number"),
        ({**GOOD, "ratings": [{"quality": float("nan")}]}, "it must be a finite number"),
        ({**GOOD, "ratings": [{"1st": 3}]}, 'a dimension "1st"; it must begin with a letter'),
        ({**GOOD, "ratings": [{"a b": 3, "A-B": 3}]}, "twice, in different spellings"),
        ({**GOOD, "bot": "b" * 101}, "bot has 101 characters; at most 100"),
        ({**GOOD, "dialogue_id": "d" * 198}, "at most 200 are allowed"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(data: Any, told: str) -> None:
    with pytest.raises(BadRecord) as error:
        record_of(data, line=1)
    assert told in str(error.value)


def test_bad_lines_do_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = json.dumps(GOOD).encode()
    path.write_bytes(
        b"\xef\xbb\xbf" + good + b"\n\n{broken\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + good + b"\r\n" + good
    )
    items = read(path)
    assert [item.line for item in items if isinstance(item, Record)] == [1, 6, 7]
    told = {item.line: item.reason for item in items if isinstance(item, Skipped)}
    assert told[3].startswith("not JSON: ")
    assert told[4] == "byte 1 is 0xff, which is not UTF-8; save the file as UTF-8"
    assert "nested too deeply" in told[5]


def test_gzip_is_known_by_its_content_and_may_break_off(tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps({**GOOD, "dialogue_id": str(n), "meta": hash(str(n))}).encode() + b"\n" for n in range(2000)
    )
    whole = gzip.compress(lines)
    (tmp_path / "whole.data").write_bytes(whole)
    assert len(read(tmp_path / "whole.data")) == 2000
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    items = read(tmp_path / "cut.jsonl.gz")
    assert 0 < len(items) < 2000
    assert all(isinstance(item, Record) for item in items[:-1])
    assert isinstance(items[-1], Skipped)
    assert items[-1].line == len(items)
    assert "damaged" in items[-1].reason


def test_a_short_gzip_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps({**GOOD, "dialogue_id": str(n), "meta": str(hash(n) ** 3)}).encode() + b"\n" for n in range(50)
    )
    whole = gzip.compress(lines)
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(whole[: len(whole) - 20])
    items = list(format_for(path).read(path))
    assert [type(item) for item in items[-2:]] == [Record, Skipped]
    path.write_bytes(whole[:15])
    with pytest.raises(ValueError, match=r"cut.jsonl.gz is a damaged gzip file without readable data"):
        format_for(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"cut.jsonl.gz is empty"):
        format_for(path)


def test_a_line_that_breaks_off_is_told_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text('{"dialogue_id": "1", "bot": "b')
    (item,) = read(path)
    assert item == Skipped(1, "not JSON: Unterminated string starting at character 29")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00", b"a,b\n1,2\n", b"[1]\n"])
def test_a_file_in_no_known_format_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is in an unknown format"):
        format_for(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
turn_like = st.fixed_dictionaries(
    {},
    optional={"speaker": st.sampled_from(["human", "bot", "user", 1, None]), "text": json_values, "vote": json_values},
)
record_like = st.fixed_dictionaries(
    {},
    optional={
        "dialogue_id": json_values,
        "bot": json_values,
        "source": json_values,
        "turns": st.lists(turn_like, max_size=3) | json_values,
        "ratings": st.lists(
            st.dictionaries(st.sampled_from(["rater", "quality", "A b", "", "ü"]), json_values), max_size=2
        )
        | json_values,
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        record_like.map(lambda r: json.dumps(r).encode())
        | json_values.map(lambda v: json.dumps(v).encode())
        | st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")),
        max_size=6,
    )
)
def test_any_line_gives_a_record_or_a_reason(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(b"\n".join([json.dumps(GOOD).encode(), *lines]) + b"\n")
    items = [item for item in JsonRecords().read(path) if not isinstance(item, Note)]
    assert isinstance(items[0], Record)
    numbers = [item.line for item in items]
    assert numbers == sorted(numbers)
    for item in items:
        if isinstance(item, Skipped):
            assert item.reason
            item.reason.encode()  # it can be printed
        else:
            assert item.turns
            assert item.dialogue_id


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_read_whatever_their_make(tmp_path: Path, encoding: str, end: str, packed: bool) -> None:
    path = tmp_path / "x.jsonl"
    said = GOOD | {"turns": [{"speaker": "human", "text": "grüße \u2028 \r\n 🙂"}]}
    text = "".join(json.dumps(one, ensure_ascii=False) + end for one in (GOOD, said) * 900)
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    items = list(format_for(path).read(path))
    assert [item.line for item in items] == list(range(1, 1801))
    assert isinstance(items[-1], Record)
    assert items[-1].turns[0].text == "grüße \u2028 \r\n 🙂"


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_and_objects_over_several_lines_are_read_with_their_lines(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([GOOD, {"turns": []}, GOOD], indent=indent))
    first, wrong, last = read(path)
    assert isinstance(first, Record)
    assert isinstance(wrong, Skipped)
    assert isinstance(last, Record)
    assert (wrong.line == 2) == (indent is None)
    assert wrong.reason.startswith("record 2: turns is []")
    path.write_text("\n".join([json.dumps(GOOD, indent=2)] * 2))
    assert [type(item) for item in read(path)] == [Record, Record]
    path.write_text(json.dumps([GOOD, GOOD], indent=2)[:-60])
    good, cut = read(path)
    assert isinstance(good, Record)
    assert isinstance(cut, Skipped)
    assert "the rest is not read" in cut.reason
    path.write_text(json.dumps([GOOD], indent=2)[:-1])
    assert read(path)[-1].reason == "the JSON array is truncated: its ] is missing"


def test_a_damaged_first_line_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"dialogue_id": "1",\n' + json.dumps(GOOD) + "\n")
    assert [type(item) for item in read(path)] == [Skipped, Record]


def test_ratings_of_nobody_are_several_and_a_preview_reads_some_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("chat,note\nc,1\nc,2\nc,3\n")
    reader = CsvColumns({"chat": "conversation", "note": "question"})
    notes = [record.ratings[0].answers for record in reader.read(path, 2) if isinstance(record, Record)]
    assert notes == [{"note": 1}, {"note": 2}]


@pytest.mark.parametrize(
    ("roles", "told"),
    [
        ({"a": "bot", "b": "human"}, "no column identifies the conversation"),
        ({"a": "conversation", "b": "human"}, "no column identifies the bot"),
        ({"a": "conversation", "b": "bot", "c": "text"}, "choose a speaker and a text"),
        ({"a": "conversation", "b": "bot"}, "no column contains texts or answers"),
        ({"a": "conversation", "b": "conversation"}, "columns 'a' and 'b' are both “conversation”"),
        ({"a": "conversation", "Fun!": "question", "fun": "question"}, "columns 'Fun!' and 'fun' are both “fun”"),
        ({"a": "conversation", "???": "question"}, "its name needs a letter or digit"),
        ({"a": "talk"}, "column 'a' is 'talk'; it must be one of"),
    ],
)
def test_roles_that_make_no_table_are_told(roles: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        CsvLayout.from_roles(roles)
