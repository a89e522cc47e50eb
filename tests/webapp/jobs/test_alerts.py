"""A bot that is set aside is told by webhook and e-mail, once each, and again where that failed."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.core import mail
from django.utils import timezone

from tests.builders import fail_reply, make_conversation, make_study
from tests.conftest import free_port
from tests.documents import blocks_tested
from webapp.bots.models import Alert, BotAside
from webapp.bots.services import bot_answered, bot_put_back
from webapp.jobs import alerts
from webapp.jobs.alerts import alert_send, alerts_ask, alerts_waiting, signature
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[tuple[dict[str, Any], Any]]:
    """Return what the webhook gets: JSON and headers."""
    settings.CONFAB_ALERT_WEBHOOK = "https://lab.example.org/hook"
    settings.CONFAB_ALERT_SECRET = "s3cret"
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    settings.CONFAB_PUBLIC_URL = "https://confab.example.org"
    results: list[tuple[dict[str, Any], Any]] = []

    def post(address: str, *, content: bytes, headers: dict[str, str], timeout: float) -> Any:
        assert address == settings.CONFAB_ALERT_WEBHOOK
        assert timeout <= 10
        expected = signature(content, headers["X-Confab-Timestamp"], "s3cret")
        assert headers["X-Confab-Signature"] == expected
        results.append((json.loads(content), headers))
        return httpx.Response(204)

    monkeypatch.setattr(alerts.httpx, "post", post)
    return results


def set_aside() -> None:
    """Let eliza fail three people in a row, and one more."""
    study = make_study("s", bots=["eliza"], name="Winter")
    chats = [make_conversation(study) for _ in range(4)]
    for chat in chats:
        fail_reply(chat)


def test_each_way_is_told_once(told: list[Any]) -> None:
    set_aside()
    [job] = Job.objects.filter(kind="alert")
    run_job(job)
    run_job(Job.objects.create(kind="alert", inline=True))
    [(result, _headers)] = told
    [shown] = blocks_tested("tests/webapp/jobs/test_alerts.py::test_each_way_is_told_once")
    documented = json.loads(shown.text)
    assert result.keys() == documented.keys()
    assert result["studies"][0].keys() == documented["studies"][0].keys()
    assert result["event"] == "bot_set_aside"
    assert (result["bot"], result["n_failed"], result["needs_person"]) == ("eliza", 3, False)
    assert result["studies"] == [{"key": "s", "name": "Winter", "n_holding_a_place": 4}]
    assert result["link"] == "https://confab.example.org/dashboard/bots/eliza/"
    [letter] = mail.outbox
    assert letter.to == ["lab@example.org"]
    assert "eliza failed 3 times in a row" in letter.body
    assert "Winter: 4 participants have a place with this bot." in letter.body
    bot_answered(bot_id="eliza")
    run_job(Job.objects.filter(kind="alert").latest("pk"))
    assert told[1][0]["event"] == "bot_came_back"
    assert mail.outbox[1].subject == "Confab: eliza is back"
    assert Alert.objects.filter(sent_at=None).count() == 0


def test_what_could_not_be_sent_says_why_and_is_tried_again(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[float] = []
    monkeypatch.setattr(alerts.queue, "alerts_later", lambda *, countdown_s: later.append(countdown_s))
    works = alerts.httpx.post
    monkeypatch.setattr(alerts.httpx, "post", lambda *_a, **_k: httpx.Response(503))
    set_aside()
    run_job(Job.objects.get(kind="alert"))
    alert = Alert.objects.get(channel="webhook")
    assert "responded with 503" in alert.error
    assert len(mail.outbox) == 1, "the other way is told all the same"
    assert later == [30.0]
    monkeypatch.setattr(alerts.httpx, "post", works)
    job = alerts_ask()
    assert job is not None
    run_job(job)
    assert told[0][0]["id"] == str(alert.pk)
    assert len(mail.outbox) == 1
    assert alerts_ask() is None


def test_a_mail_server_that_does_not_answer_is_named(settings: Any) -> None:
    settings.CONFAB_ALERT_WEBHOOK, settings.CONFAB_ALERT_EMAILS = "", ["lab@example.org"]
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    set_aside()
    run_job(Job.objects.get(kind="alert"))
    error = Alert.objects.get().error
    assert f"the mail server 127.0.0.1:{settings.EMAIL_PORT}" in error
    assert "refused" in error


def test_one_worker_sends_and_a_killed_one_is_made_up_for(told: list[Any]) -> None:
    set_aside()
    alert = alerts_waiting().get(channel="webhook")
    assert alert_send(alert=alert)
    assert not alert_send(alert=alert), "another worker is slower"
    Alert.objects.update(sent_at=None)
    assert not alerts_waiting().filter(pk=alert.pk).exists(), "somebody is at it"
    Alert.objects.update(tried_at=timezone.now() - timedelta(minutes=5))
    assert alerts_waiting().filter(pk=alert.pk).exists()
    assert len(told) == 1


def test_nobody_is_told_where_nothing_is_set_up_or_who_knows(told: list[Any], settings: Any) -> None:
    set_aside()
    bot_put_back(bot_id="eliza")
    assert set(Alert.objects.values_list("event", flat=True)) == {"bot_set_aside"}
    settings.CONFAB_ALERT_WEBHOOK = "lab.example.org"
    alert = Alert.objects.filter(channel="webhook").earliest("created_at")
    assert not alert_send(alert=alert)
    alert.refresh_from_db()
    assert "'lab.example.org'; it must begin with http" in alert.error
    BotAside.objects.all().delete()
    settings.CONFAB_ALERT_WEBHOOK, settings.CONFAB_ALERT_EMAILS = "", []
    alerts.alerts_make(
        aside=BotAside.objects.create(bot_id="b", began_at=timezone.now(), n_failed=3), event="bot_set_aside"
    )
    assert not Alert.objects.exists()
