"""The human evaluation datasheet: what the study answers, what people must, and what they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertNotContains

from tests.builders import make_staff
from tests.webapp.dashboard.test_pair_pages import make_compared
from tests.webapp.transfer.test_package import opened, packed, study
from webapp.core.rights import Right
from webapp.studies.models import Study
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.datasheet_questions import QUESTIONS
from webapp.transfer.import_file import import_conversations

__all__ = ["study"]  # a fixture
pytestmark = pytest.mark.django_db


def said(study: Study) -> dict[str, str]:
    return {one.key: one.from_study for one in datasheet_of(study)}


def test_the_study_answers_what_it_knows(study: Study) -> None:
    found = said(study)
    assert found["3.2.1"] == "2"
    assert found["3.1.1"] == "eliza: 1; parrot: 1"
    assert found["3.2.3"] == "By Prolific."
    assert found["3.2.5"] == "How old? 18, or 19: 0, it's 20+: 2."
    assert found["1.3.2.2"] == "Run by A lab."
    assert found["2.5"] == "English, as the pages of the study"
    assert found["4.3.3/with"] == "5"
    assert found["4.3.4/with"] == '1 to 5 (1 it isn\'t; 5 a "lot")'
    assert "a high answer is a bad one" in found["4.3.4/dull"]
    assert found["4.3.7/with"] == "Was it good?"
    assert (found["4.2.2/with"], found["4.3.8/with"]) == ("Absolute.", "Direct quality estimation.")
    assert found["4.3.11.1/with"].startswith("Krippendorff's alpha")
    assert "over" in found["4.3.11.2/with"] or "Undefined" in found["4.3.11.2/with"]
    assert found["4.3.12.2/with"] == "Not assessed: no item was rated twice."
    numbers = [question.number for question in QUESTIONS]
    assert len(numbers) == len(set(numbers)) == 61
    open_ones = {one.question.number for one in datasheet_of(study) if one.is_open}
    assert {"1.1.1", "3.1.3.2", "3.3.1", "4.1.1", "5.1", "5.4"} <= open_ones
    assert not open_ones & {"3.2.1", "4.3.7", "3.3.2"}


def test_a_study_of_pairs_is_relative_and_has_kappas() -> None:
    found = said(make_compared(n_items=4))
    assert found["3.1.1"] == "eliza: 4; parrot: 4"
    assert found["4.2.2/quality"] == "Relative."
    assert found["4.3.11.1/quality"].startswith("Cohen's kappa")
    assert found["3.2.2.2"] == ""


def test_what_people_answer_is_kept_shown_packed_and_read_back(study: Study, client: Client, tmp_path: Path) -> None:
    where = reverse("dashboard:study_datasheet", args=[study.key])
    client.force_login(make_staff(Right.READ))
    assertNotContains(client.get(where, follow=True), "<textarea")
    assert client.post(where, {"5.1": "no"}).status_code == 403
    client.force_login(make_staff(Right.READ, Right.ADMINISTER, username="a"))
    assertContains(client.get(where, follow=True), 'name="4.1.1/dull"')
    answers = {"5.1": "Board 7 <b>", "4.1.1/dull": "Feature", "9.9": "not asked"}
    page = client.post(where, answers, follow=True)
    assertContains(page, "Board 7 &lt;b&gt;")
    study.refresh_from_db()
    assert study.datasheet == {"5.1": "Board 7 <b>", "4.1.1/dull": "Feature"}
    client.post(where, {"4.1.1/dull": " "})
    study.refresh_from_db()
    assert study.datasheet == {"5.1": "Board 7 <b>"}

    markdown = client.get(where, {"format": "md"})
    assert markdown["Content-Disposition"] == 'attachment; filename="shop-heds.md"'
    files = opened(packed(study))
    assert files["heds.md"] == markdown.content
    assert b"[To be answered by the researchers]" in files["heds.md"]
    asked = {one["number"]: one for one in json.loads(files["heds.json"])["answers"]}
    assert asked["5.1"]["from_researchers"] == "Board 7 <b>"
    assert (asked["5.1"]["to_be_answered"], asked["1.1.1"]["to_be_answered"]) == (False, True)
    (tmp_path / "x.zip").write_bytes(packed(study))
    import_conversations(tmp_path / "x.zip", study_key="again")
    assert Study.objects.get(key="again").datasheet == study.datasheet
