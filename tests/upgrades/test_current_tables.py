"""An empty database gets its tables from the models; any other one from the migrations. Both are the same."""

import re
import sqlite3
from pathlib import Path

import pytest

from tests.databases import migrate, migrated_file

pytestmark = pytest.mark.slow


def test_tables_of_the_models_equal_those_of_all_migrations(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "confab.sqlite3") as database:
        database.execute("CREATE TABLE already_there (id integer)")
    migrate({"DATABASE_URL": "", "CONFAB_DATA_DIR": str(tmp_path)})
    with sqlite3.connect(tmp_path / "confab.sqlite3") as database:
        database.execute("DROP TABLE already_there")
    by_migrations = _describe(tmp_path / "confab.sqlite3")
    assert len(by_migrations) > 300
    assert _describe(migrated_file()) == by_migrations


def _describe(file: Path) -> dict[str, list[str]]:
    """Return the sorted words that define each table, index and trigger, and the number of rows of each table."""
    with sqlite3.connect(file) as database:
        definitions = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        schema = {f"{kind} {name}": sorted(re.findall(r"[\w'.-]+|[<>=!]+", sql)) for kind, name, sql in definitions}
        for kind, name, _sql in definitions:
            if kind == "table" and name != "sqlite_sequence":
                n_rows = database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                schema[f"rows of {name}"] = [str(n_rows)]
    return schema
