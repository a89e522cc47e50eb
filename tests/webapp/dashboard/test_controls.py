"""Controls: bots made to be bad, marked by an import, on their pages or in code, and what pages say of them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

import confab
from evaluation.analysis.comparisons import compare
from webapp.ratings.selectors import study_bots, study_ratings
from webapp.studies.bot_columns import BotColumns, bot_columns_read
from webapp.studies.models import Study
from webapp.studies.services import bot_columns_store
from webapp.transfer.import_file import import_conversations

pytestmark = pytest.mark.django_db


def record(bot: str, n: int, value: int, **more: Any) -> str:
    turns = [{"speaker": "human", "text": f"hi {n}"}, {"speaker": "bot", "text": "yes"}]
    ratings = [{"rater": f"w{n}", "quality": value, "fun": (value + n) % 3 + 1}]
    return json.dumps({"dialogue_id": f"{bot}-{n}", "bot": bot, "turns": turns, "ratings": ratings, **more})


def file_of(folder: Path, means: dict[str, float], n: int = 12, control: str = "qc") -> Path:
    rng = random.Random(4)
    path = folder / "rated.jsonl"
    lines = [
        record(bot, i, round(min(max(mean + rng.uniform(-1, 1), 1), 7)), meta={"degraded_control": bot == control})
        for bot, mean in means.items()
        for i in range(n)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def overview(staff: Client) -> str:
    return " ".join(staff.get(reverse("dashboard:study", args=["k"])).content.decode().split())


def test_an_import_marks_controls(tmp_path: Path, staff: Client) -> None:
    path = file_of(tmp_path, {"good/one": 6, "fair": 4, "qc": 1.5})
    import_conversations(path, study_key="k", scale=(1, 7))
    study = Study.objects.get()
    assert [bot for bot, info in study_bots(study).items() if info.is_control] == ["qc"]
    assert compare(study_ratings(study)).controls == ("qc",)
    assert compare(confab.read(path, scale=(1, 7)).answers).controls == ("qc",)
    html = overview(staff)
    assert "qc is last" in html
    assert "as expected" in html
    # Every bot of an import has a page, whatever its name.
    assert reverse("dashboard:bot_imported", args=["good/one"]) in html


def test_one_bot_beside_a_control_is_not_called_first(tmp_path: Path, staff: Client) -> None:
    import_conversations(file_of(tmp_path, {"one": 6, "qc": 1.5}), study_key="k", scale=(1, 7))
    page = staff.get(reverse("dashboard:study_results", args=["k"]))
    assert page.status_code == 200
    assert "nothing to compare" not in page.content.decode()
    assert "Only one bot is rated, apart from controls" in page.content.decode()


def test_a_bot_that_is_a_control_in_some_conversations_only_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    degraded = record("a", 2, 1, meta={"degraded_control": True})
    path.write_text("\n".join([record("a", 1, 5), degraded, record("b", 3, 4)]) + "\n")
    report = import_conversations(path, study_key="k", scale=(1, 7))
    assert report.conversations == 2
    assert [one.line for one in report.skipped] == [2]
    assert "give the control a different bot name" in report.skipped[0].reason
    assert not study_bots(Study.objects.get())["a"].is_control
    read = confab.read(path)
    assert (len(read), read.controls) == (2, ())
    assert [one.line for one in read.skipped] == [2]


def test_no_tick_where_a_control_is_too_close_to_order(tmp_path: Path, staff: Client) -> None:
    path = tmp_path / "x.jsonl"
    given = {"a": [4, 5, 3, 5], "b": [5, 3, 6, 4], "qc": [4, 3, 5, 3]}
    lines = [
        record(bot, n, value, meta={"degraded_control": bot == "qc"})
        for bot, values in given.items()
        for n, value in enumerate(values)
    ]
    path.write_text("\n".join(lines) + "\n")
    import_conversations(path, study_key="k", scale=(1, 7))
    html = overview(staff)
    assert "as expected" not in html
    assert "3 of 3 pairs" in html
    assert "qc (a control) is rated last, but not clearly." in html
    assert "2 of 2 pairs with another bot are too close to call." in html


def test_a_bot_is_marked_on_its_page(tmp_path: Path, staff: Client) -> None:
    path = file_of(tmp_path, {"good/one": 6, "fair": 4, "bad": 1.5}, control="")
    import_conversations(path, study_key="k", scale=(1, 7))
    statistics = reverse("dashboard:study_results", args=["k"]) + "?part=comparisons"
    correlations = reverse("dashboard:study_why", args=["k"]) + "?part=correlations"
    assertNotContains(staff.get(statistics), "Controls are")
    assertNotContains(staff.get(correlations), "Controls are")
    page = reverse("dashboard:bot_imported", args=["bad"])
    assertContains(staff.get(page), "Mark as a control")
    mark = {"bot": "bad", "study": "k", "control": "1"}
    answer = staff.post(reverse("dashboard:bot_control"), mark, follow=True)
    assertContains(answer, "bad is now a control of k")
    assertContains(answer, "Unmark as a control")
    study = Study.objects.get()
    assert study_bots(study)["bad"].is_control
    assert compare(study_ratings(study)).order == ("good/one", "fair")
    # Captions say what was done: models leave it out, correlations of questions do not.
    models = reverse("dashboard:study_why", args=["k"]) + "?part=models"
    assertContains(staff.get(models), "Controls are excluded.")
    assertContains(staff.get(correlations), "Controls are included.")
    # A table of bots comes and goes without the mark.
    table = bot_columns_read(b"bot,perplexity\nfair,3\nbad,9\n", list(study_bots(study)), "b.csv")
    for columns in (table, BotColumns()):
        bot_columns_store(study=study, columns=columns)
        assert study_bots(Study.objects.get())["bad"].is_control
    staff.post(reverse("dashboard:bot_control"), mark | {"control": "0"})
    study = Study.objects.get()
    assert not study_bots(study)["bad"].is_control
    assert study.bot_columns == {}
    for wrong in ({"bot": "nobody"}, {"study": "none"}):
        assert staff.post(reverse("dashboard:bot_control"), mark | wrong).status_code == 404
    missing = reverse("dashboard:bot_imported", args=["nobody"])
    assert staff.get(missing).status_code == 404
