"""What goes wrong is told once, by a signed webhook and by e-mail, and once more when it is over."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core import mail
from django.utils import timezone
from redis.exceptions import RedisError

from tests.builders import make_conversation, make_study
from tests.documents import blocks_tested
from webapp.bots.models import Alert
from webapp.conversations.models import Conversation
from webapp.core import processes
from webapp.core.health import RedisOutageFilter
from webapp.core.models import Incident, Process
from webapp.core.processes import HANGS_AFTER_S, SILENT_AFTER, Signs
from webapp.jobs.alerts import signature
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.services.jobs import job_cancel
from webapp.operating import incidents, system_load
from webapp.operating.incidents import alert_try, look, look_if_due, send_here
from webapp.operating.system_load import exposition

pytestmark = pytest.mark.django_db

SECRET = "s3cret"


class Receiver:
    """A server of a lab that takes alerts: what it heard, and what it answers."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, Any], dict[str, str], bytes]] = []
        self.answers = [204]
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.heard.append((json.loads(body), dict(self.headers), body))
                status = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def events(self) -> list[str]:
        return [body["event"] for body, *_ in self.heard]


@pytest.fixture
def lab(settings: Any) -> Iterator[Receiver]:
    """Give the server that is told, with everything set up."""
    receiver = Receiver()
    settings.CONFAB_ALERT_WEBHOOK = f"http://127.0.0.1:{receiver.server.server_port}/hook"
    settings.CONFAB_ALERT_SECRET = SECRET
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    settings.CONFAB_PUBLIC_URL = "https://confab.example.org"
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def sent() -> None:
    """Do what a worker does."""
    for job in Job.objects.filter(kind="alert", state=State.QUEUED):
        run_job(job)


def sign(role: str, monkeypatch: pytest.MonkeyPatch, **details: Any) -> Process:
    monkeypatch.setattr(django_settings, "CONFAB_SIGN_EVERY_S", 10.0)
    signs = Signs()
    signs.begin(role, in_thread=False, **details)
    signs.give()
    return Process.objects.get(pk=signs.id)


def test_a_process_that_is_missed_is_told_once_and_again_when_replaced(
    lab: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = sign("worker", monkeypatch, queues=["gpu"])
    look()
    assert Alert.objects.count() == 0
    Process.objects.filter(pk=gone.pk).update(
        began_at=timezone.now() - SILENT_AFTER * 5, heard_at=timezone.now() - SILENT_AFTER * 2
    )
    for _ in range(3):
        look()
    sent()
    assert lab.events == ["process_silent"]
    body, headers, raw = lab.heard[0]
    assert headers["X-Confab-Signature"] == signature(raw, headers["X-Confab-Timestamp"], SECRET)
    assert (body["host"], body["roles"]) == (gone.host, ["worker"])
    assert body["link"] == "https://confab.example.org/dashboard/settings/system/"
    assert [one.subject for one in mail.outbox] == [f"Confab: Worker on {gone.host} is silent"]
    # Another of other queues does not take its place; one of its own does.
    sign("worker", monkeypatch, queues=["default"])
    look()
    assert Incident.objects.get().ended_at is None
    sign("worker", monkeypatch, queues=["gpu"])
    look()
    look()
    sent()
    assert lab.events == ["process_silent", "process_back"]
    assert "resolved" in mail.outbox[-1].subject


def test_a_process_that_hangs_is_told_although_it_gives_signs(lab: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "CONFAB_SIGN_EVERY_S", 10.0)
    signs = Signs()
    signs.begin("web", in_thread=False)
    for stands_s in (HANGS_AFTER_S / 2, HANGS_AFTER_S * 2, HANGS_AFTER_S * 3, 0.5):
        signs.stands_s["loop"] = lambda s=stands_s: s
        signs.give()
        look()
    sent()
    assert lab.events == ["process_silent", "process_back"]
    body = lab.heard[0][0]
    assert body["title"].endswith(" hangs")
    assert body["hangs"] == ["loop"]
    heard_at = Process.objects.get(pk=signs.id).heard_at
    since = datetime.fromisoformat(body["since"])
    assert since < heard_at - timedelta(seconds=HANGS_AFTER_S)


async def test_an_event_loop_that_is_blocked_stands_until_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_BEAT_EVERY_S", 0.001)
    signs = Signs()
    beating = asyncio.ensure_future(signs.beat())
    await asyncio.sleep(0)
    time.sleep(0.05)
    assert signs.stands_s["loop"]() >= 0.05
    async with asyncio.timeout(60):
        while signs.stands_s["loop"]() >= 0.05:
            await asyncio.sleep(0.001)
    beating.cancel()


def test_what_the_lab_does_not_take_is_sent_again_under_the_same_id(lab: Receiver) -> None:
    lab.answers = [500, 204]
    assert alert_try() == 2
    sent()
    alert = Alert.objects.get(channel="webhook")
    assert (alert.sent_at, alert.n_tries) == (None, 1)
    assert "responded with 500" in alert.error
    send_here()  # too early: nothing happens
    assert len(lab.heard) == 1
    Alert.objects.update(tried_at=timezone.now() - timedelta(minutes=2))
    send_here()
    alert.refresh_from_db()
    assert (alert.error, alert.n_tries) == ("", 2)
    assert {body["id"] for body, *_ in lab.heard} == {str(alert.pk)}
    assert lab.events == ["test", "test"]
    assert len(mail.outbox) == 1


def test_without_a_worker_the_process_that_looks_sends(lab: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED, error="he wrote: my secret")
    monkeypatch.setattr(incidents, "_looked_at", None)
    look_if_due()
    look_if_due()
    assert lab.events == ["job_failed"]
    Job.objects.filter(kind="alert").update(created_at=timezone.now() - timedelta(hours=1))
    look()  # the job that no worker does is no trouble: what it was to send is sent
    assert Incident.objects.count() == 1
    assert "my secret" not in json.dumps(lab.heard[0][0]) + mail.outbox[0].body
    # A worker that is there does it.
    sign("worker", monkeypatch)
    Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
    monkeypatch.setattr(incidents, "_looked_at", None)
    look_if_due()
    assert len(lab.heard) == 1


def test_a_failed_job_is_told_once_for_as_long_as_it_is_failed(lab: Receiver) -> None:
    old = Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
    Job.objects.filter(pk=old.pk).update(updated_at=timezone.now() - timedelta(days=3))
    new = Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
    look()
    Job.objects.filter(pk=new.pk).update(updated_at=timezone.now() - timedelta(days=3))
    look()
    sent()
    assert [(body["event"], body["job"]) for body, *_ in lab.heard] == [("job_failed", new.pk)]
    new.refresh_from_db()
    assert job_cancel(job=new).state == State.CANCELLED, "somebody leaves it as it is"
    look()
    sent()
    assert lab.events == ["job_failed", "job_went_on"]


def test_a_disk_and_queues_are_told_too(lab: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    total = system_load.disk_usage().total
    free = {"now": 1e9}
    monkeypatch.setattr(
        system_load.shutil, "disk_usage", lambda _folder: type("Usage", (), {"free": free["now"], "total": total})
    )  # fmt: skip
    chat = make_conversation(make_study(bots=["eliza"]))
    Conversation.objects.filter(pk=chat.pk).update(due_turn=1, due_since=timezone.now() - timedelta(minutes=3))
    job = Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(hours=1))
    look()
    results = {(incident.kind, incident.subject) for incident in Incident.objects.all()}
    assert results == {("disk_low", "data"), ("queue_still", "replies"), ("queue_still", "analysis")}
    # A little more is not enough yet, or it would come and go.
    free["now"] = 2.1e9
    Conversation.objects.filter(pk=chat.pk).update(due_turn=None)
    Job.objects.filter(pk=job.pk).update(state=State.RUNNING, heartbeat_at=timezone.now())
    look()
    still = {incident.kind for incident in Incident.objects.filter(ended_at=None)}
    assert still == {"disk_low"}
    free["now"] = 9e9
    look()
    assert not Incident.objects.filter(ended_at=None).exists()
    sent()
    assert sorted(lab.events) == sorted(["disk_low", "disk_enough", *["queue_still", "queue_moves"] * 2])


def test_a_redis_that_does_not_answer_is_told_and_said_once_a_minute(lab: Receiver, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1"  # where nothing listens
    look()
    assert Incident.objects.get().kind == "redis_away"
    assert b"confab_redis_up 0.0" in exposition("")[0]
    settings.REDIS_URL = ""
    look()
    sent()
    assert lab.events == ["redis_away", "redis_back"]
    assert b"confab_redis_up" not in exposition("")[0]

    lines = RedisOutageFilter()

    def said(error: Exception) -> logging.LogRecord | None:
        of = (type(error), error, None)
        record = logging.LogRecord("layer", logging.ERROR, "", 1, "no frame", (), of)
        return record if lines.filter(record) else None

    first = said(RedisError("refused"))
    assert (first.getMessage(), first.exc_info) == ("no frame: refused", None)
    assert said(RedisError("refused")) is None
    other = said(ValueError("of ours"))
    assert other.exc_info is not None


def test_nothing_is_made_where_nothing_is_set_up() -> None:
    assert alert_try() == 0
    Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
    look()
    assert Incident.objects.count() == 1  # the page of the system tells of it
    assert Alert.objects.count() == 0


def test_what_is_told_looks_as_the_documentation_says(lab: Receiver) -> None:
    for _ in range(3):
        Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    Job.objects.update(created_at=timezone.now() - timedelta(seconds=412))
    look()
    sent()
    [shown] = blocks_tested(
        "tests/webapp/operating/test_alerting.py::test_what_is_told_looks_as_the_documentation_says"
    )
    documented, (told, *_rest) = json.loads(shown.text), lab.heard[0]
    assert told.keys() == documented.keys()
    assert told["words"] == documented["words"]
    same = {key: told[key] for key in ("event", "n", "oldest_s", "link")}
    assert same == {key: documented[key] for key in same}


def test_a_failed_job_with_a_long_name_stops_no_watching(lab: Receiver) -> None:
    payload = {"file": "x", "study": "k" * 700}
    Job.objects.create(kind="import", payload=payload, state=State.FAILED)
    Job.objects.create(kind="import", payload={**payload, "study": "s"}, state=State.FAILED)
    look()
    titles = sorted(Incident.objects.values_list("title", flat=True), key=len)
    assert titles[0] == "A job failed: Import into s"
    assert [len(title) for title in titles[1:]] == [500]


@pytest.mark.parametrize("check", ["_redis_away", "_silent", "_disk_low", "_still", "_failed"])
def test_a_check_that_raises_is_told_and_stops_no_other(
    lab: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, check: str
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such column")

    with monkeypatch.context() as patched:
        patched.setattr(incidents, check, broken)
        job = Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
        look()
        look()
        told = dict(Incident.objects.values_list("subject", "title"))
        assert incidents.CHECK in told
        assert "Confab cannot check" in told[incidents.CHECK]
        assert (f"results:{job.pk}" in told) == (check != "_failed")
        (line, _again) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "no such column" in line.getMessage()
        assert line.exc_info is None
    look()
    open_still = Incident.objects.filter(ended_at=None).values_list("subject", flat=True)
    assert list(open_still) == [f"results:{job.pk}"]


def test_what_was_told_goes_on_while_its_check_fails(lab: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job.objects.create(kind="results", payload={"part": "models"}, state=State.FAILED)
    look()
    with monkeypatch.context() as patched:
        patched.setattr(incidents, "job_models", lambda: 1 / 0)
        look()
    assert Incident.objects.get(subject=f"results:{job.pk}").ended_at is None


def test_an_incident_that_cannot_end_stops_no_other(
    lab: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [
        Job.objects.create(kind="results", payload={"part": part}, state=State.FAILED) for part in ("models", "raters")
    ]
    look()
    # The first is of a kind that this version does not know.
    Incident.objects.filter(subject=f"results:{jobs[0].pk}").update(kind="of_a_plugin")
    Job.objects.update(state=State.CANCELLED)
    look()
    ended = Incident.objects.exclude(ended_at=None).values_list("subject", flat=True)
    assert list(ended) == [f"results:{jobs[1].pk}"]
    assert "of_a_plugin" in caplog.text
