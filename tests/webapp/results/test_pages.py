"""Pages of stored results: waiting, nobody at work, failed, an older result, done; and the report as a file."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.builders import signed_in
from tests.markup import flat
from tests.webapp.dashboard.analysis.test_one_result import text_of
from tests.webapp.results.test_cache import change
from webapp.core.models import Process
from webapp.core.processes import WORKER
from webapp.core.rights import Right
from webapp.dashboard.render import report_html
from webapp.insights.report_document import Document
from webapp.insights.report_files import report_path, report_read
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.ratings.models import Rating
from webapp.results import cache
from webapp.results.compute import PARTS, AnalysisPart, parts_of
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

PAGES = {
    "study_results": "Clearly different in",
    "study_why ?part=agreement": "Distribution of the answers",
    "study_results ?part=comparisons": "How far apart are they?",
    "study_why ?part=models": "Effects on the ratings",
    "study_why ?part=raters": "Rater agreement",
    "study_why ?part=trajectories": "Trajectories over the conversation",
    "study_why ?part=correlations": "Correlations of ratings, metrics and bots",
}


def address(study: Study, page: str) -> str:
    route, _, query = page.partition(" ")
    return reverse(f"dashboard:{route}", args=[study.key]) + query


def read(client: Client, where: str) -> str:
    """Return the text of a page; of one with folded sections, that of the open one."""
    answer = client.get(where)
    assert answer.status_code == 200
    html = answer.content.decode()
    fold = BeautifulSoup(html, "html.parser").select_one("details.fold[open]")
    return text_of(html if fold is None else str(fold))


def do_all() -> None:
    for job in Job.objects.exclude(state=State.DONE):
        run_job(job)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_waits_for_its_result_and_shows_the_same_as_at_once(
    staff: Client, study: Study, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = address(study, page)
    html = flat(staff.get(where).content.decode())
    assert "The result is being computed" in html
    assert "64 ratings of 4 bots are too many to compute immediately" in html
    assert "data-reload" in html
    assert '<noscript><meta http-equiv="refresh"' in html
    assert "No ratings yet" not in html
    do_all()
    waited = read(staff, where)
    assert "being computed" not in waited
    assert "refresh" not in waited
    monkeypatch.setattr(cache, "DIRECT_RATINGS", 64)
    assert read(staff, where) == waited
    assert len(set(parts := Job.objects.values_list("payload__part", flat=True))) == len(parts), "computed twice"


def test_nobody_at_work_is_said_with_what_to_do(staff: Client, study: Study) -> None:
    where = address(study, "study_results")
    assert "No worker" not in read(staff, where)
    Job.objects.update(updated_at=timezone.now() - timedelta(minutes=1))
    text = "No worker has picked up this job, so probably none is running. make run starts a worker"
    assert text in read(staff, where)
    live = reverse("dashboard:job_live", args=["results", Job.objects.get().pk])
    assert text in read(staff, live)
    now = timezone.now()
    worker = Process.objects.create(
        id=uuid4(), roles=[WORKER], pid=1, began_at=now, heard_at=now, details={"queues": ["analysis"]}
    )
    busy = "Other jobs are ahead of it in the queue. It starts when a worker is free."
    for one in (where, live):
        page = read(staff, one)
        assert busy in page
        assert text not in page
    worker.details = {"queues": ["another"]}
    worker.save()
    assert text in read(staff, live)


def test_a_failure_is_told_with_a_button_for_who_may_run_things(
    staff: Client, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise ArithmeticError("no <such> number")

    real = PARTS["models"]
    monkeypatch.setitem(PARTS, "models", AnalysisPart(real.type, breaks))
    where = address(study, "study_why ?part=models")
    staff.get(where)
    do_all()
    html = flat(staff.get(where).content.decode())
    assert "The result could not be computed" in html
    assert "no &lt;such&gt; number" in html
    button = re.search(r'action="([^"]+go-on/)".*?name="next" value="([^"]+)"', html)
    reader = signed_in(Right.READ, username="reader")
    assert "go-on" not in reader.get(where).content.decode()
    assert reader.post(button[1]).status_code == 403
    monkeypatch.setitem(PARTS, "models", real)
    answer = staff.post(button[1], {"next": button[2]})
    assert answer["Location"] == where
    assert "The result is being computed" in read(staff, where)
    do_all()
    assert "Effects on the ratings" in read(staff, where)


def test_an_older_result_says_that_it_is_one(staff: Client, study: Study) -> None:
    where = address(study, "study_why ?part=models")
    staff.get(where)
    do_all()
    current = read(staff, where)
    rating = Rating.objects.filter(conversation__bot__bot_id="alpha")[0]
    for name in ("a", "b"):
        Rating.objects.create(
            conversation=rating.conversation,
            rubric=rating.rubric,
            external_id=name,
            answers={"quality": 1, "fluency": 1},
            submitted_at=rating.submitted_at,
        )
    html = staff.get(where).content.decode()
    assert "2 ratings have been added since. The result is being updated." in text_of(html)
    assert "data-reload" not in html  # nothing changes under the reader's eyes
    assert "48 ratings by" in text_of(html)
    do_all()
    live = reverse("dashboard:job_live", args=["results", Job.objects.order_by("-pk")[0].pk])
    assert "Show the new result" in read(staff, live)
    anew = read(staff, where)
    assert "50 ratings by" in anew
    assert "since then" not in anew + current


def test_the_report_is_made_by_a_job_of_the_stored_results(
    staff: Client, study: Study, django_capture_on_commit_callbacks: Any
) -> None:
    page, file = address(study, "study_report"), address(study, "study_report_file")
    staff.get(address(study, "study_results"))
    do_all()
    kept = Job.objects.get(payload__part="comparisons").pk
    assert staff.get(file).status_code == 404
    assert staff.post(page)["Location"] == page
    assert staff.post(page)["Location"] == page
    job = Job.objects.get(kind="report")
    assert "Report: analysed Waiting" in read(staff, page)
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.n_done, job.error) == (State.DONE, len(PARTS) + 1, "")
    assert Job.objects.filter(kind="results").count() == len(parts_of(study))
    assert Job.objects.filter(pk=kept).exists()
    path = report_path(job)
    assert path.stat().st_mode & 0o077 == 0
    assert "up to date" in read(staff, page)
    assert "Make the report" not in read(staff, page)
    answer = staff.get(file)
    assert answer["Content-Disposition"] == 'attachment; filename="analysed-report.html"'
    sent = answer.content
    assert sent.startswith(b"<!doctype html>")
    document = report_read(job)
    assert document is not None
    assert sent.decode() == report_html(document)
    for title in PAGES.values():
        assert title in text_of(sent.decode()) or title == "Which bots"

    change(study)
    assert "the data have changed since" in read(staff, page)
    staff.post(page)
    with django_capture_on_commit_callbacks(execute=True):
        do_all()
    assert not path.exists()  # the newest one is enough, and what the one before said above
    newest, before = Job.objects.filter(kind="report").order_by("-pk")
    assert before.pk == job.pk
    assert "Since the report of" in read(staff, page + "?part=preview")
    chosen = "?sections=changes&sections=nonsense"
    assert ("The report has no section “nonsense”. Available sections: ratings, comparisons") in read(
        staff, page + chosen
    )
    chosen = read(staff, page + chosen + "&part=preview")
    assert "Figure 1." not in chosen
    assert "Table 1. Headline numbers before and now" in chosen
    part = staff.get(file + "?sections=changes,raters").content.decode()
    assert ('id="raters"' in part, 'id="ratings"' in part) == (True, False)
    assert staff.get(file + "?sections=nonsense").status_code == 404
    report_path(newest).unlink()  # had its time
    assert "Make the report" in read(staff, page)
    staff.post(page)
    do_all()
    assert report_path(Job.objects.filter(kind="report").latest("pk")).is_file()


@pytest.mark.parametrize("by", ["body", "address"])
def test_a_report_is_found_by_the_parameters_of_its_post(staff: Client, study: Study, by: str) -> None:
    params = {"synthetic": "1", "without": "fast,pasted", "sections": "ratings,raters"}
    page = address(study, "study_report")
    answer = staff.post(page, params) if by == "body" else staff.post(f"{page}?{urlencode(params, safe=',')}")
    do_all()
    response = staff.get(answer["Location"])
    [job] = Job.objects.filter(kind="report")
    assert (job.payload["include_synthetic"], job.payload["without"]) == (True, ["fast", "pasted"])
    assert response.context["made"] == job
    assert response.context["sections"] == "ratings,raters"
    assert staff.get(f"{page}?synthetic=1&without=pasted,fast").context["made"] == job


def test_a_report_goes_with_a_person_and_with_the_study(
    staff: Client, study: Study, django_capture_on_commit_callbacks: Any
) -> None:
    def made() -> Path:
        staff.post(address(study, "study_report"))
        do_all()
        path = report_path(Job.objects.get(kind="report"))
        assert path.is_file()
        return path

    path = made()
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(study=study)[:1])
    assert not path.exists()
    assert not Job.objects.exists()
    path = made()
    with django_capture_on_commit_callbacks(execute=True):
        study.delete()
    assert not path.exists()


def test_a_report_in_the_making_is_not_kept_when_somebody_is_erased(
    staff: Client, study: Study, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    from webapp.insights.kinds import report as kind

    real = kind._document

    def erases(*args: Any) -> Document:
        page = real(*args)
        with django_capture_on_commit_callbacks(execute=True):
            participants_erase(participants=Participant.objects.filter(study=study)[:1])
        return page

    monkeypatch.setattr(kind, "_document", erases)
    staff.post(address(study, "study_report"))
    job = Job.objects.get()
    run_job(job)
    assert not report_path(job).exists()
    assert not Job.objects.filter(state=State.DONE).exists()
