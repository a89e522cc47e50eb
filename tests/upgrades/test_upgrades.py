"""A database of an earlier release, in which a study collects and work is under way, loses nothing by an upgrade."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.databases import own_database

RELEASES = sorted(path.parent for path in Path(__file__).parent.glob("*/facts.json"))
# The code that Prolific's people were shown, where there was one of ours that nobody saw.
SAYS_MORE = {"collects.chat_ratings.csv": ("MTurk Code",)}


@pytest.fixture
def empty_database(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Make an empty database and give the environment of a process that has it to itself."""
    env = {**os.environ, "CONFAB_TEST_DIR": str(tmp_path)}
    for _ in own_database(env):
        yield env


def rows_of(path: Path) -> list[list[Any]]:
    """Return the table's cells; nested ones as values, for databases keep their keys in different orders."""
    with path.open(newline="") as file:
        return [
            [json.loads(cell) if cell[:1] in ("{", "[") else cell for cell in row]
            for row in csv.reader(file)
        ]


def told_by(module: str, *args: Path, env: dict[str, str]) -> dict[str, Any]:
    """Run a module in a process of its own and return the JSON that it prints."""
    command = [sys.executable, "-m", module, *map(str, args)]
    done = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def columns_of(rows: list[list[Any]], names: list[Any]) -> list[list[Any]]:
    """Return these columns of a table alone: a later release may have more."""
    places = [rows[0].index(name) for name in names]
    return [[row[place] for place in places] for row in rows]


@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.name)
def test_an_upgrade_loses_nothing(
    kept: Path, tmp_path: Path, empty_database: dict[str, str]
) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    found = told_by("tests.upgrades.upgrade", kept, tables, env=empty_database)

    before = {path.name: rows_of(path) for path in kept.glob("*.csv")}
    assert {"collects.participants.csv", "collects.ratings.csv", "imported.ratings.csv"} <= set(
        before
    )
    for name, rows in before.items():
        same = [column for column in rows[0] if column not in SAYS_MORE.get(name, ())]
        assert columns_of(rows_of(tables / name), same) == columns_of(rows, same), name
    facts = json.loads((kept / "facts.json").read_text())
    for what, fact in facts.items():
        assert found["facts"][what] == fact, what

    goes_on = found["goes_on"]
    assert len(goes_on["code"]) == 7, "the rating that was begun is sent, and earns a code"
    assert len(goes_on["bots"]) == 2
    assert goes_on["last"] == "full"


@pytest.mark.parametrize("kept", RELEASES, ids=lambda path: path.name)
def test_work_that_is_half_done_goes_on_after_an_upgrade_or_ends_clearly(
    kept: Path, empty_database: dict[str, str]
) -> None:
    found = told_by("tests.upgrades.half_done", kept, env=empty_database)
    ended, names = found["ended"], found["names"]
    assert ended[f"selfplay {names['selfplay']}"] == ["done", 4, 4, ""]
    assert found["same"], "what is there was kept, and what was missing is what it would have been"
    assert found["texts"] == 16
    assert ended[f"selfplay {names['stopping']}"][0] == "cancelled"
    assert ended[f"metrics {names['metrics']}"] == ["done", 12, 12, ""]
    assert found["results"] == names["results"]
    assert ended[f"hybrid {names['hybrid']}"][0] == "done"
    assert {state for state, *_ in ended.values()} == {"done", "cancelled"}, ended
