"""The CSV files of the 2019 server."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from chatbots import Turn
from evaluation.formats.base import Record, Skipped
from evaluation.formats.neural_chat import RATING_HEADER, RECORD_HEADER
from evaluation.formats.text_files import format_for
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations


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
            row("a", "2019-05-29T21:36:04+00:00", "m", "r"),
            row("a", "yesterday", "m", "r"),
            row("b", "2019-05-29T21:36:04+00:00", "m", "r", "5"),
            row("c", "2019-05-29T21:36:04+00:00", "m", "r"),
            row("", "2019-05-29T21:36:04+00:00", "m", "r"),
            row("d", "2019-05-29T21:36:04+00:00", "m", "r", **{"Chat Rating Quality": "good"}),
        ],
    )
    with path.open("ab") as file:
        file.write(b"only,three,cells\r\n")
        file.write(b"9,e,2019-05-29T21:36:04+00:00,hred,\xff,r" + b"," * 11 + b"\r\n")
    items = list(format_for(path).read(path))
    assert [item.dialogue_id for item in items if isinstance(item, Record)] == ["c"]
    told = {item.line: item.reason for item in items if isinstance(item, Skipped)}
    assert told[3].startswith("Datetime is 'yesterday'; ISO 8601")
    assert "its chat is left out" in told[3]
    assert told[4].startswith("Response Rating is '5'")
    assert told[6] == "Chat ID is empty"
    assert told[7].startswith("Chat Rating Quality is 'good'; a number")
    assert told[8] == "the row has 3 cells; the header has 17"
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
