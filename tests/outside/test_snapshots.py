"""All snapshots, in a process of their own: tests before them in this one may have registered bots and metrics."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MODULES = sorted(FOLDER.glob("seen_*.py"))


@pytest.mark.slow
def test_an_outsider_sees_what_is_stored() -> None:
    # A run of its own: with a folder of the run around it, it would drop that run's databases at its end.
    ours = ("PYTEST_", "CONFAB_TEST_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # Snapshots are of SQLite's orders; tests of views and tables ask both databases.
    env |= {"DATABASE_URL": "", "REDIS_URL": ""}
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=short", "--show-capture=no", *map(str, MODULES)],
        cwd=FOLDER.parents[1],
        env=env,
        capture_output=True,
        text=True,
    )
    assert len(MODULES) == 3
    assert process.returncode == 0, process.stdout[-6000:]
