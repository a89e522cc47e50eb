"""A job whose process was killed does not stay "running": its row says so to whoever looks next."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from webapp.core.errors import Refused
from webapp.dashboard.action_items import action_items
from webapp.dashboard.views.jobs import job_rows
from webapp.jobs import queue, tasks
from webapp.jobs.engine import run_job
from webapp.jobs.kinds.base import kind_of
from webapp.jobs.leases import STALE_AFTER, holder_end
from webapp.jobs.management.command_line import require_done
from webapp.jobs.models import HybridFit, JobBase, MetricRun, SelfPlayRun, Shard
from webapp.jobs.selectors.jobs import job_progress
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.jobs.services.jobs import (
    job_cancel,
    job_claim,
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


@pytest.fixture
def gone() -> str:
    """Return a holder that was a process of this machine and is none any more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{socket.gethostname()[:80]}:{process.pid}:x"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[JobBase]:
    """Return the jobs that workers are woken for."""
    found: list[JobBase] = []
    monkeypatch.setattr(queue, "send", found.append)
    return found


def begun(job: JobBase) -> Shard:
    """Plan a job and claim its first shard, as a process at work on it has."""
    holder, kind = job_claim(job=job), kind_of(job)
    assert holder
    parts = kind.plan(job, kind.Payload.model_validate(job.asked))
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
    with pytest.raises(Refused, match="not over"):
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
    assertContains(admin_client.post(leave, {"next": shows}, follow=True), "It counts as stopped")
    assertNotContains(admin_client.get(shows), leave)
    assertNotContains(admin_client.get(reverse("dashboard:jobs")), "Interrupted")
    with django_capture_on_commit_callbacks(execute=True):
        answer = admin_client.post(go_on, {"next": page})
    assert answer["Location"] == page
    assertNotContains(admin_client.get(page), go_on)
    (found,) = {"metrics": MetricRun, "hybrid": HybridFit}[kind].objects.all()
    assert (found.state, found.inline) == ("queued", False)
    assert sent == [found]
