"""The databases that servers under test get, also from programs outside pytest such as `make chaos`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_a_program_outside_pytest_has_migrated_databases_until_it_ends() -> None:
    code = """
import sqlite3
from tests.databases import migrated_file
path = migrated_file()
with sqlite3.connect(path) as tables:
    tables.execute("SELECT count(*) FROM studies_study").fetchone()
print(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "CONFAB_TEST_DIR"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    path = Path(done.stdout.splitlines()[-1])
    assert path.name == "confab.sqlite3"
    assert not path.parent.exists()
