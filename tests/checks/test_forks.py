"""The forked workers report what one process would, and the end of a worker too."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENDINGS = """
import os, warnings, pytest

def test_passes():
    pass

def test_fails():
    print("printed by %d" % os.getpid())
    assert 1 == 2

def test_kills_its_worker():
    os._exit(3)

def test_runs_in_the_next_worker():
    warnings.warn("as seen by the worker")
"""
OTHER = """
import os, pytest

@pytest.mark.skip(reason="on purpose")
def test_skipped():
    pass

@pytest.fixture(scope="session")
def log():
    yield
    print("torn down", file=open(os.environ["LOG"], "a"))

@pytest.mark.flaky(reruns=1)
def test_passes_at_second_try(log, tries=[]):
    tries.append(1)
    assert len(tries) == 2
"""


def test_reports_of_forked_workers(tmp_path: Path) -> None:
    (tmp_path / "test_endings.py").write_text(ENDINGS)
    (tmp_path / "test_other.py").write_text(OTHER)
    plugins = ["no:django", "no:schemathesis", "no:xdist", "no:xdist.looponfail", "tests.forks"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CONFAB_", "DJANGO_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--forks=2", "-c", os.devnull, "--rootdir", tmp_path, "-rAR"]
        + [word for plugin in plugins for word in ("-p", plugin)],
        cwd=tmp_path,
        env={**environment, "LOG": str(tmp_path / "log"), "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    for line in (
        "PASSED test_endings.py::test_passes",
        "FAILED test_endings.py::test_fails - assert 1 == 2",
        "FAILED test_endings.py::test_kills_its_worker - worker 0 ended with code 3 during this test",
        "PASSED test_endings.py::test_runs_in_the_next_worker",
        "RERUN test_other.py::test_passes_at_second_try",
        "PASSED test_other.py::test_passes_at_second_try",
        "UserWarning: as seen by the worker",
        "Captured stdout call",
        "2 failed, 3 passed, 1 skipped, 1 warning, 1 rerun",
    ):
        assert line in done.stdout
    assert (tmp_path / "log").read_text() == "torn down\n"
