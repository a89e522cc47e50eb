"""Webhook of Prolific: accepted if signed and fresh, handled once, and for nothing but a status.

See docs.prolific.com/api-reference/webhooks: the signature is the base64 of an HMAC-SHA256 of time and body; an event
may be sent several times, under the same id, and out of order.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.core.errors import Refused
from webapp.pay.comparing import known_submissions
from webapp.pay.models import HookEvent, PlatformVisit
from webapp.studies.models import Participant, Study, Task

FRESH_FOR = timedelta(minutes=5)
_MOST_BYTES = 64 * 1024
_RANKS = {
    "RESERVED": 0,
    "ACTIVE": 1,
    "AWAITING REVIEW": 2,
    "TIMED-OUT": 2,
    "RETURNED": 2,
    "SCREENED OUT": 2,
    "APPROVED": 3,
    "PARTIALLY APPROVED": 3,
    "REJECTED": 3,
}
"""Statuses of submissions; one that comes late never leads back to a lower one."""


@dataclass(frozen=True, slots=True)
class Told:
    """A request as it came: its body and what its headers say."""

    body: bytes
    signature: str
    timestamp: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Event:
    """A request that Prolific has signed; `status` is empty where it is about something else than a submission."""

    id: str
    signature: str
    sent_at: datetime
    submission: str
    status: str


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    """Return Prolific's signature of a request."""
    digest = hmac.new(secret.encode(), timestamp.encode() + body, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def event_read(told: Told, *, secret: str) -> Event:
    """Return the event of a request, if it can be believed.

    Raises:
        Refused: `no_secret`, `bad_signature`, `stale`, or `bad_body` for what is signed and makes no sense.
    """
    if not secret:
        raise Refused("no_secret", _("CONFAB_PROLIFIC_HOOK_SECRET is not set."))
    if len(told.body) > _MOST_BYTES:
        raise Refused("bad_signature", _("It is too large for what Prolific tells."))
    right = signature_of(secret, told.timestamp, told.body)
    if not hmac.compare_digest(right.encode(), told.signature.encode()):
        raise Refused("bad_signature", _("The signature is missing or wrong."))
    sent_at = _time(told.timestamp)
    if sent_at is None or abs(timezone.now() - sent_at) > FRESH_FOR:
        raise Refused(
            "stale", _("Its time, “{time}”, is not now.").format(time=told.timestamp[:40])
        )
    try:
        found = json.loads(told.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused("bad_body", _("The body is no JSON object."))
    status, submission = str(found.get("status", "")), str(found.get("resource_id", ""))
    status = status.replace("_", " ").upper()
    is_of_submission = found.get("event_type") == "submission.status.change"
    is_understood = is_of_submission and status in _RANKS and 0 < len(submission) <= 200
    return Event(
        # Without an id, the same request is the same event.
        id=told.event_id[:100] or right,
        signature=right,
        sent_at=sent_at,
        submission=submission if is_understood else "",
        status=status if is_understood else "",
    )


def event_take(*, study_key: str, event: Event) -> str:
    """Keep an event of a visit that was made here, and how the visit stands since.

    Returns:
        `taken`; `known` for one that was told before; `ignored` for what is about no visit of the study.

    Raises:
        Refused: `not_found` for no such study, `replay` for a request sent again as another event.
    """
    study = Study.objects.filter(key=study_key).first()
    if study is None:
        raise Refused("not_found", _("There is no such study."))
    if not event.status or not known_submissions(study, [event.submission]):
        return "ignored"
    try:
        with transaction.atomic():
            HookEvent.objects.create(
                study=study,
                event_id=event.id,
                signature=event.signature,
                submission=event.submission,
                status=event.status,
                sent_at=event.sent_at,
            )
            _visit_told(study, event)
    except IntegrityError:
        if HookEvent.objects.filter(study=study, event_id=event.id).exists():
            return "known"
        raise Refused("replay", _("This request was sent before, as another event.")) from None
    return "taken"


def _visit_told(study: Study, event: Event) -> None:
    visit, made = PlatformVisit.objects.select_for_update(of=("self",)).get_or_create(
        study=study,
        submission=event.submission,
        defaults={"status": event.status, "told_at": event.sent_at},
    )
    rank = _RANKS[event.status]
    rank_before = _RANKS.get(visit.status, 0)
    is_newer = rank > rank_before or (rank == rank_before and event.sent_at >= visit.told_at)
    if not made and is_newer:
        visit.status, visit.told_at = event.status, event.sent_at
        visit.save(update_fields=["status", "told_at", "updated_at"])


def _time(text: str) -> datetime | None:
    """Return a UNIX time, in seconds or milliseconds; None for what is none."""
    try:
        seconds = float(text)
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def hook_events_of(people: QuerySet[Participant]) -> QuerySet[HookEvent]:
    """Return the webhook events about these participants' visits."""
    tasks = Task.objects.filter(participant__in=people).exclude(submission="")
    return HookEvent.objects.filter(
        study__in=people.values("study"), submission__in=tasks.values("submission")
    )
