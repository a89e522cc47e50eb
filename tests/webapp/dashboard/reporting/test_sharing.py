"""Links to reports: what they show, to whom, until when, and who may make them."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.builders import make_conversation, make_rating, make_study, signed_in
from tests.webapp.dashboard.test_report_document import document
from tests.webapp.results.conftest import study  # noqa: F401
from webapp.core.errors import Refused
from webapp.core.logs import redact_tokens
from webapp.core.rights import Right
from webapp.dashboard.report_document import document_dump
from webapp.dashboard.report_files import report_ask, report_path, reports_of
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.ratings.models import Rating
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.transfer.models import SharedReport
from webapp.transfer.report_links import share_make


@pytest.fixture
def reported(db: Any) -> Study:
    """Return a study with a report that a worker has made, of the fewest words."""
    found = make_study("reported")
    make_rating(make_conversation(found, n_exchanges=3))
    job = report_ask(study=found)
    report_path(job).write_bytes(document_dump(document(1)))
    Job.objects.filter(pk=job.pk).update(state=State.DONE, result={"n_ratings": 1})
    return found


def made(client: Client, study: Study, sections: str = "", **given: Any) -> str:  # noqa: F811
    where = reverse("dashboard:report_share", args=[study.key]) + sections
    answer = client.post(where, {"name": "Reviewers", "days": "7", **given})
    assert answer.status_code == 200, answer.content.decode()
    found = re.search(r'token-text" tabindex="0">http://testserver(/shared/[^<]+)<', answer.content.decode())
    assert found
    report = reverse("dashboard:study_report", args=[study.key])
    assert f'data-load="{report}?part=export' in answer.content.decode(), "a POST's page loads its sections, too"
    return found[1]


def test_a_link_shows_the_report_as_it_was_and_no_more(
    staff: Client,
    study: Study,  # noqa: F811
) -> None:
    run_job(report_ask(study=study))
    reported = study
    link = made(staff, reported, "?sections=ratings,raters")
    assert link.split("/")[2] not in str(SharedReport.objects.values_list("digest", "name").get())
    page = staff.get(reverse("dashboard:study_report", args=[reported.key])).content.decode()
    assert link not in page
    assert "Reviewers" in page
    anyone = Client()
    before = anyone.get(link)
    assert before.status_code == 200
    assert before["X-Robots-Tag"] == "noindex, nofollow, noarchive"
    assert (before["Referrer-Policy"], before["Cache-Control"]) == ("no-referrer", "private, no-store")
    html = before.content.decode()
    assert re.findall(r'<section id="([a-z]+)"', html) == ["ratings", "raters"]
    assert 'name="robots"' in html
    assert '"/dashboard/' not in html
    html = html.replace("www.w3.org", "")
    ids = Rating.objects.values_list("participant", "rater", "external_id", "conversation")
    for one in {str(value) for row in ids for value in row if value}:
        assert not re.search(rf"\b{re.escape(one)}\b", html), one
    assert anyone.get(reverse("dashboard:study_report", args=[reported.key])).status_code == 302
    report_path(Job.objects.get(kind="report")).unlink()
    assert anyone.get(link).content == before.content


def test_a_link_ends(staff: Client, reported: Study) -> None:
    anyone = Client()
    assert anyone.get("/shared/nonsense/").status_code == 404
    link = made(staff, reported)
    share = SharedReport.objects.get()
    staff.post(reverse("dashboard:report_share_end", args=[reported.key, share.pk]))
    gone = anyone.get(link)
    assert gone.status_code == 410
    assert "It was withdrawn on" in gone.content.decode()
    assert gone["X-Robots-Tag"].startswith("noindex")
    share.refresh_from_db()
    assert bytes(share.document) == b"", "what nobody may read is not kept"
    link = made(staff, reported)
    SharedReport.objects.filter(ended_at=None).update(expires_at=timezone.now() - timedelta(days=1))
    gone = anyone.get(link)
    assert (gone.status_code, "It was open until" in gone.content.decode()) == (410, True)
    link = made(staff, reported, days="")
    assert anyone.get(link).status_code == 200


def test_a_link_ends_when_somebody_is_erased(
    staff: Client, reported: Study, django_capture_on_commit_callbacks: Any
) -> None:
    link = made(staff, reported)
    [job] = reports_of(reported)
    earlier = report_path(job).with_name(f"report-{job.pk}.html")  # as an earlier Confab kept it
    earlier.touch()
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(study=reported)[:1])
    assert not earlier.exists()
    assert not report_path(job).exists()
    gone = Client().get(link)
    assert (gone.status_code, "were removed" in gone.content.decode()) == (410, True)
    assert bytes(SharedReport.objects.get().document) == b""


def test_only_who_administers_makes_links(reported: Study) -> None:
    reader = signed_in(Right.READ, Right.RUN, username="reader")
    page = reader.get(reverse("dashboard:study_report", args=[reported.key])).content.decode()
    assert "Make a link" not in page
    where = reverse("dashboard:report_share", args=[reported.key])
    assert reader.post(where, {"name": "x"}).status_code == 403
    assert not SharedReport.objects.exists()


def test_a_bad_link_is_refused(staff: Client, reported: Study) -> None:
    where = reverse("dashboard:report_share", args=[reported.key])
    for given in ({"name": " "}, {"name": "x", "days": "0"}, {"name": "x", "days": "9999"}):
        answer = staff.post(where, given)
        assert (answer.status_code, "No link was made" in answer.content.decode()) == (400, True)
    with pytest.raises(Refused, match="lasts 1 to 3650 days, not 0"):
        share_make(study=reported, name="x", document=b"", report_made_at=timezone.now(), days=0)
    assert not SharedReport.objects.exists()


def test_the_token_stands_in_no_log() -> None:
    assert redact_tokens("GET /shared/abc-DEF_1/ 200") == "GET /shared/…/ 200"
