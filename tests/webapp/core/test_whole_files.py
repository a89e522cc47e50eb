"""A full disk: an upload is refused with a sentence, and nothing of it stays."""

import errno
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.builders import signed_in
from tests.webapp.api.programs import Program
from webapp.core import whole_files
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.core.whole_files import whole_file
from webapp.transfer.job_files import upload_folder


class _FullDisk:
    """A file that takes a few bytes."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def write(self, data: bytes) -> int:
        self._handle.write(data[:3])
        self._handle.flush()
        raise OSError(errno.ENOSPC, "No space left on device")

    def __enter__(self) -> "_FullDisk":
        return self

    def __exit__(self, *_exception: object) -> None:
        self._handle.close()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    opens = Path.open

    def open_file(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        handle = opens(path, mode, *args, **options)
        return _FullDisk(handle) if "w" in mode and "confab" not in path.name else handle

    monkeypatch.setattr(whole_files.Path, "open", open_file)


@pytest.mark.django_db
def test_an_import_on_a_full_disk_gets_a_sentence(full_disk: None) -> None:
    before = set(upload_folder().iterdir())
    upload = SimpleUploadedFile("chats.jsonl", b"x" * 100)
    page = signed_in(Right.READ, Right.RUN, Right.ADMINISTER).post("/dashboard/imports/", {"file": upload})
    assert page.status_code == 507
    assert "disk is full" in page.content.decode()
    program = Program(Right.READ, Right.RUN, Right.ADMINISTER)
    refused = program.client.post(
        "/api/v1/studies/new/conversations", {"file": SimpleUploadedFile("chats.jsonl", b"x" * 100)}
    )
    assert refused.status_code == 507, refused.content
    assert refused.json()["error"]["code"] == "disk_full"
    assert set(upload_folder().iterdir()) == before


def test_only_a_full_disk_is_called_one(tmp_path: Path, full_disk: None) -> None:
    with pytest.raises(Refused), whole_file(tmp_path / "a") as handle:
        handle.write(b"abcdef")
    with pytest.raises(ValueError, match="other"), whole_file(tmp_path / "b"):
        raise ValueError("other")
    assert list(tmp_path.iterdir()) == []
