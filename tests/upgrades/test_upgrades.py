"""A database of an earlier release loses nothing by an upgrade; its studies and its work under way go on."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.upgrades.conftest import RELEASES, told_by
from tests.upgrades.database import describe_schema

# The code that Prolific's people were shown, where there was one of ours that nobody saw.
SAYS_MORE = {"collects.chat_ratings.csv": ("MTurk Code",)}
WITH_WORK = ("runs", "fits")
"""Facts to which the work that was under way adds its own."""


def rows_of(path: Path) -> list[list[Any]]:
    """Return the table's cells; nested ones as values, for databases keep their keys in different orders."""
    with path.open(newline="") as file:
        return [[json.loads(cell) if cell[:1] in ("{", "[") else cell for cell in row] for row in csv.reader(file)]


def columns_of(rows: list[list[Any]], names: list[Any]) -> list[list[Any]]:
    """Return these columns of a table alone: a later release may have more."""
    places = [rows[0].index(name) for name in names]
    return [[row[place] for place in places] for row in rows]


@pytest.mark.django_db
@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.name)
def test_an_upgrade_loses_nothing_and_work_under_way_goes_on(
    kept: Path, tmp_path: Path, empty_database: dict[str, str]
) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    upgraded = told_by("tests.upgrades.upgrade", kept, tables, env=empty_database)

    before = {path.name: rows_of(path) for path in kept.glob("*.csv")}
    assert {"collects.participants.csv", "collects.ratings.csv", "imported.ratings.csv"} <= set(before)
    for name, rows in before.items():
        same = [column for column in rows[0] if column not in SAYS_MORE.get(name, ())]
        assert columns_of(rows_of(tables / name), same) == columns_of(rows, same), name
    facts = json.loads((kept / "facts.json").read_text())
    for what, fact in facts.items():
        if what in WITH_WORK:
            assert upgraded["facts"][what][: len(fact)] == fact, what
        else:
            assert upgraded["facts"][what] == fact, what

    projects = upgraded["projects"]
    assert projects["of_rows"] == ["default"]
    assert set(projects["with_roles"]) <= {"default"}
    assert projects["elsewhere"] == []
    assert projects["n_users"] > 0

    goes_on = upgraded["goes_on"]
    assert len(goes_on["code"]) == 7, "the rating that was begun is sent, and earns a code"
    assert len(goes_on["bots"]) == 2
    assert goes_on["last"] == "full"

    work = upgraded["work"]
    ended, names = work["ended"], work["names"]
    assert ended[f"selfplay {names['selfplay']}"] == ["done", 4, 4, ""]
    assert work["same"], "what is there was kept, and what was missing is what it would have been"
    assert work["texts"] == 16
    assert ended[f"selfplay {names['stopping']}"][0] == "cancelled"
    assert ended[f"metrics {names['metrics']}"] == ["done", 12, 12, ""]
    assert work["results"] == names["results"]
    assert ended[f"hybrid {names['hybrid']}"][0] == "done"
    assert {state for state, *_ in ended.values()} == {"done", "cancelled"}, ended

    # A new database gets its tables from the models, not from the migrations.
    assert upgraded["schema"] == describe_schema()
