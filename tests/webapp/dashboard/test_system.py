"""The page of the system: what runs, what waits, what is wrong, and the button that tries alerts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from tests.builders import make_study, signed_in
from webapp.bots.models import Alert
from webapp.core.models import Process
from webapp.core.processes import Signs
from webapp.core.rights import Right
from webapp.dashboard.action_items import action_items
from webapp.jobs.models import Job, State
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


def browser(*rights: Right) -> Client:
    return signed_in(*rights, username="-".join(rights))


def signs_of(role: str, settings: Any, **details: Any) -> Process:
    settings.CONFAB_SIGN_EVERY_S = 10.0
    signs = Signs()
    signs.begin(role, in_thread=False, **details)
    signs.give()
    return Process.objects.get(pk=signs.id)


def test_an_installation_that_tells_nothing_says_so() -> None:
    text = browser(Right.READ).get("/dashboard/settings/system/").content.decode()
    assert "No process has given a sign of life yet." in text
    assert "Nothing is wrong that shows here." in text

    text = browser(Right.READ, Right.RUN).get("/dashboard/settings/alerts/").content.decode()
    assert "No alert has been sent yet." in text
    assert "Send a test alert" not in text  # for administrators alone


def test_where_jobs_wait_for_minutes_it_is_not_said_that_nothing_is_wrong() -> None:
    waits = Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    client = browser(Right.READ)
    assert "Nothing is wrong" in client.get("/dashboard/settings/system/").content.decode()
    Job.objects.filter(pk=waits.pk).update(created_at=timezone.now() - timedelta(minutes=4))
    text = client.get("/dashboard/settings/system/").content.decode()
    assert "Analyses: 1 waits, the oldest for 4 min." in text
    assert "Nothing is wrong" not in text
    assert [one.rest for one in action_items()] == ["Analyses: 1 waits, the oldest for 4 min."]


def test_processes_queues_and_what_is_wrong_stand_there(settings: Any) -> None:
    replaced = signs_of("web", settings)
    Process.objects.filter(pk=replaced.pk).update(heard_at=timezone.now() - timedelta(minutes=4))
    web = signs_of("web", settings)
    web.load["hangs"] = {"threads": 120.0}
    web.save()
    gone = signs_of("bot_host", settings, pool="gpu2")
    Process.objects.filter(pk=gone.pk).update(heard_at=timezone.now() - timedelta(minutes=4))
    waits = Job.objects.create(kind="results", payload={"part": "models"}, state=State.QUEUED)
    Job.objects.filter(pk=waits.pk).update(created_at=timezone.now() - timedelta(hours=1))
    client = browser(Right.READ)
    for address in ("/dashboard/settings/system/", "/dashboard/settings/system/live/"):
        text = client.get(address).content.decode()
        assert f"Bot host on {gone.host} is not heard of" in text
        assert "bots of pool gpu2" in text
        assert f"Web on {web.host} hangs" in text
        assert f"kill -9 {web.pid}" in text
        assert text.count("Not heard of</span>") == 1, "who was replaced is missed by nobody"
        assert "All its page threads have been busy" in text
        assert f"Hangs since {web.heard_at - timedelta(minutes=2):%H:%M}" in text
        assert "The queue analysis stands still" in text
        assert "1 job waits, and no worker has gone on" in text
        assert "No bot host is heard of" in text
        assert "Nothing is wrong" not in text
    leads = [one.lead for one in action_items()]
    assert leads == [
        f"Bot host on {gone.host} is not heard of.",
        f"Web on {web.host} hangs.",
        "The queue analysis stands still.",
    ]


def test_retention_says_what_is_erased_when() -> None:
    made = make_study("kept", ids_kept_days=10, texts_kept_days=1)
    Study.objects.filter(pk=made.pk).update(ended_at=datetime(2026, 3, 1, tzinfo=UTC))
    make_study("open", ids_kept_days=1)
    answer = browser(Right.READ).get("/dashboard/settings/retention/")
    assert answer.status_code == 200
    words = " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())
    assert "1 Mar 2026 erased on 11 Mar 2026 erased on 2 Mar 2026" in words
    assert "not yet 1 day after the end kept until a researcher erases them" in words


def test_a_state_that_cannot_be_read_is_told_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("webapp.dashboard.views.system.system_now", away)
    answer = browser(Right.READ).get("/dashboard/settings/system/")
    assert answer.status_code == 200
    assert "The state cannot be read." in answer.content.decode()
    assert 'data-live="/dashboard/settings/system/live/"' in answer.content.decode()


def test_the_button_sends_a_test_where_a_way_is_set_up(settings: Any) -> None:
    client = browser(Right.READ, Right.ADMINISTER)
    answer = client.post("/dashboard/settings/alerts/test/", follow=True)
    assert "neither CONFAB_ALERT_WEBHOOK nor CONFAB_ALERT_EMAILS is set" in answer.content.decode()
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    text = client.post("/dashboard/settings/alerts/test/", follow=True).content.decode()
    assert "A test alert is on its way." in text
    assert "Confab: a test" in text
    assert "On its way" in text
    Alert.objects.update(error="<b>the server</b> is away")
    text = client.get("/dashboard/settings/alerts/live/").content.decode()
    assert "&lt;b&gt;the server" in text
    assert Job.objects.filter(kind="alert").count() == 1


def test_settings_lead_to_a_page_that_the_user_may_open_and_old_addresses_to_the_new() -> None:
    client = browser(Right.READ)
    answer = client.get("/dashboard/settings/", follow=True)
    assert answer.status_code == 200
    assert answer.redirect_chain[0][0].startswith("/dashboard/settings/")
    for old, new in (("system", "settings/system"), ("tokens", "settings/tokens")):
        assert client.get(f"/dashboard/{old}/")["Location"] == f"/dashboard/{new}/"
