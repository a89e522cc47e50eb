"""Zips of data files, and files that are made to harm: read, or rejected by name and place."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

import confab
from evaluation.data.formats import text_files
from evaluation.data.formats.text_files import MAX_COLUMNS
from tests.builders import make_staff
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.transfer.job_files import upload_folder

pytestmark = pytest.mark.django_db

CHAT = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], "model": "m"}
LINES = (json.dumps({**CHAT, "id": "a"}) + "\n" + json.dumps({**CHAT, "id": "b"}) + "\n").encode()
EXPORT = [
    {
        "id": "c1",
        "title": "Tomatoes",
        "current_node": "2",
        "mapping": {
            "1": {"message": {"author": {"role": "user"}, "content": {"parts": ["Hi"]}}, "parent": None},
            "2": {"message": {"author": {"role": "assistant"}, "content": {"parts": ["Hello"]}}, "parent": "1"},
        },
    }
]


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def run(path: Path, *args: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("import_conversations", str(path), "--json", "--study", "k", *args, stdout=out, stderr=io.StringIO())
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


def refusal(path: Path) -> str:
    """Return the sentence with which command and notebook refuse a file; both must be the same."""
    with pytest.raises(ValueError, match=path.name) as notebook:
        confab.read(path)
    with pytest.raises(CommandError) as command:
        call_command("import_conversations", str(path), "--study", "k", stdout=io.StringIO(), stderr=io.StringIO())
    assert command.value.returncode == 1
    assert str(command.value) == str(notebook.value)
    assert not Conversation.objects.exists()
    return str(notebook.value)


ZIPS: dict[str, tuple[dict[str, bytes], int]] = {
    "one.zip": ({"folder/chats.jsonl": LINES, "__MACOSX/folder/._chats.jsonl": b"\x00\x05", "readme.txt": b"x"}, 2),
    "packed.zip": ({"chats.jsonl.gz": gzip.compress(LINES)}, 2),
    "table.zip": ({"t.csv": b"conversation,bot,user,response\nc1,m,Hi,Hello\n"}, 1),
    "chatgpt.zip": (
        {
            "user.json": b'{"id": "u", "email": "a@b.c"}',
            "conversations.json": json.dumps(EXPORT).encode(),
            "message_feedback.json": b"[]",
            "chat.html": b"<html>",
        },
        1,
    ),
}


@pytest.mark.parametrize("name", ZIPS)
def test_the_data_file_of_a_zip_is_read_at_every_entry_point(
    name: str, tmp_path: Path, client: Client, settings: Any
) -> None:
    files, n = ZIPS[name]
    path = zipped(tmp_path / name, files)
    assert run(path)["conversations"] == n
    assert len(confab.read(path)) == n
    assert run(path)["conversations"] == 0
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    client.force_login(make_staff(Right.READ, Right.RUN))
    preview = client.post(
        reverse("dashboard:imports"), {"file": SimpleUploadedFile(name, path.read_bytes())}, follow=True
    )
    assert preview.context["contents"].n_conversations == n
    [kept] = upload_folder().iterdir()
    assert kept.suffix != ".zip"


def test_a_mapping_applies_within_a_zip(tmp_path: Path) -> None:
    rows = [{"id": "a", "log": [{"who": "A", "text": "Hi"}, {"who": "B", "text": "Hello"}]}]
    path = zipped(tmp_path / "x.zip", {"conversations.json": json.dumps(rows).encode()})
    run(path, "--speaker", "A=bot", "--speaker", "B=human", "--bot", "luna")
    study = confab.read(path, speakers={"A": "bot", "B": "human"}, bot="luna")
    for chat in (Conversation.objects.get(), study.dialogues[0].conversation):
        turns = chat.turns.order_by("index") if isinstance(chat, Conversation) else chat.turns
        assert [turn.speaker for turn in turns] == ["bot", "human"]
    assert study.bots == ("luna",)


def test_a_zip_of_several_data_files_names_them(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a.jsonl": LINES, "b/b.csv": b"x"})
    assert refusal(path) == "x.zip contains 2 data files: a.jsonl, b/b.csv; unpack it and import one"


def test_a_zip_within_a_zip_is_not_opened(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", {"a.jsonl": LINES})
    reason = refusal(zipped(tmp_path / "outer.zip", {"inner.zip": inner.read_bytes()}))
    assert reason.startswith("outer.zip contains neither a data package nor a file ending in .jsonl, ")
    assert reason.endswith("it contains inner.zip")
    reason = refusal(zipped(tmp_path / "outer.zip", {"a.csv": inner.read_bytes()}))
    assert reason == "outer.zip: 'a.csv' is a zip; unpack outer.zip and import the zip in it"


def test_a_bomb_of_zip_is_rejected_before_it_is_unpacked(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.zip", {"a.jsonl": LINES})
    whole = bytearray(path.read_bytes())
    entry = whole.find(b"PK\x01\x02")
    whole[entry + 24 : entry + 28] = (4 * 10**9).to_bytes(4, "little")  # its size, as the directory says
    path.write_bytes(whole)
    assert re.match(r"bomb.zip has \d+ bytes and would unpack to 4,000,000,000", refusal(path))


def test_a_bomb_of_gzip_ends_where_it_expands_too_much(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_files, "_most_expanded", lambda path: 200 * path.stat().st_size)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(LINES + b" " * 5_000_000 + b"\n" + LINES))
    report = run(path)
    assert report["conversations"] == 2
    assert [skipped["line"] for skipped in report["skipped"]] == [4]
    assert "the file expands to more than" in report["skipped"][0]["reason"]


def test_a_bomb_of_excel_is_rejected(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.xlsx", {"xl/workbook.xml": b"<x/>", "xl/worksheets/sheet1.xml": b" " * 40_000_000})
    assert refusal(path) == "bomb.xlsx expands to 40,000,004 bytes, which is too much for its size"


def test_a_bomb_of_parquet_ends_where_it_expands_too_much(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_files, "_most_expanded", lambda path: 10_000_000)
    monkeypatch.setattr(text_files, "_BATCH_BYTES", 2_000_000)
    once = arrow.DictionaryArray.from_arrays(arrow.array([0] * 500, arrow.int32()), arrow.array(["x" * 500_000]))
    table = arrow.table({"conversation": [f"c{n}" for n in range(500)], "user": once, "bot": ["m"] * 500})
    path = tmp_path / "bomb.parquet"
    parquet.write_table(table, path)
    assert path.stat().st_size < 100_000
    names = [row for row in text_files.plain_rows(path)[1] if isinstance(row, text_files.Skipped)]  # type: ignore[index]
    assert [skipped.reason for skipped in names] == [
        "the file expands to more than 10,000,000 bytes; the rest is not read"
    ]
    assert names[0].line < 100


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_a_table_of_too_many_columns_is_rejected_by_name(ending: str, tmp_path: Path) -> None:
    n = 1_000_000 if ending == "csv" else MAX_COLUMNS + 1
    path = tmp_path / f"wide.{ending}"
    row = {f"c{number}": "x" for number in range(n)}
    if ending == "csv":
        path.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    elif ending == "parquet":
        parquet.write_table(arrow.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps([row]))
    pattern = rf"wide\.{ending} has (more than )?[\d,]+ columns; at most {MAX_COLUMNS:,} are allowed"
    assert re.fullmatch(pattern, refusal(path))


@pytest.mark.parametrize("keys", [100_000])
def test_a_record_of_many_keys_is_read_without_them(keys: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**{f"k{n}": n for n in range(keys)}, **CHAT, "id": "a"}) + "\n")
    assert run(path)["conversations"] == 1


BROKEN_RECORDS = {
    "chats.jsonl": (
        [json.dumps({**CHAT, "id": n}) for n in range(2)]
        + [json.dumps({"messages": [{"role": "user", "content": "a\x00b"}], "id": "n"}), '{"messages": [', "7"],
        {
            3: "message 1 contains the character U+0000",
            4: "not JSON: Expecting value at character 15",
            5: "the line is a number; it must be an object {…}",
        },
    ),
    "chats.csv": (
        ["conversation,bot,user,response", "a,m,Hi,Hello", "b,m,Hi,Hello", "c,m,a\x00b,Hello"],
        {4: "U+0000"},
    ),
}


@pytest.mark.parametrize("name", BROKEN_RECORDS)
def test_broken_records_are_skipped_by_place(name: str, tmp_path: Path) -> None:
    lines, reasons = BROKEN_RECORDS[name]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    report = run(path)
    assert report["conversations"] == 2
    assert {skipped["line"]: skipped["reason"] for skipped in report["skipped"]}.keys() == reasons.keys()
    for skipped in report["skipped"]:
        assert reasons[skipped["line"]] in skipped["reason"]


def test_source_ids_are_dropped_unless_they_are_chosen(tmp_path: Path) -> None:
    chat = {
        "conversation_hash": "c1",
        "model": "m",
        "conversation": [{**CHAT["messages"][0], "hashed_ip": "0a1b", "country": "Peru"}, CHAT["messages"][1]],  # type: ignore[index]
        "hashed_ip": "0a1b",
        "toxic": False,
        "header": {"user-agent": "Firefox"},
    }
    path = tmp_path / "wild.jsonl"
    path.write_text(json.dumps(chat) + "\n")
    run(path)
    stored = json.dumps(list(Conversation.objects.values()), default=str)
    assert not any(value in stored for value in ("0a1b", "Peru", "Firefox"))
    assert confab.read(path).conversations.columns.str.startswith("condition_").sum() == 0
    Conversation.objects.all().delete()
    run(path, "--keep", "country")
    assert Conversation.objects.get().condition == {"country": "Peru"}
