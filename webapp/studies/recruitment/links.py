"""Signed links of participants, and the counts of the funnel.

The funnel counts opened links, reached steps and refused consent.

A researcher makes a list of one-time links. Each contains its number and a signature. The first visitor who starts or
declines is then identified by that number, in the table of platform ids.

A link to continue on another device expires, can be revoked, and moves its participant once. A session or token
identifies a participant and stores their number of moves. Using a link increments this number, which invalidates
sessions and tokens of earlier devices. The participant's row holds the newest link's nonce: a newer link, revocation or
use invalidates it.

Declining stores only the outcome and the platform's ids of the visit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.core import signing
from django.db import transaction
from django.db.models import Case, CharField, Count, F, Max, Min, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.translation import gettext as _

from evaluation.data.formats.tables import escape_cell
from webapp.core.audit_trail import LINKS_CREATE, record
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import LinkCount, OneTimeLink, Outcome, Participant, Study, StudyVersion, Task, Whereabouts
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import store_shown_completion
from webapp.studies.start_refusals import StartRefusal

LINK_PLATFORM = "links"
LINK_PARAMETER = "link"
MOST_LINKS_AT_ONCE = 10_000
MOST_LINK_DAYS = 3650


@dataclass(frozen=True, slots=True)
class LinkList:
    """List of links, with the number of used ones."""

    batch: int
    label: str
    made_at: datetime
    expires_at: datetime | None
    n: int
    n_used: int


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Link with its state, as it is given out."""

    number: int
    address: str
    label: str
    expires_at: datetime | None
    state: str


def links_make(*, study: Study, n: int, label: str = "", days: int | None = None) -> int:
    """Create a list of one-time links and return its number.

    Args:
        days: validity in days; unlimited if not given.

    Raises:
        Refused: `bad_number` for an invalid number of links or days.
    """
    if not 1 <= n <= MOST_LINKS_AT_ONCE:
        raise Refused("bad_number", f"{n} links cannot be created at once; choose 1 to {MOST_LINKS_AT_ONCE}")
    if days is not None and not 1 <= days <= MOST_LINK_DAYS:
        raise Refused("bad_number", f"links cannot be valid for {days} days; choose 1 to {MOST_LINK_DAYS}")
    until = database_now() + timedelta(days=days) if days is not None else None
    with transaction.atomic():
        Study.objects.select_for_update(of=("self",), no_key=True).get(pk=study.pk)
        last = study.one_time_links.aggregate(number=Max("number"), batch=Max("batch"))
        first, batch = (last["number"] or 0) + 1, (last["batch"] or 0) + 1
        OneTimeLink.objects.bulk_create(
            (OneTimeLink(study=study, number=first + i, batch=batch, label=label, expires_at=until) for i in range(n)),
            batch_size=1000,
        )
        record(LINKS_CREATE, study, links=n)
    return batch


def links_of(study: Study) -> list[LinkList]:
    """Return the study's lists, newest first."""
    grouped = study.one_time_links.values("batch", "label", "expires_at").annotate(
        made_at=Min("created_at"), n=Count("pk"), n_used=Count("pk", filter=Q(used_at__isnull=False))
    )
    return [LinkList(**row) for row in grouped.order_by("-batch")]


def link_rows(study: Study, participant_link: str, batch: int | None = None) -> Iterator[LinkRow]:
    """Yield the links of a list or of all lists.

    Args:
        participant_link: URL of the study's first page.
    """
    newest = Task.objects.filter(
        participant__platform_ids__study=OuterRef("study"),
        participant__platform_ids__platform=LINK_PLATFORM,
        participant__platform_ids__external_id=Cast(OuterRef("number"), CharField()),
    ).order_by("-created_at", "-pk")
    links = study.one_time_links.annotate(outcome=Subquery(newest.values("outcome")[:1]))
    if batch is not None:
        links = links.filter(batch=batch)
    now = database_now()
    for link in links.order_by("number").iterator(chunk_size=500):
        state = link.outcome or "begun" if link.used_at else "unused"
        if state == "unused" and link.expires_at and link.expires_at < now:
            state = "expired"
        query = urlencode({LINK_PARAMETER: link_token(study, link.number)})
        address = f"{participant_link}?{query}"
        yield LinkRow(link.number, address, link.label, link.expires_at, state)


def link_table(study: Study, participant_link: str, batch: int | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the links as rows of a CSV file, header first."""
    yield "number", "link", "label", "expires_at", "state"
    for row in link_rows(study, participant_link, batch):
        until = row.expires_at.isoformat() if row.expires_at else ""
        yield str(row.number), row.address, escape_cell(row.label), until, row.state


def link_token(study: Study, number: int) -> str:
    """Return the number with a signature valid only in this study."""
    return _signer(study).sign(str(number))


def link_read(study: Study, token: str) -> tuple[str, str]:
    """Return a visit's link number, and why it admits no new participant.

    Both may be empty.

    The reasons are `link_missing`, `link_unknown`, `link_expired`, and `link_used` if its participant was erased.
    """
    if not token:
        return "", StartRefusal.LINK_MISSING
    try:
        number = _signer(study).unsign(token)
    except signing.BadSignature:
        return "", StartRefusal.LINK_UNKNOWN
    link = study.one_time_links.filter(number=number).first()
    if link is None:
        return "", StartRefusal.LINK_UNKNOWN
    if link.expires_at is not None and link.expires_at < database_now():
        return number, StartRefusal.LINK_EXPIRED
    return number, StartRefusal.LINK_USED if link.used_at is not None else ""


def link_use(*, study: Study, number: str) -> None:
    """Mark the link as used."""
    study.one_time_links.filter(number=number, used_at=None).update(used_at=database_now())


def _signer(study: Study) -> signing.Signer:
    return signing.Signer(salt=f"confab.one-time-link.{study.pk}")


MOVE_LINK_LIFETIME = timedelta(hours=24)
_SALT = "confab.move"


@dataclass(frozen=True, slots=True)
class DeviceMove:
    """Content of a move link: participant, nonce, and number of moves.

    The number is that at the link's creation.
    """

    participant: UUID
    nonce: str
    n_moves: int


def move_link_make(*, participant: Participant) -> str:
    """Return a token that moves the participant, and invalidate the previous one."""
    nonce = secrets.token_urlsafe(8)
    Participant.objects.filter(pk=participant.pk).update(move_nonce=nonce)
    token = f"{participant.pk.hex}.{nonce}.{participant.n_moves}"
    return signing.TimestampSigner(salt=_SALT).sign(token)


def move_links_take_back(*, participant: Participant) -> None:
    """Revoke all move links of the participant."""
    Participant.objects.filter(pk=participant.pk).update(move_nonce="")


def move_read(token: str) -> tuple[Participant, DeviceMove]:
    """Return the participant that a link would move, and the link's content.

    Raises:
        Refused: `move_unknown` for an invalid link, `move_expired`, `move_used`, or `move_replaced` for one that
            was revoked or replaced by a newer one.
    """
    try:
        text = signing.TimestampSigner(salt=_SALT).unsign(token, max_age=MOVE_LINK_LIFETIME)
    except signing.SignatureExpired:
        raise Refused("move_expired", _("This link has expired.")) from None
    except signing.BadSignature:
        raise _unknown() from None
    person, nonce, n_moves = text.split(".")
    move = DeviceMove(UUID(hex=person), nonce, int(n_moves))
    people = Participant.objects.select_related("study__version__rubric", "platform_ids")
    participant = people.filter(pk=move.participant).first()
    if participant is None:  # erased
        raise _unknown()
    if participant.n_moves != move.n_moves:
        raise _used()
    if participant.move_nonce != move.nonce:
        raise Refused("move_replaced", _("This link was cancelled or replaced by a newer one."))
    return participant, move


def move_use(*, token: str) -> Participant:
    """Move the participant to the current device.

    Returns them with the new number of moves.

    If two devices use the link at the same time, only one is admitted.

    Raises:
        Refused: as in `move_read`.
    """
    participant, move = move_read(token)
    moved = Participant.objects.filter(pk=participant.pk, n_moves=move.n_moves, move_nonce=move.nonce).update(
        n_moves=F("n_moves") + 1, move_nonce=""
    )
    if not moved:
        raise _used()
    participant.n_moves += 1
    return participant


def moved_here(*, participant: Participant) -> Participant:
    """Store that the participant returned to an earlier device.

    They used their platform's link.
    """
    Participant.objects.filter(pk=participant.pk).update(n_moves=F("n_moves") + 1, move_nonce="")
    participant.refresh_from_db(fields=["n_moves", "move_nonce"])
    return participant


def _unknown() -> Refused:
    return Refused("move_unknown", _("This link is not valid."))


def _used() -> Refused:
    return Refused("move_used", _("This link has already been used."))


SCRIPTS_FAILED = SCRIPT_FAILED, SCRIPT_FAILED_IN_CHAT = "script_failed", "script_failed_chat"
"""Codes for pages whose scripts failed, before and after consent; counted in addition to openings."""


def link_opened(*, study: Study, is_synthetic: bool, refused: str = "") -> None:
    """Count an opening of the study's link on the current day.

    Args:
        refused: code of the reason why nobody can start, or of failed scripts; empty if a visitor can start.
    """
    key = {"study": study, "day": timezone.localdate(), "is_synthetic": is_synthetic, "refused": refused}
    counts = LinkCount.objects.filter(**key)
    if not counts.update(n=F("n") + 1):
        # First opening of the day; a concurrent one is not lost, because the row starts at 0.
        LinkCount.objects.bulk_create([LinkCount(**key)], ignore_conflicts=True)
        counts.update(n=F("n") + 1)


def translation_note(*, task: Task) -> None:
    """Store that a browser translated a page of the task."""
    Whereabouts.objects.filter(task=task).update(is_translated=True)


def step_reached(*, task: Task, step: str) -> None:
    """Store that the participant of an open task has reached this step."""
    if task.state != Task.State.OPEN:
        return
    study = task.participant.study
    names = [protocol_step.name for protocol_step in protocols.get(study.protocol).steps]
    if step not in names:
        return
    now = database_now()
    earlier = Case(When(furthest__in=names[: names.index(step)], then=Value(step)), default=F("furthest"))
    rows = Whereabouts.objects.filter(task=task)
    if not rows.update(step=step, furthest=earlier, seen_at=now):
        row = Whereabouts(
            task=task, study=study, is_synthetic=task.participant.is_synthetic, step=step, furthest=step, seen_at=now
        )
        Whereabouts.objects.bulk_create([row], ignore_conflicts=True)


DECLINE_KIND = "consent"
"""Kind of a task that only recorded whether the visitor takes part."""


def task_decline(*, participant: Participant, version: StudyVersion) -> Task:
    """Store that a visitor declined in this visit.

    Returns the task that stores this.

    If they have already consented or declined in this visit, their task is returned unchanged.

    Args:
        version: version of the study whose texts they read.
    """
    submission = participant.submission
    with transaction.atomic():
        # The same answer submitted twice at once counts once.
        Participant.objects.select_for_update(of=("self",), no_key=True).get(pk=participant.pk)
        of_visit = participant.tasks.filter(submission=submission).order_by("-created_at", "-pk")
        newest = of_visit.first()
        if newest is not None and (newest.outcome or newest.state == Task.State.OPEN):
            return newest
        task = Task.objects.create(
            participant=participant,
            version=version,
            kind=DECLINE_KIND,
            state=Task.State.ENDED,
            outcome=Outcome.NO_CONSENT,
            submission=submission,
            ended_at=database_now(),
        )
        # The row's creation time is slightly later than any time read before.
        task.ended_at = task.created_at
        task.save(update_fields=["ended_at"])
        store_shown_completion(task=task)
        return task
