"""A restoration that is killed: the old state or the new one, a marker that everything reads, and a second run."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from tests.conftest import ROOT, ConfabServer, start_confab
from webapp.core.restore_marker import RestoreMarker, read_restore_marker
from webapp.operating.incidents import RESTORE, find_problems

KILLED_AT_THE_FILES = """
import os, shutil, signal
shutil.copyfile = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from django.core.management import call_command
call_command("restore", {archive!r})
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, vector_cache: Path) -> Iterator[ConfabServer]:
    folder = tmp_path_factory.mktemp("restored")
    yield from start_confab(folder, vector_cache, with_demo=False, with_processes=False)


@pytest.fixture(scope="module")
def archive(installation: ConfabServer) -> str:
    """Back up an installation with one study and a bot file, then add another study."""
    (installation.data_dir / "bots.yaml").write_text("[]\n")
    installation.add_study("before", ["eliza"])
    file = str(installation.data_dir / "kept.zip")
    installation.manage("backup", "--output", file)
    installation.add_study("after", ["eliza"])
    return file


def studies(installation: ConfabServer) -> list[str]:
    return installation.shell(
        "from webapp.studies.models import Study; print(*Study.objects.order_by('key').values_list('key', flat=True))"
    ).split()


def assert_unfinished(installation: ConfabServer) -> None:
    """Assert that commands refuse to go on and name the archive."""
    for command in (("migrate",), ("upgrade",), ("serve", "--port", "1")):
        refused = installation.manage(*command, check=False)
        assert refused.returncode == 1
        assert "has not finished; run `" in refused.stderr
        assert "kept.zip" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_killed_between_database_and_files(installation: ConfabServer, archive: str) -> None:
    code = KILLED_AT_THE_FILES.format(archive=archive)
    killed = installation.manage("shell", "--no-imports", "-c", code, check=False)
    assert killed.returncode != 0
    assert studies(installation) == ["before"]
    assert_unfinished(installation)
    installation.manage("restore", archive)
    installation.manage("migrate")
    assert studies(installation) == ["before"]


@pytest.mark.postgres
def test_killed_in_the_database_leaves_the_old_one(installation: ConfabServer, archive: str, tmp_path: Path) -> None:
    installation.add_study("later", ["eliza"])
    before = studies(installation)
    assert before
    began = tmp_path / "began"
    os.mkfifo(began)
    # Half an archive, then nothing: the tables are dropped by now.
    program = tmp_path / "pg_restore"
    program.write_text(f"#!/bin/sh\necho 'CREATE TABLE half (n integer);'\necho > {began}\nexec sleep 600\n")
    program.chmod(0o755)
    env = {**installation.env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    restoring = subprocess.Popen(
        [sys.executable, "manage.py", "restore", archive],
        cwd=ROOT,
        env=env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    began.read_text()  # waits until the program writes
    os.killpg(restoring.pid, signal.SIGKILL)
    restoring.wait()
    assert studies(installation) == before
    assert_unfinished(installation)
    installation.manage("restore", archive)
    installation.manage("migrate")
    assert studies(installation) == ["before"]


@pytest.mark.django_db
def test_the_marker_is_on_the_health_page_and_the_system_page(settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    assert read_restore_marker() is None
    marker = RestoreMarker(tmp_path / "kept.zip")
    marker.write()
    marker.write(kept_before=tmp_path / "earlier.zip")
    health = Client().get("/healthz")
    assert health.status_code == 503
    assert "earlier.zip" in health.json()["restore"]["problem"]
    [problem] = [problem for problem in find_problems() if problem.kind == RESTORE]
    assert "kept.zip" in problem.words
    marker.clear()
    assert "problem" not in Client().get("/healthz").json()["restore"]
    assert RESTORE not in {problem.kind for problem in find_problems()}
