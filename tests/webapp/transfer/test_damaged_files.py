"""Damaged, cut and encrypted files: one clear sentence at every entry point, with the name that the person knows."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

import confab
from tests.builders import import_upload, make_staff, make_study
from tests.webapp.api.programs import Program
from tests.webapp.transfer.test_package import opened, packed
from webapp.core.backups import backup_make
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job
from webapp.transfer.job_files import upload_folder, upload_import, upload_keep

pytestmark = pytest.mark.django_db

METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}
NO_SENTENCE = ("Error", "Errno", "Traceback", "BadZipFile", "codec", "Exception", "\n")
CHAT = {"dialogue_id": "a", "bot": "b", "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}]}


def zipped(files: dict[str, bytes], method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def damaged(whole: bytes, n: int) -> Iterator[bytes]:
    """Yield copies with a byte changed in a header, the directory or the data, or with the end missing."""
    drawn = random.Random(7)
    headers = [whole.find(b"PK\x03\x04"), whole.find(b"PK\x01\x02"), whole.rfind(b"PK\x05\x06")]
    places = [start + k for start in headers for k in range(46) if start + k < len(whole)]
    places += [drawn.randrange(len(whole)) for _ in range(n)]
    for at in places:
        value = whole[at] ^ drawn.choice((0xFF, 1))
        yield whole[:at] + bytes([value]) + whole[at + 1 :]
    for _ in range(5):
        yield whole[: drawn.randrange(4, len(whole))]


def refused(*command: str) -> str:
    """Run a command, and return the sentence it refuses with; empty if it takes the file."""
    try:
        call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())
    except CommandError as error:
        assert error.returncode == 1
        return str(error)
    return ""


def assert_sentence(text: str, name: str) -> None:
    assert not any(word in text for word in NO_SENTENCE), text
    assert name in text or text.startswith("the package"), text


def test_a_damaged_package_is_one_sentence(tmp_path: Path) -> None:
    whole = zipped(opened(packed(make_study())), zipfile.ZIP_DEFLATED)
    path, n_refused = tmp_path / "mine.zip", 0
    for number, data in enumerate(damaged(whole, 20)):
        path.write_bytes(data)
        for command in (["import_conversations", "--study", f"s{number}"], ["verify"]):
            if said := refused(command[0], str(path), *command[1:]):
                n_refused += 1
                assert_sentence(said, "mine.zip")
    assert n_refused > 80


@pytest.mark.parametrize("method", METHODS)
def test_a_damaged_zip_is_read_by_the_notebook_with_one_sentence(method: str, tmp_path: Path) -> None:
    whole = zipped({"chats.jsonl": (json.dumps(CHAT) + "\n").encode() * 50}, METHODS[method])
    path, n_refused = tmp_path / "mine.zip", 0
    for data in damaged(whole, 60):
        path.write_bytes(data)
        try:
            confab.read(path)
        except ValueError as error:
            n_refused += 1
            assert_sentence(str(error), "mine.zip")
    assert n_refused > 60


@pytest.mark.django_db(transaction=True)
def test_a_damaged_backup_is_one_sentence(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path
    whole = backup_make(tmp_path / "whole.zip")[0]
    with zipfile.ZipFile(whole) as archive:
        files = {name: archive.read(name)[:100_000] for name in archive.namelist()}
    path = tmp_path / "mine.zip"
    for data in damaged(zipped(files, zipfile.ZIP_DEFLATED), 20):
        path.write_bytes(data)
        said = refused("restore", str(path))
        assert said, "a backup whose database was cut cannot be restored"
        assert_sentence(said, "mine.zip")


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    whole = bytearray(zipped({"versions.json": b"{}"}, zipfile.ZIP_STORED))
    for start in (whole.find(b"PK\x03\x04") + 6, whole.find(b"PK\x01\x02") + 8):
        whole[start] |= 1
    path = tmp_path / "mine.zip"
    path.write_bytes(whole)
    for command in (["import_conversations", "--study", "s"], ["verify"], ["restore"]):
        said = refused(command[0], str(path), *command[1:])
        assert "encrypted" in said
        assert_sentence(said, "mine.zip")


BROKEN = {
    "mine.zip": zipped({"a": b"b" * 100}, zipfile.ZIP_LZMA).replace(b"PK\x05\x06", b"PK\x05\x05"),
    "mine.jsonl.gz": b"\x1f\x8c" + gzip.compress(b"{}\n" * 100)[2:],
    "cut.jsonl.gz": gzip.compress(b"{}\n" * 100)[:12],
    "mine.jsonl": b"\x00\x01 nothing known",
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("waits", [True, False])
def test_the_page_and_its_job_name_the_persons_own_file(
    name: str, waits: bool, client: Client, settings: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    user = make_staff(*Right)
    client.force_login(user)
    settings.DATA_DIR = tmp_path
    upload = SimpleUploadedFile(name, BROKEN[name])
    if waits:
        error = import_upload(client, upload).context["error"]
    else:
        upload_import(path=upload_folder() / upload_keep(upload, user), name=name, study="imp", created_by=user)
        job = Job.objects.get()
        run_job(job)
        job.refresh_from_db()
        assert job.state == "failed"
        error = job.error
    assert_sentence(error, name)
    assert "upload." not in error
    assert str(tmp_path) not in error
    assert error.count(name) == 1


def test_the_api_and_its_job_name_the_persons_own_file(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    answer = Program(Right.READ, Right.RUN).client.post(
        "/api/v1/studies/imp/conversations", {"file": SimpleUploadedFile("mine.zip", BROKEN["mine.zip"])}
    )
    assert answer.status_code == 202
    job = Job.objects.get()
    run_job(job)
    job.refresh_from_db()
    assert job.error == "mine.zip is a damaged zip; copy or download it again"


@pytest.mark.parametrize("name", ["mine.jsonl.gz", "cut.jsonl.gz"])
def test_a_damaged_file_of_judged_replies_is_refused(name: str, settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    answer = Program(Right.READ, Right.RUN).client.post(
        "/api/v1/benchmark/files", {"file": SimpleUploadedFile(name, BROKEN[name])}
    )
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith("The first lines contain no rated reply.")
    assert not any(word in message for word in NO_SENTENCE)
    assert "upload" not in message
