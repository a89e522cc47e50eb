"""One study with conditions: collected by scripted people, exported, imported, one person erased, cells balanced."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.conftest import ConfabServer
from tests.journeys.test_research import answer

pytestmark = pytest.mark.slow

PEOPLE = 8


def cells_of(path: Path) -> Counter[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return Counter((row["bot"], row["condition_scenario"]) for row in csv.DictReader(file))


def export(server: ConfabServer, study: str, what: str, path: Path) -> None:
    answer(server, "export", "--study", study, "--what", what, "--include-synthetic", "--output", str(path))


def test_ieval_is_collected_exported_imported_and_one_person_erased(
    test_bots_server: ConfabServer, tmp_path: Path
) -> None:
    server, file = test_bots_server, tmp_path / "ieval.yaml"
    assert answer(server, "study_example", "ieval", "--output", str(file))["file"] == str(file)
    plain = yaml.safe_load(file.read_text())
    plain |= {"bots": ["eliza", "test-quick"]}
    file.write_text(yaml.safe_dump(plain))
    assert answer(server, "import_study", str(file), "--open")["study"] == "ieval"

    played = answer(server, "rehearse", "--study", "ieval", "--people", str(PEOPLE), "--url", server.url)

    assert (played["done"], played["failed"]) == (PEOPLE, [])
    table = tmp_path / "ratings.csv"
    export(server, "ieval", "ratings", table)
    cells = cells_of(table)
    scenarios = {level["key"] for level in plain["conditions"]["factors"][0]["levels"]}
    assert {scenario for _bot, scenario in cells} == scenarios
    assert len(cells) == 8
    assert max(cells.values()) - min(cells.values()) <= 1, cells
    package, again = tmp_path / "ieval.zip", tmp_path / "again.csv"
    export(server, "ieval", "package", package)
    imported = answer(server, "import_conversations", str(package), "--study", "ieval-again")
    assert (imported["ratings"], imported["skipped"]) == (cells.total(), [])
    export(server, "ieval-again", "ratings", again)
    assert cells_of(again) == cells
    with table.open(newline="", encoding="utf-8") as rows:
        person = next(csv.DictReader(rows))["rater"]
    removed = answer(server, "erase", "--study", "ieval", "--participant", person)["removed"]
    assert sum(removed.values()) > 0
    export(server, "ieval", "ratings", table)
    assert cells_of(table).total() < cells.total()
