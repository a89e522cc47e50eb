"""A kind of job in one file: what is asked is checked first, results are kept, and going on goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains

from chatbots.registry import UnknownName
from chatbots.validation import InputModel
from webapp.core.errors import Refused
from webapp.jobs import queue
from webapp.jobs.engine import run_job
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, kinds
from webapp.jobs.models import Job, Shard
from webapp.jobs.selectors.jobs import jobs_for_workers
from webapp.jobs.services.jobs import job_ask, job_claim, job_create, job_release, job_restart, shard_claim, shards_plan

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
        return number**work.asked.power

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
