"""What keeps Confab from serving is one clear sentence, said before any address."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, free_port
from tests.console import Console
from tests.databases import migrated_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(os.environ.get("DATABASE_URL")), reason="about the embedded defaults"),
]


def environment(data_dir: Path) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")},
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(data_dir),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }


Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def manage(tmp_path: Path) -> Iterator[Manage]:
    """Run commands in a process that has imported Django."""
    console = Console(environment(tmp_path))
    yield lambda *args: console.run(args, check=False, timeout_s=600)
    console.close()


def manage_anew(data_dir: Path, *args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """Run a command by Python itself: for what goes wrong while Django is set up, and where output goes elsewhere."""
    return subprocess.run(
        [sys.executable, "manage.py", *args],
        cwd=ROOT,
        env=environment(data_dir),
        text=True,
        stderr=subprocess.PIPE,
        timeout=600,
        **{"stdout": subprocess.PIPE, **kwargs},  # type: ignore[call-overload]
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line on standard error; nothing may be said before it."""
    assert done.returncode == 1
    assert not done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_port_in_use(manage: Manage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal(manage("serve", "--demo", "--port", str(port)))
    assert f"port {port}" in said
    assert "in use" in said


@pytest.mark.parametrize("where", [("--host", "nowhere.invalid"), ("--port", "99999")])
def test_no_such_address(manage: Manage, where: tuple[str, str]) -> None:
    assert where[1] in refusal(manage("serve", "--demo", *where))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(manage_anew(tmp_path / "file" / "var", "serve", "--demo"))
    assert str(tmp_path / "file" / "var") in said
    assert "CONFAB_DATA_DIR" in said


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests may run as root, who can write anywhere.
    from django.core.exceptions import ImproperlyConfigured

    from webapp.settings.env import folder_made

    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ImproperlyConfigured, match=f"{tmp_path} is not writable.*VARIABLE"):
        folder_made(tmp_path, "VARIABLE")
    assert folder_made(tmp_path, "VARIABLE", is_written=False) == tmp_path


def test_a_read_only_database(tmp_path: Path, manage: Manage) -> None:
    database = tmp_path / "confab.sqlite3"
    shutil.copy(migrated_file(), database)
    # SQLite's own mark for "may be read only", which holds for root too: the write version in byte 18.
    with database.open("r+b") as file:
        file.seek(18)
        file.write(b"\x05")
    for options in ((), ("--demo",)):
        said = refusal(manage("serve", "--port", str(free_port()), *options))
        assert str(database) in said
        assert "read-only" in said


def test_nobody_reads_what_is_written(tmp_path: Path) -> None:
    shutil.copy(migrated_file(), tmp_path / "confab.sqlite3")
    for command in (("list_bots",), ("serve", "--port", str(free_port()))):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = manage_anew(tmp_path, *command, stdout=write_end)
        os.close(write_end)
        assert done.returncode == 1
        assert done.stderr == "The reader of this output has closed it; stopped.\n"
