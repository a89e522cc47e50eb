"""Files: every value comes back, spreadsheets run nothing, whole files; and the CSV files of the 2019 server."""

import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatbots import Turn
from evaluation.data.formats.base import Record, Skipped
from evaluation.data.formats.neural_chat import RATING_HEADER, RECORD_HEADER
from evaluation.data.formats.tables import escape_cell, unescape_cell
from evaluation.data.formats.text_files import format_for
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportColumn
from webapp.transfer.import_file import import_conversations
from webapp.transfer.writers import stream, write_file

COLUMNS = [
    ExportColumn("word", "text", "A text."),
    ExportColumn("count", "integer", "A count."),
    ExportColumn("value", "number", "A number."),
    ExportColumn("flag", "boolean", "Yes or no."),
    ExportColumn("at", "time", "When."),
    ExportColumn("inner", "json", "A list."),
]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
risky = st.builds(lambda a, b: a + b, st.sampled_from(["=", "+", "-", "@", "\t", "\r", "'=", "''+"]), texts)
rows_of = st.lists(
    st.tuples(
        texts | risky | st.none(),
        st.integers(-(2**62), 2**62) | st.none(),
        st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        st.booleans() | st.none(),
        st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda t: t.replace(tzinfo=UTC)) | st.none(),
        st.lists(texts | st.integers(-5, 5), max_size=3) | st.none(),
    ),
    max_size=8,
)
LOOSE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(text=texts | risky)
def test_escaping_is_undone_exactly_and_leaves_nothing_to_run(text: str) -> None:
    cell = escape_cell(text)
    assert unescape_cell(cell) == text
    assert cell[:1] not in set("=+-@\t\r\n")


@LOOSE
@given(rows=rows_of)
def test_csv_comes_back(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    path = tmp_path / "x.csv"
    assert write_file(path, "csv", COLUMNS, rows) == len(rows)
    with path.open(encoding="utf-8", newline="") as file:
        header, *result = csv.reader(file)
    assert header == [column.name for column in COLUMNS]
    for given_row, cells in zip(rows, result, strict=True):
        word, count, value, flag, at, inner = given_row
        assert unescape_cell(cells[0]) == (word or "")
        assert cells[1] == ("" if count is None else str(count))
        assert (float(cells[2]) if cells[2] else None) == value
        assert cells[3] == {None: "", True: "true", False: "false"}[flag]
        assert (datetime.fromisoformat(cells[4]) if cells[4] else None) == at
        assert (json.loads(unescape_cell(cells[5])) if cells[5] else None) == inner


@LOOSE
@given(rows=rows_of)
def test_json_lines_and_parquet_come_back(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    names = [column.name for column in COLUMNS]
    write_file(tmp_path / "x.jsonl", "jsonl", COLUMNS, rows)
    lines = (tmp_path / "x.jsonl").read_bytes().decode().split("\n")
    assert lines.pop() == ""
    for given_row, line in zip(rows, lines, strict=True):
        result = json.loads(line)
        result["at"] = datetime.fromisoformat(result["at"]) if result["at"] else None
        assert result == dict(zip(names, given_row, strict=True))
    write_file(tmp_path / "x.parquet", "parquet", COLUMNS, rows)
    for given_row, result in zip(rows, pq.read_table(tmp_path / "x.parquet").to_pylist(), strict=True):
        result["inner"] = json.loads(result["inner"]) if result["inner"] is not None else None
        assert result == dict(zip(names, given_row, strict=True))


def test_numbers_are_not_taken_for_formulas_and_raw_leaves_texts() -> None:
    row = ["=1+1", -3, -0.5, None, None, None]
    assert b"\r\n'=1+1,-3,-0.5,,," in b"".join(stream("csv", COLUMNS, [row]))
    assert b"\r\n=1+1,-3,-0.5,,," in b"".join(stream("csv", COLUMNS, [row], raw=True))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_empty(tmp_path: Path, bad: float) -> None:
    row = ["a", 1, bad, True, None, None]
    assert b"a,1,,true,," in b"".join(stream("csv", COLUMNS, [row]))
    assert json.loads(b"".join(stream("jsonl", COLUMNS, [row])))["value"] is None
    write_file(tmp_path / "x.parquet", "parquet", COLUMNS, [row])
    assert pq.read_table(tmp_path / "x.parquet").to_pylist()[0]["value"] is None


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_a_stream_is_the_file(tmp_path: Path, file_format: Any) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [[f"w{n}", n, n / 7, n % 2 == 0, start + timedelta(n), [n]] for n in range(1201)]
    path = tmp_path / "x"
    write_file(path, file_format, COLUMNS, rows)
    pieces = list(stream(file_format, COLUMNS, rows))
    if file_format == "parquet":
        table = pq.read_table(io.BytesIO(b"".join(pieces)))
        assert table == pq.read_table(path)
        assert table.schema.field("word").metadata == {b"description": b"A text."}
    else:
        assert len(pieces) > 2
        assert b"".join(pieces) == path.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")

    def rows() -> Iterator[list[Any]]:
        yield ["a", 1, 1.0, True, None, None]
        raise RuntimeError("the database went away")

    with pytest.raises(RuntimeError):
        write_file(path, "csv", COLUMNS, rows())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def row(chat: str, at: str, message: str, response: str, vote: str = "0", **more: str) -> dict[str, str]:
    cells = dict.fromkeys(RECORD_HEADER, "")
    cells |= {
        "Chat ID": chat,
        "Datetime": at,
        "Chatbot ID": "hred",
        "Message": message,
        "Response": response,
        "User Session Key": "s1",
        "Response Rating": vote,
    }
    return cells | more


def write(path: Path, rows: list[dict[str, str]], header: tuple[str, ...] = RECORD_HEADER) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_rows_in_any_order_become_conversations(tmp_path: Path) -> None:
    rated = {"Chat Rating Quality": "6", "Chat Rating Empathy": "2.0", "Chat Rating Comments": "ok"}
    path = write(
        tmp_path / "chatrecords.csv",
        [
            row("b", "2019-05-29T21:37:00+00:00", "two", "🙂😂 second", "1", **rated),
            row("a", "2019-05-30T00:00:00", "other\nline", 'say "hi", then'),
            row("b", "2019-05-29T21:36:04.123000+00:00", "one", "first", "-1", **rated),
        ],
    )
    a, b = format_for(path).read(path)
    assert isinstance(a, Record)
    assert isinstance(b, Record)
    assert a.turns == (Turn("human", "other\nline"), Turn("bot", 'say "hi", then'))
    assert a.ratings == ()
    assert b.turns == (Turn("human", "one"), Turn("bot", "first", -1), Turn("human", "two"), Turn("bot", "second", 1))
    assert [t.isoformat() for t in b.times[::2]] == ["2019-05-29T21:36:04.123000+00:00", "2019-05-29T21:37:00+00:00"]
    (rating,) = b.ratings
    assert dict(rating.answers) == {"quality": 6, "empathy": 2}
    assert (rating.rater, rating.comment) == ("s1", "ok")


def test_a_chat_with_a_bad_row_is_left_out_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.csv",
        [
            row("a", "2019-05-29T21:36:04+00:00", "é", "r"),  # UTF-8, so the file is not taken for Windows-1252
            row("a", "yesterday", "m", "r"),
            row("b", "2019-05-29T21:36:04+00:00", "m", "r", "5"),
            row("c", "2019-05-29T21:36:04+00:00", "m", "r"),
            row("", "2019-05-29T21:36:04+00:00", "m", "r"),
            row("d", "2019-05-29T21:36:04+00:00", "m", "r", **{"Chat Rating Quality": "lovely"}),
        ],
    )
    with path.open("ab") as file:
        file.write(b"only,three,cells\r\n")
        file.write(b"9,e,2019-05-29T21:36:04+00:00,hred,\xff,r" + b"," * 11 + b"\r\n")
    items = list(format_for(path).read(path))
    assert [item.dialogue_id for item in items if isinstance(item, Record)] == ["c"]  # d is next to the broken row
    told = {item.line: item.reason for item in items if isinstance(item, Skipped)}
    assert told[3].startswith("Datetime is 'yesterday'; it must be in ISO 8601")
    assert "its chat is skipped" in told[3]
    assert told[4].startswith("Response Rating is '5'")
    assert told[6] == "Chat ID is empty"
    assert told[7].startswith("Chat Rating Quality is 'lovely'; it must be a number")
    assert told[8].startswith("the row has 3 cells; the header has 17; its chat is unknown")
    assert "not UTF-8" in told[9]


def test_the_last_of_several_ratings_counts(tmp_path: Path) -> None:
    cells = dict.fromkeys(RATING_HEADER, "") | {"Chat ID": "a", "User Session Key": "s"}
    path = write(
        tmp_path / "chat_ratings.csv",
        [
            cells | {"Datetime": "2019-05-29T22:00:00+00:00", "Quality": "6"},
            cells | {"Datetime": "2019-05-29T21:00:00+00:00", "Quality": "1"},
        ],
        RATING_HEADER,
    )
    skipped, record = format_for(path).read(path)
    assert skipped == Skipped(3, "rated again in line 2; the last rating counts")
    assert isinstance(record, Record)
    assert record.ratings_only
    assert dict(record.ratings[0].answers) == {"quality": 6}


@pytest.mark.django_db
def test_ratings_without_their_conversations_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "chat_ratings.csv"
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, RATING_HEADER)
        writer.writeheader()
        writer.writerow(
            {
                **dict.fromkeys(RATING_HEADER, ""),
                "ID": "1",
                "Chat ID": "c1",
                "Datetime": "2019-05-29T21:36:04+00:00",
                "Chatbot ID": "b",
                "Quality": "5",
            }
        )
    with pytest.raises(Refused, match="without their conversations"):
        import_conversations(file, study_key="new")
    assert not Study.objects.exists()
