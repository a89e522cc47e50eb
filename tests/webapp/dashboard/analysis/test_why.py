"""The page Why: its sections, what they cost, uploads and their refusals."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.builders import make_study
from tests.markup import flat
from webapp.bots.models import BotVersion
from webapp.dashboard.views import why
from webapp.jobs.models import Job
from webapp.results import cache
from webapp.results.cache import AnalysisKey
from webapp.studies.models import Study

SECTIONS = ("models", "raters", "agreement", "trajectories", "correlations", "powered")
"""Those of a study of chats."""
CONCLUSIONS = (
    "The sum of the 2 ratings depends on",
    "Rater filters would flag",
    "Every conversation was rated by one rater",
    "Best 24 against worst 24",
    "go most closely with quality",
    "No finished conversation is without a rating.",
)


def address(study: Study, part: str) -> str:
    return f"{reverse('dashboard:study_why', args=[study.key])}?part={part}"


def test_a_folded_section_tells_its_conclusion_and_starts_no_job(
    staff: Client, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = reverse("dashboard:study_why", args=[study.key])
    html = flat(staff.get(page, {"synthetic": "1"}).content.decode())
    for part, conclusion in zip(SECTIONS, CONCLUSIONS, strict=True):
        assert f'<a href="#{part}">' in html
        assert f'data-load="?part={part}&amp;only=1&amp;synthetic=1"' in html
        assert conclusion in html, part
    assert "<figure" not in html
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 0)
    why._conclusion.cache_clear()
    html = staff.get(page).content.decode()
    assert html.count("Not computed for the present data.") == len(SECTIONS)
    assert not Job.objects.exists()
    staff.get(address(study, "models"))
    assert [job.payload["part"] for job in Job.objects.all()] == ["models"]


def test_a_conclusion_names_questions_and_bots_as_they_are_called_now(staff: Client, study: Study) -> None:
    page = reverse("dashboard:study_why", args=[study.key])
    assert "Excellence" not in staff.get(page, {"synthetic": "1"}).content.decode()
    study.rubric.dimensions.filter(key="quality").update(title="Excellence")
    assert "go most closely with excellence" in flat(staff.get(page, {"synthetic": "1"}).content.decode())
    key = AnalysisKey(study, "models")
    as_it_was = key.state.digest, key.beside("raters").state.digest
    study.rubric.dimensions.filter(key="quality").update(low_label="worst")
    assert AnalysisKey(study, "models").state.digest not in as_it_was
    staff.get(page)
    n_made = why._conclusion.cache_info().misses
    BotVersion.objects.filter(bot_id="alpha").update(title="Anna")
    staff.get(page)
    assert why._conclusion.cache_info().misses == n_made + len(SECTIONS)


def test_a_difference_is_planned_for(staff: Client, study: Study) -> None:
    page = reverse("dashboard:study_results", args=[study.key]) + "?part=comparisons"
    html = staff.get(f"{page}&difference=0.5&power=0.9").content.decode()
    assert "Raters per bot, with one rating each, for a power of .90" in html
    assert "greater than or equal to" in staff.get(f"{page}&difference=-1").content.decode()


def test_a_table_of_bots_is_uploaded_refused_and_taken_away(staff: Client, study: Study) -> None:
    where = address(study, "correlations")
    for content, message in (
        (b"bot,ppl\nalfa,1\n", "line 2: the study has no bot &#x27;alfa&#x27;; did you mean alpha?"),
        (b"", "The file is empty"),
        (b"bot,ppl\n" + b"x" * 1_000_001, "a table of bots has at most 1,000,000"),
    ):
        answer = staff.post(where, {"file": SimpleUploadedFile("t.csv", content)})
        assert answer.status_code == 400
        assert message in answer.content.decode()
    assert staff.post(where).status_code == 400
    good = SimpleUploadedFile("new.csv", b"bot,size\nalpha,3\nbeta,2\ngamma,1\n")
    assert staff.post(where, {"file": good}).status_code == 302
    html = flat(staff.get(where).content.decode())
    assert "Stored: new.csv; numbers: size" in html
    assert "size (of the bot)" in html
    staff.post(where, {"clear": "1"})
    study.refresh_from_db()
    assert study.bot_columns == {}


@pytest.mark.django_db
def test_a_study_without_ratings_says_so(staff: Client, client: Client) -> None:
    study = make_study("empty")
    for part in SECTIONS:
        assert b"No ratings yet" in staff.get(address(study, part)).content
    assert b"No ratings yet" in staff.get(reverse("dashboard:study_report", args=["empty"])).content
    assert staff.get(reverse("dashboard:study_report_file", args=["empty"])).status_code == 404
    for wrong in ("nothing", "items", "comparisons"):
        assert staff.get(address(study, wrong)).status_code == 404
    assert client.get(address(study, "models")).status_code == 302


def test_a_point_of_a_trajectory_has_a_page(staff: Client, study: Study) -> None:
    page = staff.get(reverse("dashboard:study_why", args=[study.key]) + "?part=trajectories")
    address = reverse("dashboard:study_point", args=[study.key, "best-worst", "words_user", 0, 1])
    assert f'<a href="{address}"' in page.content.decode()
    html = staff.get(address).content.decode()
    assert "Words, participant, exchange 1: best 24" in html
    assert "24 conversations, the highest values first." in html
    assert html.count("/dashboard/conversations/") == 24
    for wrong in (["best-worst", "words_user", 0, 99], ["other", "words_user", 0, 1]):
        assert staff.get(reverse("dashboard:study_point", args=[study.key, *wrong])).status_code == 404
