"""The line on a study's overview: its stages and the next step, and the chain of jobs that one button starts."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from evaluation.metrics.registry import metric_defaults
from tests.builders import make_conversation, make_rating, make_staff, make_study
from tests.markup import flat
from webapp.bots.selectors import bot_name
from webapp.core.rights import Right
from webapp.insights.report_files import report_ask, report_path
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, Job, MetricRun, SelfPlayRun, State
from webapp.jobs.services.jobs import job_fail
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.models import Rating
from webapp.studies.models import Study

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def rated(study: Study, *bots: str) -> None:
    """Rate a conversation of each of these bots."""
    for bot in bots:
        chat = make_conversation(study, n_exchanges=3)
        chat.bot = type(chat.bot).objects.get_or_create(
            key=f"key-{bot}", defaults={"bot_id": bot, "title": bot, "version": "1"}
        )[0]
        chat.save()
        make_rating(chat)


def imported(*bots: str) -> Study:
    """Make a study of rated conversations that come from elsewhere, one of each bot."""
    study = make_study("s")
    rated(study, *bots)
    Study.objects.filter(pk=study.pk).update(is_imported=True)
    study.refresh_from_db()
    return study


def line(client: Client, key: str = "s") -> tuple[list[tuple[str, str]], str]:
    """Return the stages as (tone, words), and the box of what is next as text."""
    html = flat(client.get(f"/dashboard/studies/{key}/").content.decode())
    stages = re.findall(r'stage-(\w+)"><span class="stage-mark".*?stage-words">(.*?)</span>', html)
    box = html.split('class="next-step')[1].split("</section>")[0]
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", box))
    # Two looks may be a second apart.
    return stages, re.sub(r"\bnow\b|\ba second ago\b|\b\d+ seconds ago\b", "now", words)


def start(client: Client, what: str) -> None:
    answer = client.post("/dashboard/studies/s/analyse/", {"with": what})
    assert answer.status_code == 302


def test_a_study_without_conversations_says_what_comes_first(staff: Client) -> None:
    make_study("s", state=Study.State.DRAFT)
    stages, box = line(staff)
    assert stages[0] == ("now", "0 chats so far")
    assert "Set up and open the study" in box
    make_study("t")
    assert "Recruit participants" in line(staff, "t")[1]


def test_one_button_plays_measures_and_fits(staff: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.dashboard.views.studies.SELFPLAY_EACH", 1)
    study = make_study("s", bots=["eliza", "parrot", "generic"])
    rated(study, "eliza", "parrot", "generic")
    stages, box = line(staff)
    assert [tone for tone, _words in stages] == ["running", "later", "now", "later", "later"]
    assert stages[2][1] == "next: 3 bots × 100 chats"
    assert "Run self-play, metrics and fit" in box
    start(staff, "selfplay")
    run = SelfPlayRun.objects.get()
    assert run.then["steps"] == ["run_metrics", "study_metrics", "fit"]
    assert "The next step starts automatically" in line(staff)[1]
    run_job(run)
    of_run = MetricRun.objects.get()
    assert (of_run.run, of_run.then["run"]) == (run, run.pk)
    # Without computing: the chain is what is tested here.
    MetricRun.objects.update(metrics=["words"])
    of_run.refresh_from_db()
    run_job(of_run)
    of_study = MetricRun.objects.get(study=study)
    MetricRun.objects.filter(pk=of_study.pk).update(metrics=["words"])
    of_study.refresh_from_db()
    run_job(of_study)
    fit = HybridFit.objects.get()
    assert (fit.study, fit.run, fit.request["preset"]) == (study, run, "strong")
    assert fit.created_by == run.created_by


def test_a_failure_says_why_and_goes_on_with_the_rest(staff: Client) -> None:
    imported("a", "b", "c")
    assert "Compute metrics and fit the hybrid metric" in line(staff)[1]
    start(staff, "analyse")
    job = MetricRun.objects.get()
    assert job.then == {"study": "s", "steps": ["fit"]}
    job_fail(job=job, error="the disk is full")
    stages, box = line(staff)
    assert stages[1] == ("bad", "Failed")
    assert "the disk is full" in box
    assert "Try again" in box
    assert "Choose other settings" in box
    assert staff.post(f"/dashboard/jobs/metrics/{job.pk}/go-on/").status_code == 302
    MetricRun.objects.update(metrics=["words"])
    job.refresh_from_db()
    run_job(job)
    assert HybridFit.objects.get().request["preset"] == "strong"


def test_results_that_newer_chats_overtook_say_so(staff: Client) -> None:
    study = imported("a", "b", "c")
    usual = [metric.name for metric in metric_defaults()]
    MetricRun.objects.create(study=study, metrics=usual, state=State.DONE)
    HybridFit.objects.create(study=study, request={"preset": "paper"}, state=State.DONE, result={})
    stages, box = line(staff)
    assert stages[1] == ("done", f"{len(usual)} of {len(usual)}, all current")
    assert stages[3] == ("done", "paper, current")
    assert stages[4] == ("now", "none yet")
    assert "Make the report" in box
    job = report_ask(study=study)
    report_path(job).parent.mkdir(parents=True, exist_ok=True)
    report_path(job).write_bytes(b"")
    Job.objects.update(state=State.DONE)
    stages, box = line(staff)
    assert stages[4] == ("done", "current")
    assert "Everything is current" in box
    rating = Rating.objects.first()
    rating.save()
    stages, box = line(staff)
    assert stages[3][1] == "paper, before rating changes"
    assert stages[4] == ("later", "outdated by new data")
    MetricRun.objects.update(metrics=usual[:2])
    assert line(staff)[0][1] == ("now", f"2 of {len(usual)}")
    MetricRun.objects.update(metrics=usual)
    earlier = timezone.now() - timedelta(hours=1)
    MetricRun.objects.update(created_at=earlier)
    HybridFit.objects.update(created_at=earlier)
    stages, box = line(staff)
    assert stages[1][1].endswith("before 3 newer chats")
    assert stages[3][1] == "paper, before 3 newer chats"
    assert "Compute metrics and fit" in box


@pytest.mark.parametrize("state", [State.DONE, State.FAILED])
def test_another_metric_changes_nothing(staff: Client, state: str) -> None:
    study = imported("a", "b", "c")
    usual = [metric.name for metric in metric_defaults()]
    MetricRun.objects.create(study=study, metrics=usual[:3], state=State.DONE)
    MetricRun.objects.create(study=study, metrics=usual[3:], state=State.DONE)
    HybridFit.objects.create(study=study, request={"preset": "paper"}, state=State.DONE, result={})
    before = line(staff)
    assert before[0][1] == ("done", f"{len(usual)} of {len(usual)}, all current")
    assert "vader" not in usual
    MetricRun.objects.create(study=study, metrics=["vader"], state=state)
    assert line(staff) == before
    MetricRun.objects.create(study=study, metrics=usual[:1], state=State.FAILED)
    HybridFit.objects.create(study=study, request={"preset": "strong"}, state=State.FAILED)
    assert line(staff) == before, "what failed had been done before"


def test_a_fit_without_some_people_is_not_the_leading_one(staff: Client) -> None:
    study = imported("a", "b", "c")
    for request in ({"preset": "paper"}, {"preset": "strong", "without": ["fast"]}):
        HybridFit.objects.create(study=study, request=request, state=State.DONE, result={})
    assert line(staff)[0][3] == ("done", "paper, current")


def test_self_play_of_another_version_says_so(staff: Client) -> None:
    study = make_study("s", bots=["eliza", "parrot"])
    rated(study, "eliza")
    run = run_create(bots=["eliza", "parrot"], n_conversations=1, enqueue=False)
    SelfPlayRun.objects.update(state=State.DONE, n_done=2)
    assert line(staff)[0][2] == ("done", "2 conversations")
    run.plan["identities"]["parrot"]["key"] = "of before"
    run.save(update_fields=["plan"])
    assert line(staff)[0][2] == ("later", f"2 conversations, before a newer version of {bot_name('parrot')}")


def test_times_are_told_by_earlier_jobs(staff: Client) -> None:
    study, now = imported("a", "b", "c"), timezone.now()
    assert "about" not in line(staff)[1]
    usual = [metric.name for metric in metric_defaults()]
    lasting: dict[str, Any] = {"state": State.DONE, "started_at": now, "n_done": 10}
    other = make_study("t")
    MetricRun.objects.create(study=other, metrics=usual, ended_at=now + timedelta(seconds=100), **lasting)
    assert "about" not in line(staff)[1], "nobody knows how long a fit takes"
    params = {"preset": "strong", "applies_kept_fit": False}
    fit: dict[str, Any] = {"study": other, "request": params}
    HybridFit.objects.create(**fit, ended_at=now + timedelta(seconds=210), **lasting)
    assert "3 conversations, about 4 minutes." in line(staff)[1]  # 3 x 10 s and 210 s
    MetricRun.objects.create(study=study, metrics=usual, state=State.DONE, ended_at=now - timedelta(hours=2))
    html = staff.get("/dashboard/studies/s/").content.decode()
    assert "2\xa0hours ago</time>" in html


def test_readers_see_the_line_without_its_button(client: Client) -> None:
    imported("a", "b")
    client.force_login(make_staff(Right.READ))
    stages, box = line(client)
    assert stages[3][1] == "needs 3 rated bots"
    assert "A fit needs rated conversations of 3 bots; so far 2 have any" in box
    assert "Only users with the right to run jobs can start it" in box
