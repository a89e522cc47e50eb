"""A database of an earlier release, in which a study collects, loses nothing by an upgrade."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.upgrades.conftest import RELEASES, told_by

# The code that Prolific's people were shown, where there was one of ours that nobody saw.
SAYS_MORE = {"collects.chat_ratings.csv": ("MTurk Code",)}


def rows_of(path: Path) -> list[list[Any]]:
    """Return the table's cells; nested ones as values, for databases keep their keys in different orders."""
    with path.open(newline="") as file:
        return [[json.loads(cell) if cell[:1] in ("{", "[") else cell for cell in row] for row in csv.reader(file)]


def columns_of(rows: list[list[Any]], names: list[Any]) -> list[list[Any]]:
    """Return these columns of a table alone: a later release may have more."""
    places = [rows[0].index(name) for name in names]
    return [[row[place] for place in places] for row in rows]


@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.name)
def test_an_upgrade_loses_nothing(kept: Path, tmp_path: Path, empty_database: dict[str, str]) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    found = told_by("tests.upgrades.upgrade", kept, tables, env=empty_database)

    before = {path.name: rows_of(path) for path in kept.glob("*.csv")}
    assert {"collects.participants.csv", "collects.ratings.csv", "imported.ratings.csv"} <= set(before)
    for name, rows in before.items():
        same = [column for column in rows[0] if column not in SAYS_MORE.get(name, ())]
        assert columns_of(rows_of(tables / name), same) == columns_of(rows, same), name
    facts = json.loads((kept / "facts.json").read_text())
    for what, fact in facts.items():
        assert found["facts"][what] == fact, what

    projects = found["projects"]
    assert projects["of_rows"] == ["default"]
    assert set(projects["with_roles"]) <= {"default"}
    assert projects["elsewhere"] == []
    assert projects["n_users"] > 0

    goes_on = found["goes_on"]
    assert len(goes_on["code"]) == 7, "the rating that was begun is sent, and earns a code"
    assert len(goes_on["bots"]) == 2
    assert goes_on["last"] == "full"
