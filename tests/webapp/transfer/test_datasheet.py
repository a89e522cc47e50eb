"""The human evaluation datasheet: what the study answers, what people must, and what they did."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape
from pytest_django.asserts import assertContains, assertNotContains

from tests.builders import make_staff
from tests.webapp.dashboard.test_pair_pages import make_compared
from tests.webapp.transfer.test_package import opened, packed, study
from webapp.bots.models import BotVersion
from webapp.core.rights import Right
from webapp.jobs.models import Job
from webapp.studies.models import Study
from webapp.transfer.datasheet import datasheet_of
from webapp.transfer.import_file import import_conversations

__all__ = ["study"]  # a fixture
pytestmark = pytest.mark.django_db


def said(study: Study) -> dict[str, str]:
    return {one.key: one.from_study for one in datasheet_of(study)}


def test_a_study_of_pairs_is_relative_and_has_kappas() -> None:
    result = said(make_compared(n_items=4))
    assert result["3.1.1"] == "eliza: 4; parrot: 4"
    assert result["4.2.2/quality"] == "Relative."
    assert result["4.3.11.1/quality"].startswith("The median of Cohen's kappa over all pairs of raters.")
    assert result["3.2.2.2"] == ""


def test_what_people_answer_is_kept_shown_packed_and_read_back(study: Study, client: Client, tmp_path: Path) -> None:
    url = reverse("dashboard:study_datasheet", args=[study.key])
    client.force_login(make_staff(Right.READ))
    assertNotContains(client.get(url, follow=True), "<textarea")
    assert client.post(url, {"5.1": "no"}).status_code == 403
    client.force_login(make_staff(Right.READ, Right.ADMINISTER, username="a"))
    assertContains(client.get(url, follow=True), 'name="4.1.1/dull"')
    answers = {"5.1": "Board 7 <b>", "4.1.1/dull": "Feature", "9.9": "not asked"}
    page = client.post(url, answers, follow=True)
    assertContains(page, "Board 7 &lt;b&gt;")
    study.refresh_from_db()
    assert study.datasheet == {"5.1": "Board 7 <b>", "4.1.1/dull": "Feature"}
    client.post(url, {"4.1.1/dull": " "})
    study.refresh_from_db()
    assert study.datasheet == {"5.1": "Board 7 <b>"}

    markdown = client.get(url, {"format": "md"})
    assert markdown["Content-Disposition"] == 'attachment; filename="shop-heds.md"'
    files = opened(packed(study))
    assert files["heds.md"] == markdown.content
    assert b"[To be completed by the researchers]" in files["heds.md"]
    params = {answer["number"]: answer for answer in json.loads(files["heds.json"])["answers"]}
    assert params["5.1"]["from_researchers"] == "Board 7 <b>"
    assert (params["5.1"]["to_be_answered"], params["1.1.1"]["to_be_answered"]) == (False, True)
    (tmp_path / "x.zip").write_bytes(packed(study))
    import_conversations(tmp_path / "x.zip", study_key="again")
    assert Study.objects.get(key="again").datasheet == study.datasheet


def test_language_models_of_bots_are_described_with_prompt_parameters_and_dates(study: Study) -> None:
    assert not any(number.startswith("L.") for number in said(study))
    bot = study.conversations.select_related("bot").first().bot
    BotVersion.objects.filter(pk=bot.pk).update(
        title="Helper",
        params={
            "model": "acme-1-2026-05",
            "system_prompt": "Be  brief.",
            "temperature": 0.3,
            "base_url": "https://a.example",
        },
    )
    results = {number: words for number, words in said(study).items() if number.startswith("L.")}
    assert "Helper: acme-1-2026-05" in results["L.2.1"]
    assert "served by https://a.example" in results["L.2.1"]
    assert results["L.2.2"] == "Helper: temperature 0.3."
    assert re.fullmatch(r"Helper: \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d\.", results["L.2.3"])
    assert results["L.3.2"] == "Helper: system_prompt: “Be brief.”."
    assert results["L.7"] == "All ratings are by people; no model rated in their place."
    open_numbers = {one.key for one in datasheet_of(study) if one.is_open and one.question.section == "L"}
    assert open_numbers == {"L.2.4", "L.3.3", "L.5", "L.6", "L.8"}


def test_a_judge_is_described_and_each_open_line_is_named(study: Study, client: Client) -> None:
    sentence = "Strict may replace a rater: winning rate .80."
    judge = {"judge": "strict", "title": "Strict", "model": "acme-judge-2", "prompt": "abc", "identity": "0"}
    result = {"unit": "chat", "judges": [judge], "sentences": [sentence]}
    day = datetime(2026, 5, 4, 12, tzinfo=UTC)
    Job.objects.create(kind="judges", study=study, state="done", result=result, started_at=day, ended_at=day)
    answers = said(study)
    assert answers["L.1"] == "Strict: judge."
    assert "Strict: acme-judge-2" in answers["L.2.1"]
    assert "options unknown, because they have changed since" in answers["L.2.2"]
    assert "prompt digest abc" in answers["L.2.2"]
    assert answers["L.2.3"] == "Strict: 2026-05-04 to 2026-05-04."
    assert answers["L.7"].endswith(sentence)
    client.force_login(make_staff(Right.READ))
    url = reverse("dashboard:study_datasheet", args=[study.key])
    markdown = client.get(url, {"format": "md"}).content.decode()
    open_lines = [entry for entry in datasheet_of(study) if entry.is_open]
    assert {entry.key for entry in open_lines} >= {"L.2.4", "L.3.3", "L.5", "L.6", "L.8"}
    page = client.get(url, follow=True)
    for entry in open_lines:
        assert f"**{entry.question.number} {entry.question.words}**" in markdown
        assertContains(page, escape(entry.question.words))
    assert markdown.count("[To be completed by the researchers]") == len(open_lines)
