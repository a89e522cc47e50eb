"""Conditions of conversations: in every table, back from a package or a file, and in notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

import confab
from tests.builders import make_conversation, make_rating, make_study, signed_in
from tests.webapp.transfer.test_package import packed
from webapp.conversations.models import Conversation
from webapp.core.rights import Right
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, exporters, table_of
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db

FACTORS: list[dict[str, Any]] = [
    {
        "key": "scenario",
        "label": "Scenario",
        "levels": [
            {"key": "trip", "label": "A trip", "scenario": "You plan a trip."},
            {"key": "1", "label": "First", "goal": "Be the first."},
        ],
    }
]
LEVELS = ["trip", "1", "trip", "trip", "1", "1"]


@pytest.fixture(scope="module")
def varied_study(rows_of_file: None) -> Study:
    """Make a study of six rated conversations, three under each level."""
    study = make_study("varied", bots=["parrot"], factors=FACTORS)
    for number, level in enumerate(LEVELS):
        chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}")
        make_rating(chat, quality=7 - number)
        Conversation.objects.filter(pk=chat.pk).update(condition={"scenario": level})
    return study


@pytest.fixture
def study(varied_study: Study, db: None) -> Study:
    """Return that study as it is before any test."""
    return Study.objects.get(pk=varied_study.pk)


def _levels(study: Study) -> list[str]:
    rows = Conversation.objects.filter(study=study).order_by("created_at", "pk")
    return [row["scenario"] for row in rows.values_list("condition", flat=True)]


@pytest.mark.parametrize("name", ["conversations", "ratings", "messages", "metrics"])
def test_tables_end_with_a_column_for_each_factor(study: Study, name: str) -> None:
    table = table_of(study, name, ExportOptions())
    rows = [list(row) for row in table.rows]

    column = table.columns[-1]
    assert column.name == "condition_scenario"
    assert column.labels == (("trip", "A trip"), ("1", "First"))
    assert all(len(row) == len(table.columns) for row in rows)
    if name != "metrics":
        n_each = 6 if name == "messages" else 1
        assert sorted(row[-1] for row in rows) == sorted(LEVELS * n_each)


@pytest.mark.parametrize("exporter", sorted(exporter.name for exporter in exporters))
def test_a_study_without_factors_has_the_same_columns_as_before(exporter: str) -> None:
    table = table_of(make_study("plain"), exporter, ExportOptions())
    assert not [column.name for column in table.columns if column.name.startswith("condition")]


def test_a_package_gives_the_same_conditions_back(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "study.zip"
    path.write_bytes(packed(study))

    report = import_conversations(path, study_key="again")

    assert report.skipped == []
    read = Study.objects.get(key="again")
    assert _levels(read) == _levels(study) == LEVELS
    assert read.values.conditions == study.values.conditions
    assert study_ratings(read).condition["scenario"].tolist() == LEVELS
    notebook = confab.read(path)
    by_quality = dict(zip(notebook.ratings["quality"], notebook.ratings["condition_scenario"], strict=True))
    assert by_quality == dict(zip(range(7, 1, -1), LEVELS, strict=True))
    assert list(notebook.dimensions) == list(study_ratings(study).answers), "a level “1” is no answer"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_table_of_conversations_gives_notebooks_its_conditions(study: Study, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"talks.{kind}"
    call_command("export", study="varied", what="conversations", format=kind, output=path)

    notebook = confab.read(path)

    assert notebook.conversations["condition_scenario"].tolist() == LEVELS
    assert notebook.ratings.columns[-1] == "condition_scenario"
    assert notebook.answers.to_frame()["condition_scenario"].tolist() == LEVELS


def test_an_import_of_a_file_keeps_its_conditions_and_names_a_wrong_one(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    call_command("export", study="varied", what="conversations", format="jsonl", output=path)
    lines = path.read_text().splitlines()
    wrong = json.loads(lines[0]) | {"dialogue_id": "other", "condition_scenario": "no key!"}
    path.write_text("\n".join([*lines, json.dumps(wrong)]))

    report = import_conversations(path, study_key="from_file")

    assert _levels(Study.objects.get(key="from_file")) == LEVELS
    [skipped] = report.skipped
    assert "condition_scenario is 'no key!'" in skipped.reason


@pytest.mark.parametrize(
    ("line", "n"), [("condition:scenario=trip", 3), ("condition:scenario=1", 3), ("-condition:scenario=1", 3)]
)
def test_conversations_are_found_by_condition(study: Study, line: str, n: int) -> None:
    client = signed_in(Right.READ)
    page = client.get(reverse("dashboard:study_conversations", args=["varied"]), {"q": line})

    assert page.status_code == 200
    assert page.context["page"].total == n
    text = page.content.decode()
    assert "Scenario: A trip" in text, "a level to choose, and what the reader says of the open conversation"


def test_an_unknown_condition_is_told_with_the_known_ones(study: Study) -> None:
    page = signed_in(Right.READ).get(
        reverse("dashboard:study_conversations", args=["varied"]), {"q": "condition:scenario=tripp"}
    )
    assert page.status_code == 200
    assert "There is no condition “scenario=tripp”. Available: scenario=1, scenario=trip." in page.content.decode()


def test_the_form_narrows_by_condition(study: Study) -> None:
    client: Client = signed_in(Right.READ)
    address = reverse("dashboard:study_conversations", args=["varied"])
    answer = client.get(address, {"narrow": "1", "q": "", "condition": "scenario=trip", "state": ""})
    assert answer.status_code == 302
    assert client.get(answer["Location"]).context["page"].total == 3


def _levels_by_text(study: confab.Study) -> dict[str, str]:
    """Return each conversation's level by its first message; an exported table promises no order."""
    levels = dict(zip(study.conversations["conversation"], study.conversations["condition_scenario"], strict=True))
    first = study.messages[study.messages["turn"] == 0]
    return {text: levels[key] for key, text in zip(first["conversation"], first["text"], strict=True)}


def test_conditions_of_an_imported_file_survive_every_export(tmp_path: Path) -> None:
    lines = [
        {
            "dialogue_id": str(number),
            "bot": "b",
            "condition_scenario": level,
            "turns": [{"speaker": "human", "text": f"hi {number}"}, {"speaker": "bot", "text": "yo"}],
            "ratings": [{"rater": f"r{number}", "quality": number}],
        }
        for number, level in enumerate(("trip", "home", "trip"), 1)
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    expected = _levels_by_text(confab.read(path))
    assert expected == {"hi 1": "trip", "hi 2": "home", "hi 3": "trip"}
    import_conversations(path, study_key="imported")
    study = Study.objects.get(key="imported")
    package = tmp_path / "package.zip"
    package.write_bytes(packed(study))
    files = [package]
    for name in ("messages", "conversations"):
        files.append(tmp_path / f"{name}.csv")
        call_command("export", "--study", "imported", "--what", name, "--output", str(files[-1]), verbosity=0)
    for number, file in enumerate(files):
        assert _levels_by_text(confab.read(file)) == expected, file.name
        import_conversations(file, study_key=f"again{number}")
        assert sorted(_levels(Study.objects.get(key=f"again{number}"))) == sorted(expected.values()), file.name
    assert table_of(study, "ratings", ExportOptions()).columns[-1].name == "condition_scenario"
