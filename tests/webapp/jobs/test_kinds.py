"""A kind of job in one file; and a job whose process was killed, which does not stay "running"."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from chatbots.registry import UnknownName
from chatbots.validation import InputModel
from webapp.core.errors import Refused
from webapp.dashboard.views.jobs import job_rows
from webapp.insights.action_items import action_items
from webapp.jobs import queue, tasks
from webapp.jobs.engine import run_job
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, kind_of, kinds
from webapp.jobs.management.command_line import require_done
from webapp.jobs.models import HybridFit, Job, JobBase, MetricRun, SelfPlayRun, Shard
from webapp.jobs.queue import STALE_AFTER, holder_end
from webapp.jobs.selectors.jobs import job_progress, jobs_for_workers
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.jobs.services.jobs import (
    job_ask,
    job_cancel,
    job_claim,
    job_create,
    job_release,
    job_restart,
    job_settle,
    jobs_settle,
    shard_beat,
    shard_claim,
    shards_plan,
)
from webapp.jobs.services.selfplay import run_create
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


class Asked(InputModel):
    numbers: list[int]
    power: int = 1


class Sums(JobKind[Job, Asked]):
    """Adds powers, a number in each shard; refuses 13 beforehand and breaks at 0 while it is `fragile`."""

    name = "sums"
    title = "Sums"
    Payload = Asked
    fragile = False
    done: list[int]

    def check(self, asked: Asked) -> None:
        if 13 in asked.numbers:
            raise Refused("unlucky", "13 brings bad luck")

    def plan(self, job: Job, asked: Asked) -> list[ShardPlan]:
        return [ShardPlan({"number": number}) for number in asked.numbers]

    def slice(self, work: ShardWork[Job, Asked]) -> int:
        number = work.shard["number"]
        self.done.append(number)
        if number == 0 and self.fragile:
            raise Refused("zero", "0 breaks it")
        return number**work.params.power

    def finish(self, work: ShardWork[Job, Asked], results: Sequence[Any]) -> int:
        return sum(results)


@pytest.fixture
def sums() -> Iterator[Sums]:
    kind = kinds.add(Sums())
    assert isinstance(kind, Sums)
    kind.done = []
    yield kind
    kinds.discard("sums")


def create(*numbers: int, **more: Any) -> Job:
    payload = {"numbers": list(numbers), **more}
    return job_create(kind="sums", payload=payload, enqueue=False)


def test_a_job_without_work_ends_at_once(sums: Sums) -> None:
    job = create()
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.result) == ("done", 0)


@pytest.mark.parametrize(
    ("kind", "payload", "told"),
    [
        ("sum", {"numbers": []}, "did you mean sums"),
        ("sums", {"numbers": [], "powr": 2}, "did you mean power"),
        ("sums", {"numbers": ["one"], "power": 1.5}, "2 mistakes.*numbers.*power"),
        ("sums", {}, "numbers"),
        ("sums", {"numbers": [13]}, "bad luck"),
    ],
)
def test_a_mistyped_argument_is_refused_before_there_is_a_job(
    sums: Sums, kind: str, payload: dict[str, Any], told: str
) -> None:
    with pytest.raises((Refused, UnknownName), match=told):
        job_create(kind=kind, payload=payload)
    with pytest.raises((Refused, UnknownName), match=told):
        job_ask(kind=kind, payload=payload, state="now")
    assert not Job.objects.exists()


def test_going_on_does_only_what_is_left(sums: Sums) -> None:
    sums.fragile = True
    job = create(1, 0, 2)
    run_job(job)
    job.refresh_from_db()
    assert (job.state, job.error, job.n_done) == ("failed", "0 breaks it", 1)
    sums.fragile = False
    run_job(job_restart(job=job))
    job.refresh_from_db()
    assert (job.state, job.result) == ("done", 3)
    assert sums.done == [1, 0, 0, 2]


def test_the_same_question_about_the_same_data_is_one_job(
    sums: Sums, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[Job] = []
    monkeypatch.setattr(queue, "send", sent.append)
    with django_capture_on_commit_callbacks(execute=True):
        first = job_ask(kind="sums", payload={"numbers": [1]}, state="today")
        again = job_ask(kind="sums", payload={"power": 1, "numbers": [1]}, state="today")
        other = job_ask(kind="sums", payload={"numbers": [2]}, state="today")
        later = job_ask(kind="sums", payload={"numbers": [1]}, state="tomorrow")
    assert first == again
    assert len({first.pk, other.pk, later.pk}) == 3
    assert sent == [first, other, later]


WAITING = '<span class="pill">Waiting</span>'
RUNNING = '<span class="pill pill-info">Running</span>'


def test_waiting_and_running_look_different(sums: Sums, admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "send", lambda job: True)
    job = job_create(kind="sums", payload={"numbers": [1, 2]})
    pages = [reverse("dashboard:job", args=["sums", job.pk]), reverse("dashboard:home")]
    for page in pages:
        assertContains(admin_client.get(page), WAITING, html=True)
    holder = job_claim(job=job)
    assert holder
    shards_plan(job=job, holder=holder, parts=[ShardPlan()])
    job_release(job=job, holder=holder)
    assert shard_claim(job=job)
    Job.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    for page in pages:
        assertContains(admin_client.get(page), RUNNING, html=True)  # its shard is held
    Shard.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    for page in pages:
        assertContains(admin_client.get(page), WAITING, html=True)
        assert Job.objects.get().state == "queued"
    Shard.objects.update(holder="")
    assertContains(admin_client.get(pages[0]), WAITING, html=True)


def test_a_kind_of_a_plug_in_that_is_gone_breaks_no_page(sums: Sums, admin_client: Client) -> None:
    job = create(1)
    kinds.discard("sums")
    assertContains(admin_client.get(reverse("dashboard:home")), str(job))
    assertContains(admin_client.get(reverse("dashboard:runs")), "Self-play")


def test_a_raised_job_goes_first_and_the_page_says_what_is_before_a_waiting_one(
    sums: Sums, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "send", lambda job: True)
    first, second, third = (job_create(kind="sums", payload={"numbers": [n]}) for n in (1, 2, 3))
    assert [job.pk for job in jobs_for_workers("default")] == [first.pk, second.pk, third.pk]
    page = reverse("dashboard:jobs")
    assert [(row.job.pk, row.place) for row in admin_client.get(page).context["rows"]] == [
        (first.pk, 0),
        (second.pk, 2),
        (third.pk, 3),
    ]
    move = reverse("dashboard:job_move", args=["sums", third.pk])
    assert admin_client.post(move, {"to": "1", "next": page})["Location"] == page
    assert [job.pk for job in jobs_for_workers("default")] == [third.pk, first.pk, second.pk]
    assertContains(admin_client.get(page), "raised")
    assertContains(admin_client.get(reverse("dashboard:jobs_live")), "2nd in line")
    assert admin_client.post(move, {"to": "9"}).status_code == 400
    assert admin_client.post(reverse("dashboard:job_move", args=["sums", first.pk]), {"to": "-1"}).status_code == 302
    assert [job.pk for job in jobs_for_workers("default")] == [third.pk, second.pk, first.pk]


@pytest.fixture
def gone() -> str:
    """Return a holder that was a process of this machine and is none any more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{socket.gethostname()[:80]}:{process.pid}:x"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[JobBase]:
    """Return the jobs that workers are woken for."""
    results: list[JobBase] = []
    monkeypatch.setattr(queue, "send", results.append)
    return results


def begun(job: JobBase) -> Shard:
    """Plan a job and claim its first shard, as a process at work on it has."""
    holder, kind = job_claim(job=job), kind_of(job)
    assert holder
    parts = kind.plan(job, kind.Payload.model_validate(job.params))
    assert shards_plan(job=job, holder=holder, parts=parts)
    job_release(job=job, holder=holder)
    shard = shard_claim(job=job)
    assert shard
    job.refresh_from_db()
    return shard


def killed(job: JobBase, gone: str) -> None:
    """Let the process at work on the job be one that was killed."""
    holder_end(begun(job).holder)
    Shard.objects.filter(state="running").update(holder=gone)


@pytest.fixture
def run() -> SelfPlayRun:
    """Make a run that a command does."""
    return run_create(bots=["eliza"], n_conversations=2, n_turns=2, enqueue=False)


def test_a_killed_commands_job_is_interrupted_in_lists_filters_pages_and_the_row(
    run: SelfPlayRun, gone: str, sent: list[JobBase], admin_client: Client
) -> None:
    begun(run)
    jobs_settle()
    run.refresh_from_db()
    assert run.state == "running"
    with pytest.raises(Refused, match="has not ended"):
        job_restart(job=run)
    Shard.objects.filter(state="running").update(holder=gone)
    listed = reverse("admin:runs_selfplayrun_changelist")
    assertContains(admin_client.get(f"{listed}?state__exact=interrupted"), "1 self play run")
    run.refresh_from_db()
    assert (run.state, run.is_over) == ("interrupted", True)
    assert run.ended_at is not None
    assert job_rows() == []
    assert [need.lead for need in action_items()] == [f"Self-play {run.pk}"]
    for page in ("dashboard:runs", "dashboard:home"):
        assertContains(admin_client.get(reverse(page)), "nterrupted")
    with pytest.raises(Refused, match="interrupted"):
        require_done(run)
    assert sent == []  # nobody but the command was asked to do it
    tasks.work("gpu")
    run.refresh_from_db()
    assert run.state == "interrupted"


def test_a_killed_workers_job_waits_for_another_which_is_woken(gone: str, sent: list[JobBase]) -> None:
    run = run_create(bots=["eliza"], n_conversations=2, n_turns=2)
    killed(run, gone)
    jobs_settle()
    run.refresh_from_db()
    assert run.state == "queued"
    assert sent == [run]
    jobs_settle()
    assert len(sent) == 1
    run_job(run)
    run.refresh_from_db()
    assert run.state == "done"


def test_a_job_that_was_to_stop_has_stopped(run: SelfPlayRun, gone: str) -> None:
    begun(run)
    assert job_progress(job_cancel(job=run)).stopping
    Shard.objects.filter(state="running").update(holder=gone)
    assert job_settle(job=run).state == "cancelled"


def test_a_command_that_died_before_it_began_leaves_nothing_waiting(run: SelfPlayRun) -> None:
    assert job_settle(job=run).state == "queued"
    long_ago = timezone.now() - STALE_AFTER - timedelta(seconds=1)
    SelfPlayRun.objects.update(updated_at=long_ago)
    run.refresh_from_db()
    assert job_settle(job=run).state == "interrupted"


def test_who_looks_at_an_old_row_changes_nothing(run: SelfPlayRun, gone: str) -> None:
    shard = begun(run)
    as_read = SelfPlayRun.objects.get()
    SelfPlayRun.objects.update(heartbeat_at=timezone.now() - STALE_AFTER)
    as_read.heartbeat_at = timezone.now() - 2 * STALE_AFTER  # as somebody had read it before
    Shard.objects.filter(pk=shard.pk).update(heartbeat_at=timezone.now() - 2 * STALE_AFTER)
    assert job_settle(job=as_read).state == "running"


def test_who_slept_and_wakes_goes_on(run: SelfPlayRun) -> None:
    """A laptop that was closed: the process lives, and its job was taken for abandoned."""
    shard = begun(run)
    long_ago = timezone.now() - 2 * STALE_AFTER
    Shard.objects.update(heartbeat_at=long_ago)
    SelfPlayRun.objects.update(heartbeat_at=long_ago)
    run.refresh_from_db()
    assert job_settle(job=run).state == "interrupted"
    assert shard_beat(job=run, shard=shard, n_done=1)
    run.refresh_from_db()
    assert (run.state, run.ended_at, run.n_done) == ("running", None, 1)


def interrupted(kind: str, study: Study, gone: str) -> JobBase:
    """Make a killed command's job of a kind that the pages of a study show."""
    job: JobBase
    if kind == "metrics":
        job = metric_run_create(study=study, metrics=["words"], enqueue=False)
    else:
        job = fit_create(study=study, targets=["quality"], enqueue=False)
    killed(job, gone)
    return job


@pytest.mark.parametrize("kind", ["metrics", "hybrid"])
def test_going_on_is_a_button_on_the_pages_of_metrics_and_fits(
    kind: str,
    rated_study: Callable[..., Study],
    gone: str,
    sent: list[JobBase],
    admin_client: Client,
    django_capture_on_commit_callbacks: Any,
) -> None:
    study = rated_study()
    job = interrupted(kind, study, gone)
    page = reverse("dashboard:study_prediction", args=[study.key])
    go_on = reverse("dashboard:job_go_on", args=[kind, job.pk])
    for shows in (page, reverse("dashboard:job", args=[kind, job.pk])):
        assertContains(admin_client.get(shows), go_on)
    assertContains(admin_client.get(reverse("dashboard:jobs")), "Interrupted")
    assert admin_client.get(shows).context["section"] == "studies"
    leave = reverse("dashboard:job_stop", args=[kind, job.pk])
    assertContains(admin_client.get(shows), leave)
    assertContains(admin_client.post(leave, {"next": shows}, follow=True), "The job was dismissed")
    assertNotContains(admin_client.get(shows), leave)
    assertNotContains(admin_client.get(reverse("dashboard:jobs")), "Interrupted")
    with django_capture_on_commit_callbacks(execute=True):
        answer = admin_client.post(go_on, {"next": page})
    assert answer["Location"] == page
    assertNotContains(admin_client.get(page), go_on)
    (result,) = {"metrics": MetricRun, "hybrid": HybridFit}[kind].objects.all()
    assert (result.state, result.inline) == ("queued", False)
    assert sent == [result]
