"""Status of submissions and messages at Prolific.

It comes from comparison and from its webhook.

A webhook request is accepted if it is signed and fresh, and handled once. See docs.prolific.com/api-reference/webhooks:
the signature is the base64 of an HMAC-SHA256 of time and body; an event may be sent several times, under the same id,
and out of order. Platform ids are kept longer if pay was decided late.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils.translation import gettext as _

from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.jobs.models import Job, State
from webapp.pay.models import Decision, HookEvent, PlatformVisit
from webapp.studies.models import Participant, Study, Task
from webapp.studies.models.participants import PlatformIds
from webapp.studies.privacy.retention import ids_eraser, ids_holder

if TYPE_CHECKING:
    from webapp.pay.prolific import ProlificSubmission  # imports httpx

_AT_ONCE = 500


def prolific_studies(study: Study) -> list[str]:
    """Return the Prolific study ids of this study's participants."""
    rows = PlatformIds.objects.filter(study=study, platform="prolific", participant__is_synthetic=False)
    study_ids = rows.order_by().values_list("parameters__STUDY_ID", flat=True).distinct()
    return sorted(name for name in study_ids if name)


def known_submissions(study: Study, names: Sequence[str]) -> set[str]:
    """Return the ids of the visits that arrived here."""
    tasks = Task.objects.filter(participant__study=study, submission__in=names)
    submission_ids = set(tasks.values_list("submission", flat=True))
    idle = _with_session(PlatformIds.objects.filter(study=study, participant__tasks=None))
    return submission_ids | set(idle.filter(session__in=names).values_list("session", flat=True))


def platform_visits_store(
    *, study: Study, submissions: Iterable[ProlificSubmission], reported_at: datetime | None = None
) -> tuple[int, int]:
    """Store the platform's status of these visits.

    Returns:
        The numbers of visits that arrived here, and of those that never did (reserved there but not started); the
            latter are not stored.
    """
    reported_at = reported_at or database_now()
    n_here = n_never = 0
    batch: list[ProlificSubmission] = []

    def store() -> None:
        nonlocal n_here, n_never
        known = known_submissions(study, [submission.id for submission in batch])
        n_here += len(known)
        n_never += len(batch) - len(known)
        PlatformVisit.objects.bulk_create(
            [
                PlatformVisit(
                    study=study,
                    submission=submission.id,
                    status=submission.status[:30],
                    entered_code=submission.entered_code[:100],
                    told_at=reported_at,
                )
                for submission in batch
                if submission.id in known
            ],
            update_conflicts=True,
            unique_fields=["study", "submission"],
            update_fields=["status", "entered_code", "told_at", "updated_at"],
        )
        batch.clear()

    for submission in submissions:
        if submission.id and len(submission.id) <= 200:
            batch.append(submission)
        if len(batch) >= _AT_ONCE:
            store()
    if batch:
        store()
    return n_here, n_never


def platform_visits_of(people: QuerySet[Participant]) -> QuerySet[PlatformVisit]:
    """Return the platform's records of these participants' visits."""
    tasks = Task.objects.filter(participant__in=people).values("submission")
    ids = _with_session(PlatformIds.objects.filter(participant__in=people))
    visits = PlatformVisit.objects.filter(study__in=people.values("study"))
    return visits.filter(Q(submission__in=tasks) | Q(submission__in=ids.values("session")))


def _with_session(ids: QuerySet[PlatformIds]) -> Any:
    """Add the newest visit's id as text, which both databases can compare."""
    return ids.annotate(session=Cast(KT("parameters__SESSION_ID"), TextField()))


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
"""Order of submission statuses; a late one never leads back to a lower one."""


@dataclass(frozen=True, slots=True)
class WebhookOutcome:
    """Webhook request: its body and headers."""

    body: bytes
    signature: str
    timestamp: str
    event_id: str


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """Authentic Prolific request; `status` is empty if not about a submission."""

    id: str
    signature: str
    sent_at: datetime
    submission: str
    status: str


def signature_of(secret: str, timestamp: str, body: bytes) -> str:
    """Return Prolific's signature of a request."""
    digest = hmac.new(secret.encode(), timestamp.encode() + body, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def event_read(webhook: WebhookOutcome, *, secret: str) -> WebhookEvent:
    """Return the event of an authentic request.

    Raises:
        Refused: `no_secret`, `bad_signature`, `stale`, or `bad_body` for a signed but invalid body.
    """
    if not secret:
        raise Refused("no_secret", _("CONFAB_PROLIFIC_HOOK_SECRET is not set."))
    if len(webhook.body) > _MOST_BYTES:
        raise Refused("bad_signature", _("The request is too large to be from Prolific."))
    right = signature_of(secret, webhook.timestamp, webhook.body)
    if not hmac.compare_digest(right.encode(), webhook.signature.encode()):
        raise Refused("bad_signature", _("The signature is missing or wrong."))
    sent_at = _time(webhook.timestamp)
    if sent_at is None or abs(database_now() - sent_at) > FRESH_FOR:
        raise Refused(
            "stale", _("The request's time, “{time}”, is too far from now.").format(time=webhook.timestamp[:40])
        )
    try:
        fields = json.loads(webhook.body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise Refused("bad_body", _("The body is not a JSON object."))
    status, submission = str(fields.get("status", "")), str(fields.get("resource_id", ""))
    status = status.replace("_", " ").upper()
    is_of_submission = fields.get("event_type") == "submission.status.change"
    is_understood = is_of_submission and status in _RANKS and 0 < len(submission) <= 200
    return WebhookEvent(
        # Without an id, identical requests count as one event.
        id=webhook.event_id[:100] or right,
        signature=right,
        sent_at=sent_at,
        submission=submission if is_understood else "",
        status=status if is_understood else "",
    )


def event_take(*, study_key: str, event: WebhookEvent) -> str:
    """Store a webhook event and the visit's new status.

    Returns:
        `taken`; `known` for a repeated event; `ignored` if it concerns no visit of the study.

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
            _update_visit(study, event)
    except IntegrityError:
        if HookEvent.objects.filter(study=study, event_id=event.id).exists():
            return "known"
        raise Refused("replay", _("This request was already sent as another event.")) from None
    return "taken"


def _update_visit(study: Study, event: WebhookEvent) -> None:
    visit, is_new = PlatformVisit.objects.select_for_update(of=("self",)).get_or_create(
        study=study, submission=event.submission, defaults={"status": event.status, "told_at": event.sent_at}
    )
    rank = _RANKS[event.status]
    rank_before = _RANKS.get(visit.status, 0)
    is_newer = rank > rank_before or (rank == rank_before and event.sent_at >= visit.told_at)
    if not is_new and is_newer:
        visit.status, visit.told_at = event.status, event.sent_at
        visit.save(update_fields=["status", "told_at", "updated_at"])


def _time(text: str) -> datetime | None:
    """Parse a UNIX time in seconds or milliseconds; None if invalid."""
    try:
        seconds = float(text)
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def hook_events_of(people: QuerySet[Participant]) -> QuerySet[HookEvent]:
    """Return the webhook events about these participants' visits."""
    tasks = Task.objects.filter(participant__in=people).exclude(submission="")
    return HookEvent.objects.filter(study__in=people.values("study"), submission__in=tasks.values("submission"))


def platform_job(study: Study) -> Job | None:
    """Return the study's running Prolific job, or the newest if it failed."""
    newest = Job.objects.filter(kind__in=("pay_send", "pay_compare"), study=study).first()
    is_fine = newest is None or newest.state in (State.DONE, State.CANCELLED)
    return None if is_fine else newest


def hook_newest(study: Study) -> HookEvent | None:
    """Return the newest event of the platform's webhook."""
    return HookEvent.objects.filter(study=study).order_by("-pk").first()


def comparison_newest(study: Study) -> Job | None:
    """Return the newest comparison with the platform."""
    return Job.objects.filter(kind="pay_compare", study=study, state=State.DONE).first()


def decided_since(study: Study, since: datetime) -> QuerySet[Any]:
    """Return decisions about pay made, sent or revoked after this time."""
    return Decision.objects.filter(participant__study=study, updated_at__gt=since)


def pay_ids_erase(people: QuerySet[Participant], stand_ins: dict[tuple[UUID, str], str]) -> dict[str, int]:
    """Erase the platform's records of these participants' visits.

    Placeholders replace the ids of visits in decisions.
    """
    visits, events = platform_visits_of(people), hook_events_of(people)
    removed = {"platform_visits": visits.count(), "hook_events": events.count()}
    visits.delete()
    events.delete()
    decisions = Decision.objects.filter(participant__in=people).exclude(submission="")
    for person, submission in decisions.order_by("pk").values_list("participant", "submission"):
        # A visit without a task can have decisions, too.
        stand_in = stand_ins.setdefault((person, submission), f"erased-{len(stand_ins) + 1}")
        Decision.objects.filter(participant=person, submission=submission).update(submission=stand_in, platform_ref="")
    return removed


def connect_erasure() -> None:
    """Register this app with the retention job."""
    ids_eraser(pay_ids_erase)
    ids_holder(decided_since)


@dataclass(frozen=True, slots=True)
class MessageRecipient:
    """Recipient of a message.

    Attributes:
        name: the platform's id, or ours for users who may not see it.
        pk: None once the participant was erased.
        error: why sending failed or is uncertain; empty if sent.
    """

    name: str
    pk: UUID | None
    error: str


def message_recipients(job: Job, *, with_ids: bool) -> list[MessageRecipient]:
    """Return a message job's recipients with their results."""
    assert job.study is not None
    assert job.result is not None
    errors_by_id = {UUID(outcome["participant"]): outcome["error"] for outcome in job.result["people"]}
    participants = {
        participant.pk: participant
        for participant in job.study.participants.filter(pk__in=errors_by_id).select_related("platform_ids")
    }
    names = {
        pk: participant.external_id for pk, participant in participants.items() if with_ids and participant.external_id
    }
    return [
        MessageRecipient(names.get(pk, pk.hex), pk if pk in participants else None, error)
        for pk, error in errors_by_id.items()
    ]
