"""The databases that servers under test get, also from programs outside pytest such as `make chaos`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db.utils import ConnectionHandler

from tests.conftest import ROOT
from webapp.core.database import journal_emptied
from webapp.settings.base import SQLITE_OPTIONS


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
        timeout=600,
    )
    path = Path(done.stdout.splitlines()[-1])
    assert path.name == "confab.sqlite3"
    assert not path.parent.exists()


@pytest.mark.django_db
def test_what_was_deleted_is_in_no_file_of_sqlite(tmp_path: Path) -> None:
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a", "OPTIONS": SQLITE_OPTIONS}
    opened = ConnectionHandler({"default": file})["default"]
    with opened.cursor() as cursor:
        cursor.execute("CREATE TABLE said (n integer PRIMARY KEY, words text)")
        rows = [(n, f"these words {n} " * (n * 5)) for n in range(1, 100)]  # pages of their own, too
        cursor.executemany("INSERT INTO said VALUES (%s, %s)", rows)
        journal_emptied(opened)
        cursor.execute("UPDATE said SET words = '' WHERE n < 50")
        cursor.execute("DELETE FROM said WHERE n >= 50")
    held = [path for path in tmp_path.iterdir() if b"these words" in path.read_bytes()]
    assert held, "until the journal is emptied"
    journal_emptied(opened)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    opened.close()
    assert [name for name, file in files.items() if b"these words" in file] == []
