"""Alerts for problems of the installation.

There is one alert when a problem begins, and one when it ends. Web processes and bot hosts look for problems after
some of their heartbeats: workers send alerts, and a worker that has died cannot report it. An incident is one row
from beginning to end; the process that writes it creates the alerts in the same transaction, so that any number of
processes may look. Without a live worker, the process that looks sends the alerts.
"""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from chatbots.text import error_text, sanitise
from webapp.bots.models import Alert
from webapp.core.models import Incident
from webapp.core.processes import WORKER, processes_living
from webapp.jobs.alerts import FIRST_AGAIN_S, alert_send, alerts_tell, alerts_waiting
from webapp.operating.incidents import OVER, Problem, find_problems

logger = logging.getLogger(__name__)

EVERY_S = 30.0
_looked_at: float | None = None


def look_if_due() -> None:
    """Look, unless this process did so just before."""
    global _looked_at
    now = time.monotonic()
    if _looked_at is None or now - _looked_at >= EVERY_S:
        _looked_at = now
        look()
        if not processes_living(WORKER):
            send_here()


def look() -> None:
    """Begin an incident for each new problem, and end those that are over; both send alerts."""
    going_on = {(one.kind, one.subject): one for one in Incident.objects.filter(ended_at=None)}
    found = {(one.kind, one.subject): one for one in find_problems(going_on.keys())}
    for key, trouble in found.items():
        if key not in going_on:
            try:
                _begin(trouble)
            except Exception as error:  # one incident must not end the watching of all others
                logger.error("the incident %s cannot be stored: %s", key, error_text(error, 200))
    for key, incident in going_on.items():
        if key not in found:
            try:
                _end(incident)
            except Exception as error:
                logger.error("the end of %s cannot be stored: %s", key, error_text(error, 200))


def send_here() -> None:
    """Send what waits from this process: no worker does. What failed waits its time, as it does with workers."""
    now = timezone.now()
    for alert in alerts_waiting().select_related("aside"):
        pause = timedelta(seconds=FIRST_AGAIN_S * 2 ** max(0, alert.n_tries - 1))
        if alert.tried_at is None or now - alert.tried_at >= pause:
            alert_send(alert=alert)


def alert_try() -> int:
    """Have an alert sent that says that it is a test. Returns in how many ways; 0: none is set up."""
    said = {
        "title": _("Confab: a test"),
        "words": _("A user pressed “Send a test alert”. Nothing is wrong."),
        "link": reverse("dashboard:system"),
    }
    return len(alerts_tell(event=Alert.Event.TEST, said=said))


def _begin(trouble: Problem) -> None:
    said = {
        "title": f"Confab: {trouble.title}",
        "words": trouble.words,
        "link": reverse("dashboard:system"),
        **trouble.details,
    }
    title = sanitise(trouble.title, Incident._meta.get_field("title").max_length)
    try:
        with transaction.atomic():
            incident = Incident.objects.create(kind=trouble.kind, subject=trouble.subject, title=title, details=said)
            alerts_tell(event=trouble.kind, said=said, incident=incident)
    except IntegrityError:  # another process was faster
        return
    logger.warning("%s", trouble.title)


def _end(incident: Incident) -> None:
    with transaction.atomic():
        mine = Incident.objects.filter(pk=incident.pk, ended_at=None)
        if not mine.update(ended_at=timezone.now()):
            return
        words = _("This is over: {title}.").format(title=incident.title)
        said = {**incident.details, "title": _("Confab, over: {title}").format(title=incident.title), "words": words}
        alerts_tell(event=OVER[incident.kind], said=said, incident=incident)
    logger.warning("over: %s", incident.title)
