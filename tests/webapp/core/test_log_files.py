"""The log file: written by several at once, begun anew when full, its owner's alone, without tokens."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, start_confab
from tests.journeys.test_make_run import wait_for
from webapp.core.logs import SharedRotatingFile


def test_no_line_is_lost_or_doubled_where_two_write_and_begin_new_files(tmp_path: Path) -> None:
    file = tmp_path / "confab.log"
    writers = [SharedRotatingFile(str(file), maxBytes=400, backupCount=99) for _ in range(2)]
    expected = []
    for number in range(120):
        text = f"line {number:04} {'x' * (number % 7)}"
        expected.append(text)
        record = logging.LogRecord("webapp", logging.INFO, "", 0, text, None, None)
        writers[number % 3 % 2].emit(record)
    for writer in writers:
        writer.close()
    files = sorted(tmp_path.glob("confab.log*"))
    files = [file for file in files if not file.name.endswith(".lock")]
    assert len(files) > 3
    assert all(file.stat().st_size <= 400 for file in files)
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    lines = sorted(line for file in files for line in file.read_text().splitlines())
    assert lines == expected


@pytest.mark.parametrize("settings", ["embedded", "production"])
def test_what_is_logged_stands_in_the_file_without_tokens(tmp_path: Path, settings: str) -> None:
    file = tmp_path / "logs" / "confab.log"
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("CONFAB_")},
        "DJANGO_SETTINGS_MODULE": f"webapp.settings.{settings}",
        "CONFAB_DATA_DIR": str(tmp_path),
        "CONFAB_LOG_FILE": str(file),
        "CONFAB_SECRET_KEY": "log-test-" + "k3y" * 20,
        "CONFAB_HOSTS": "confab.example",
        "DATABASE_URL": "",
        "REDIS_URL": "",
    }
    code = (
        "import django, logging; django.setup()\n"
        "logging.getLogger('webapp.x').info('opened /s/demo/?t=abc:def:ghi')\n"
        "from webapp.celery import app; print(app.conf.worker_hijack_root_logger)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
    (line,) = file.read_text().splitlines()
    assert "INFO webapp.x: opened /s/demo/" in line
    assert "abc:def:ghi" not in line


_WRITER = """
import logging, sys
from webapp.core.logs import SharedRotatingFile
handler = SharedRotatingFile(sys.argv[1], maxBytes=3000, backupCount=9999)
log = logging.getLogger("w")
log.addHandler(handler)
log.setLevel("INFO")
for number in range(300):
    log.info("%s %04d", sys.argv[2], number)
"""


def test_processes_that_write_at_once_lose_no_line(tmp_path: Path) -> None:
    file = tmp_path / "confab.log"
    names = ("web", "worker", "bot-host")
    started = [subprocess.Popen([sys.executable, "-c", _WRITER, str(file), name], cwd=ROOT) for name in names]
    assert [process.wait(timeout=600) for process in started] == [0, 0, 0]
    files = [result for result in tmp_path.glob("confab.log*") if result.suffix != ".lock"]
    assert len(files) > 3
    lines = sorted(line for file in files for line in file.read_text().splitlines())
    assert lines == sorted(f"{name} {number:04d}" for name in names for number in range(300))


@pytest.mark.slow
def test_a_worker_and_the_web_process_write_to_one_file(tmp_path: Path, vector_cache: Path) -> None:
    file = tmp_path / "logs" / "confab.log"
    log = {"CONFAB_LOG_FILE": str(file)}
    for server in start_confab(tmp_path, vector_cache, log, with_demo=False):
        server.add_study("empty", ["eliza"])
        server.start_worker()
        wait_for(lambda: file.exists() and "worker@" in file.read_text(), "the worker's lines", 120)
        server.manage("compute_metrics", "--study", "empty", "--metrics", "words", "--inline")
        server.kill("worker", signal.SIGTERM)
    lines = file.read_text().splitlines()
    assert any(" ready." in line for line in lines)
    assert all(re.match(r"\d{4}-\d\d-\d\d", line) for line in lines if not line.startswith(" "))
