"""`make run` on what an earlier one left, ended by a signal to `make` alone; `test_package.py` has a first run."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT, free_port
from tests.databases import migrated_file
from tests.documents import blocks_tested

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(os.environ.get("DATABASE_URL")), reason="make run is embedded; tested in that run"),
]

HERE = "tests/journeys/test_make_run.py::test_make_run_serves_and_stops_everything"


def living(data_dir: Path, variable: str = "CONFAB_DATA_DIR") -> list[psutil.Process]:
    """Return every process that was started with this folder in the variable, wherever it is in the tree."""
    results = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(variable) == str(data_dir):
                results.append(process)
    return results


def wait_for(condition, what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} took longer than {timeout_s:g} s"
        time.sleep(0.2)


def used_before(data_dir: Path, env: dict[str, str]) -> None:
    """Put into the folder what an earlier `make run` left, with a demo whose only bot is there at once."""
    code = (
        "from webapp.studies.services import study_create;"
        "study_create(key='demo', name='Mine', title='Changed since', bots=['eliza'], state='collecting')"
    )
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=600)


def test_make_run_serves_and_stops_everything(tmp_path: Path, vector_cache: Path) -> None:
    (tmp_path / "cache").symlink_to(vector_cache)
    port = free_port()
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("CONFAB_") and k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    env = {
        **kept,
        "DATABASE_URL": "",
        "REDIS_URL": "",
        "DJANGO_SETTINGS_MODULE": "webapp.settings.embedded",
        "CONFAB_DATA_DIR": str(tmp_path),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    # Tables are made by the same command in an empty folder where the installed package is tested.
    shutil.copy(migrated_file(), tmp_path / "confab.sqlite3")
    used_before(tmp_path, env)
    output = (tmp_path / "make.log").open("w")
    # README and the documentation have the same two commands; what runs here is the suite.
    [(run, suite)] = {tuple(block.commands) for block in blocks_tested(HERE)}
    assert suite == "make test"
    make = subprocess.Popen(run.split(), cwd=ROOT, env=env, stdout=output, stderr=output, start_new_session=True)

    def healthy() -> bool:
        assert make.poll() is None, (tmp_path / "make.log").read_text()[-3000:]
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{port}/healthz"
            return bool(json.load(urllib.request.urlopen(url, timeout=5))["bots"]["ok"])
        return False

    def worker_is_up() -> bool:
        return any("celery" in " ".join(process.cmdline()) for process in living(tmp_path))

    try:
        wait_for(healthy, "a healthy answer", 600)
        wait_for(worker_is_up, "the worker", 600)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/s/demo/", timeout=600)
        assert page.status == 200
        assert b"Changed since" in page.read()
        text = (tmp_path / "make.log").read_text()
        assert f"http://127.0.0.1:{port}/s/demo/" in text
        assert "admin / " in text
        make.send_signal(signal.SIGTERM)
        make.wait(timeout=600)
        wait_for(lambda: not living(tmp_path), "stopping every process", 600)
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
    finally:
        for process in living(tmp_path):
            with contextlib.suppress(psutil.Error):
                process.kill()
        output.close()
