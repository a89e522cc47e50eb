"""Alerts about bots or the installation, by webhook and e-mail.

The transaction that disables a bot also stores an alert, which a job then sends. A worker claims the row before
sending, so each alert is sent once with any number of workers.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.core.mail import send_mail
from django.db.models import F, Min, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from chatbots.text import error_text, quote, sanitise
from webapp.bots.models import Alert, BotAside
from webapp.core.clock import database_now
from webapp.core.models import Incident
from webapp.jobs import queue
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create
from webapp.studies.models import Slot, Study, Task

KIND = "alert"
CLAIM_HELD_FOR = timedelta(minutes=2)
"""Time after which the process that claimed an alert without reporting counts as killed."""
MOST_TRIES = 8
FIRST_AGAIN_S = 30.0
"""Wait after the first failure; it doubles after each further one."""
_TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


class AlertError(Exception):
    """Failure to send an alert; the message gives the reason."""


def alerts_make(*, aside: BotAside, event: str) -> None:
    """Create one alert for each configured channel and wake a worker."""
    _create_alerts([Alert(aside=aside, event=event, channel=channel) for channel in alert_channels()])


def alerts_tell(*, event: str, content: dict[str, Any], incident: Incident | None = None) -> list[Alert]:
    """Create an alert about the installation; return one per channel.

    Args:
        content: `title`, `words`, `link` relative to the dashboard's address, and machine-readable values.
        incident: identifies the incident; each event of it is reported once. None: every call creates an alert.
    """
    rows = [Alert(incident=incident, event=event, channel=channel, said=content) for channel in alert_channels()]
    return _create_alerts(rows)


def alert_channels() -> list[Alert.Channel]:
    """Return the configured channels."""
    ways = {Alert.Channel.WEBHOOK: settings.CONFAB_ALERT_WEBHOOK, Alert.Channel.EMAIL: settings.CONFAB_ALERT_EMAILS}
    return [channel for channel, is_set_up in ways.items() if is_set_up]


def _create_alerts(rows: list[Alert]) -> list[Alert]:
    Alert.objects.bulk_create(rows, ignore_conflicts=True)
    if rows:
        job_create(kind=KIND)
    return rows


def alerts_waiting() -> QuerySet[Alert]:
    """Return the alerts waiting to be sent, oldest first."""
    is_free = Q(tried_at=None) | Q(tried_at__lt=database_now() - CLAIM_HELD_FOR) | ~Q(error="")
    return Alert.objects.filter(is_free, sent_at=None, n_tries__lt=MOST_TRIES).order_by("created_at", "pk")


def alerts_ask() -> Job | None:
    """Request a job that sends the waiting alerts.

    None if there are none.
    """
    return job_create(kind=KIND) if alerts_waiting().exists() else None


def alerts_again() -> None:
    """Schedule a retry of failed alerts and of those a killed process held."""
    unsent = Alert.objects.filter(sent_at=None, n_tries__lt=MOST_TRIES)
    n_tries = unsent.aggregate(n=Min("n_tries"))["n"]
    if n_tries is not None:
        queue.alerts_later(countdown_s=FIRST_AGAIN_S * 2 ** max(0, n_tries - 1))


def alert_send(*, alert: Alert) -> bool:
    """Send an alert unless another process is sending it.

    Returns True if it was sent. An error is stored, and sending is retried later.
    """
    claimed = alerts_waiting().filter(pk=alert.pk, n_tries=alert.n_tries)
    if not claimed.update(tried_at=database_now(), n_tries=F("n_tries") + 1, error=""):
        return False
    content = _content(alert) if alert.aside is None else _content_of_bot(alert, alert.aside)
    try:
        if alert.channel == Alert.Channel.WEBHOOK:
            _post(content)
        elif alert.aside is None:
            _mail_send(content["title"], [content["words"]], content["link"])
        else:
            _mail_of_bot(alert, alert.aside, content)
    except Exception as error:  # mail backends raise many exception types; each is stored, reported and retried
        reason = error_text(error) or type(error).__name__
        log.warning("%s could not be sent: %s", alert, reason)
        Alert.objects.filter(pk=alert.pk).update(error=sanitise(reason, 500))
        return False
    Alert.objects.filter(pk=alert.pk).update(sent_at=database_now(), error="")
    return True


def _content(alert: Alert) -> dict[str, Any]:
    """Return the content of an alert about the installation, as JSON values."""
    extra_fields = dict(alert.said)
    link = _link(extra_fields.pop("link", ""))
    alert_fields = {"id": str(alert.pk), "event": alert.event, "at": alert.created_at.isoformat()}
    return {**alert_fields, **extra_fields, "link": link}


def _link(path: str) -> str | None:
    return f"{settings.CONFAB_PUBLIC_URL}{path}" if settings.CONFAB_PUBLIC_URL else None


def _content_of_bot(alert: Alert, aside: BotAside) -> dict[str, Any]:
    """Return the content of an alert about a bot, as JSON values.

    It has no data of participants.
    """
    timestamp = aside.began_at if alert.event == Alert.Event.SET_ASIDE else aside.ended_at
    collecting = Study.objects.filter(state=Study.State.COLLECTING)
    studies = [study for study in collecting if aside.bot_id in study.bots]
    return {
        "id": str(alert.pk),
        "event": alert.event,
        "at": timestamp.isoformat() if timestamp else None,
        "bot": aside.bot_id,
        "reason": aside.reason,
        "n_failed": aside.n_failed,
        "of_latest": aside.of_n or None,
        "needs_person": aside.needs_person,
        "studies": [
            {"key": study.key, "name": study.name, "n_holding_a_place": _n_inside(study, aside)} for study in studies
        ],
        "link": _link(reverse("dashboard:bot", args=[aside.bot_id])),
    }


def _n_inside(study: Study, aside: BotAside) -> int:
    """Count the participants whose reserved task uses the bot."""
    since = database_now() - study.values.assignment.place_held_for
    tasks = Slot.objects.filter(
        bot_id=aside.bot_id,
        task__state=Task.State.OPEN,
        task__created_at__gte=since,
        task__participant__study=study,
        task__participant__is_synthetic=False,
    )
    return tasks.values("task").distinct().count()


def signature(body: bytes, sent_at: str, secret: str) -> str:
    """Return the value of the header `X-Confab-Signature`.

    The value is the hex HMAC-SHA256 of the time, a dot and the body.
    """
    signed = sent_at.encode() + b"." + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _post(content: dict[str, Any]) -> None:
    address = settings.CONFAB_ALERT_WEBHOOK
    if urlsplit(address).scheme not in ("http", "https"):
        raise AlertError(f"CONFAB_ALERT_WEBHOOK is {quote(address)}; it must begin with http:// or https://")
    body = json.dumps(content, ensure_ascii=False).encode()
    sent_at = str(int(database_now().timestamp()))
    headers = {"Content-Type": "application/json", "X-Confab-Timestamp": sent_at}
    if settings.CONFAB_ALERT_SECRET:
        headers["X-Confab-Signature"] = signature(body, sent_at, settings.CONFAB_ALERT_SECRET)
    try:
        answer = httpx.post(address, content=body, headers=headers, timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise AlertError(f"the webhook could not be reached: {reason}") from None
    if not answer.is_success:
        raise AlertError(f"the webhook responded with {answer.status_code}, not 2xx")


def _mail_of_bot(alert: Alert, aside: BotAside, content: dict[str, Any]) -> None:
    if alert.event == Alert.Event.SET_ASIDE:
        subject = _("Confab: {bot} is disabled").format(bot=aside.bot_id)
        lines = [
            _("{bot} failed on {n} of its last {of} replies, so new participants are no longer assigned to it.").format(
                bot=aside.bot_id, n=aside.n_failed, of=aside.of_n
            )
            if aside.of_n
            else _("{bot} failed {n} times in a row, so new participants are no longer assigned to it.").format(
                bot=aside.bot_id, n=aside.n_failed
            ),
            _("Latest error: {reason}").format(reason=aside.reason),
            _("The bot stays disabled until a user re-enables it.")
            if aside.needs_person
            else _("Confab keeps testing the bot and re-enables it once a reply works."),
        ]
    else:
        subject = _("Confab: {bot} is back").format(bot=aside.bot_id)
        lines = [_("New participants are assigned to {bot} again.").format(bot=aside.bot_id)]
    lines += [
        _("{study}: {n} participants have a place with this bot.").format(
            study=study["name"], n=study["n_holding_a_place"]
        )
        for study in content["studies"]
    ]
    _mail_send(subject, lines, content["link"])


def _mail_send(subject: str, lines: list[str], link: str | None) -> None:
    subject = " ".join(subject.split())
    text = "\n\n".join([*lines, *([link] if link else [])])
    try:
        send_mail(subject, text, None, settings.CONFAB_ALERT_EMAILS)
    except OSError as error:  # includes the exceptions of smtplib
        server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
        raise AlertError(f"the mail server {server} rejected the message: {error}") from None
