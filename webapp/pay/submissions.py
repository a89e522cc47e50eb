"""Submissions of a study, with outcome and decision about pay.

All of a study's submissions are loaded at once in a few queries, since a page counts those to approve, to check and to
pay next to the few that it lists. Details of these few, such as their times, are formatted on access.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, cast
from uuid import UUID

from django.core.cache import cache
from django.db.models import Case, CharField, IntegerField, Q, QuerySet, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce
from django.utils.crypto import salted_hmac

from webapp.core.clock import database_now
from webapp.pay.models import Decision, PlatformVisit
from webapp.studies.models import Breakage, Outcome, Participant, Study, Task
from webapp.studies.models.participants import IMPORT_PLATFORM
from webapp.studies.recruitment.owed import Pay, pay_for_endings
from webapp.studies.settings import StudyValues

LEFT, INSIDE = "left", "inside"
"""States of visits without an outcome: left, or still active."""
APPROVED, REJECTED, AWAITING, SCREENED_OUT = "APPROVED", "REJECTED", "AWAITING REVIEW", "SCREENED OUT"
GONE = ("RETURNED", "TIMED-OUT")
NO_CODES = ("", "NOCODE")
"""Prolific's notations for a missing code."""
SETTLED = (APPROVED, REJECTED, SCREENED_OUT, *GONE)
"""Platform statuses of visits that can no longer be approved or rejected."""
# The task that earns most defines the outcome of a visit.
_RANKS = (
    Outcome.RATED,
    Outcome.BOT_FAILED,
    Outcome.FAILED_CHECK,
    Outcome.SCREENED_OUT,
    Outcome.LATE,
    Outcome.WITHDRAWN,
)
_OUTCOMES = [outcome.value for outcome in _RANKS]
# Visits without an outcome come next: reserved, released, failed without a replacement bot, nothing. Declined consent
# comes last: the visitor may consent later, and then that task counts.
_HELD, _OPEN, _LOST, _NOTHING, _DECLINED = range(len(_RANKS), len(_RANKS) + 5)
_BOT_FAILED = _RANKS.index(Outcome.BOT_FAILED)
_EARNS = (_RANKS.index(Outcome.RATED), _BOT_FAILED)
_PAID = (*_EARNS, _RANKS.index(Outcome.SCREENED_OUT), _RANKS.index(Outcome.LATE))
_RATED, _NO_CONSENT = Outcome.RATED.value, Outcome.NO_CONSENT.value
_ENDS = {*_OUTCOMES, _NO_CONSENT}
_BONUS = Decision.Action.BONUS.value
_APPROVE = Decision.Action.APPROVE.value
_TOLD = Cast(KeyTextTransform("code", "tasks__told"), CharField())


class SubmissionKey(NamedTuple):
    """Key of a visit: the participant, and the platform's visit id."""

    participant: UUID
    submission: str

    @property
    def digest(self) -> str:
        """Keyed digest of the platform's visit id for pages.

        Some users who pay may not see ids.
        """
        if not self.submission:
            return ""
        return salted_hmac("visit", self.submission, algorithm="sha256").hexdigest()[:20]

    def __str__(self) -> str:
        return f"{self.participant.hex}~{self.digest}"


class Decided(NamedTuple):
    """Decision as shown in lists."""

    pk: int
    action: str
    state: str
    amount: Any
    error: str

    @property
    def is_sent(self) -> bool:
        """True if the participant or the platform knows of it."""
        return self.state == Decision.State.SENT


class ToPay(NamedTuple):
    """Amounts still to be paid, in the study's currency.

    Attributes:
        work: amount for the work; None if the study states no amount.
        bonuses: amount of bonuses.
    """

    work: Decimal | None
    bonuses: Decimal

    @property
    def with_bonuses(self) -> Decimal | None:
        """Sum of both; None if the study states no amount."""
        return self.work + self.bonuses if self.work is not None else None


@dataclass(slots=True, eq=False)  # not frozen: thousands are created at a time, and freezing triples the time
class Submission:
    """A visit with its outcome, pay and decisions.

    Attributes:
        outcome: a value of `Outcome`, or `left` or `inside`.
        fault: cause of a failure on our side: `bot`, `server` or empty.
        reference: error reference of the newest failed page, as in the log.
        began, ended: start of its first task and end of its last one, as the database writes a time; the latter is None
            while the visit continues.
        status: the platform's own status; empty if unknown.
        entered_code: code submitted to the platform.
        told: stored code shown at the end; None if none is stored.
        verdict: the valid approval or rejection.
        bonuses: valid bonuses.
        sittings: keys of the study's parts that earned pay in this visit; none without parts.
        pay: pay shown to the participant for this ending.
    """

    key: SubmissionKey
    platform: str
    external_id: str
    outcome: str
    fault: str
    began: str
    ended: str | None
    pay: Pay
    reference: str = ""
    status: str = ""
    entered_code: str = ""
    shown_code: str | None = None
    verdict: Decided | None = None
    bonuses: list[Decided] = field(default_factory=list)
    is_synthetic: bool = False
    sittings: Sequence[str] = ()

    @property
    def is_ours(self) -> bool:
        """True if it failed through our fault."""
        return bool(self.fault)

    @property
    def began_at(self) -> datetime:
        """When it began."""
        return _time(self.began)

    @property
    def ended_at(self) -> datetime | None:
        """End of its last task; None while it continues."""
        return _time(self.ended) if self.ended is not None else None

    @property
    def duration(self) -> timedelta | None:
        """Duration of the visit; None if nothing ended."""
        return self.ended_at - self.began_at if self.ended_at is not None else None

    @property
    def earns(self) -> bool:
        """True if its outcome earns pay."""
        return not self.is_synthetic and (bool(self.fault) or self.outcome == _RATED)

    @property
    def can_be_approved(self) -> bool:
        """True if it can be approved.

        It is undecided here and at the platform, and not announced as unpaid.
        """
        return self.can_be_rejected and self.pay.amount != 0

    @property
    def can_be_rejected(self) -> bool:
        """True if it can be rejected.

        It is undecided here and at the platform, and was finished by a real participant.
        """
        return not self.is_synthetic and self.verdict is None and self.outcome != INSIDE and self.status not in SETTLED

    @property
    def can_be_written_to(self) -> bool:
        """True if Prolific can send its participant a message."""
        return not self.is_synthetic and self.platform == "prolific"

    @property
    def owes(self) -> bool:
        """True if pay is or was owed: earned, for time, or approved."""
        if self.is_synthetic or self.status in (REJECTED, *GONE):
            return False
        if self.verdict is not None:
            return self.verdict.action == _APPROVE
        return self.earns or self.pay.is_for_time or self.status == APPROVED

    @property
    def owed(self) -> Decimal | None:
        """Amount owed, paid or not, without bonuses; None without a number."""
        return self.pay.amount if self.owes else Decimal()

    @property
    def is_to_be_paid(self) -> bool:
        """True if an amount is owed that was not paid yet."""
        return self.owes and self.status not in SETTLED and not (self.verdict is not None and self.verdict.is_sent)

    @property
    def is_paid_by_hand(self) -> bool:
        """True if its platform cannot pay this amount."""
        return self.pay.is_for_time and not (self.platform == "prolific" and self.pay.amount is not None)

    @property
    def bonuses_owed(self) -> Decimal:
        """Sum of its bonuses that are not known to be sent."""
        return sum((bonus.amount for bonus in self.bonuses if not bonus.is_sent), Decimal())

    @property
    def to_pay(self) -> ToPay:
        """Amounts still to be paid for the visit."""
        if self.pay.amount is None:
            return ToPay(None, self.bonuses_owed)
        return ToPay(self.pay.amount if self.is_to_be_paid else Decimal(), self.bonuses_owed)

    @property
    def decisions(self) -> list[Decided]:
        """All valid decisions about it."""
        return [*([self.verdict] if self.verdict else []), *self.bonuses]


@dataclass(frozen=True)
class Submissions:
    """Submissions of a study, newest first."""

    study: Study
    all: list[Submission]

    @cached_property
    def by_key(self) -> dict[SubmissionKey, Submission]:
        """Return the submissions by key."""
        return {visit.key: visit for visit in self.all}

    @cached_property
    def by_name(self) -> dict[str, Submission]:
        """Return the submissions by key in form notation."""
        return {str(visit.key): visit for visit in self.all}

    @cached_property
    def to_pay(self) -> ToPay:
        """Amounts still to be paid for all visits."""
        each = [visit.to_pay for visit in self.all]
        is_known = self.study.values.recruitment.pay_each is not None or any(amounts.work for amounts in each)
        work = sum((amounts.work or Decimal() for amounts in each), Decimal()) if is_known else None
        return ToPay(work, sum((amounts.bonuses for amounts in each), Decimal()))

    @property
    def n_unknown_amounts(self) -> int:
        """Number of visits whose pay is announced without an amount."""
        return sum(visit.is_to_be_paid and visit.pay.amount is None and bool(visit.pay.text) for visit in self.all)

    def get_visits(self, participant: UUID) -> list[Submission]:
        """Return the visits of a participant, newest first."""
        return [visit for visit in self.all if visit.key.participant == participant]


def submissions_of(study: Study, *, include_synthetic: bool = False, participant: UUID | None = None) -> Submissions:
    """Return the visits of all participants who began.

    Raters of imported data are left out, and scripted participants unless requested: neither is paid.

    Args:
        participant: return the visits of this participant only.
    """
    since = database_now() - study.values.assignment.place_held_for
    everybody = _participants(study, include_synthetic=include_synthetic)
    if participant is not None:
        everybody = everybody.filter(pk=participant)
    rows = _rows(everybody, since)
    decisions = _decisions(study)
    at_platform = {
        submission: (status, code)
        for submission, status, code in PlatformVisit.objects.filter(study=study).values_list(
            "submission", "status", "entered_code"
        )
    }
    # Visits without a task: the participant consented or answered the first questions, then left.
    idle = everybody.filter(tasks=None)
    submissions = {person.pk: person.submission for person in idle.select_related("platform_ids", "study")}
    broken = _broken(study)
    pay_of = _PayReader(study)
    visits, unclear = [], []
    for (person, submission), row in rows.items():
        platform, external_id, place, began, ended, shown_code, is_synthetic, _sitting, version, is_unclear, *parts = (
            row
        )
        key = SubmissionKey(person, submission or submissions.get(person, ""))
        status, entered_code = at_platform.get(key.submission, ("", ""))
        reference = broken.get(key, "") if broken else ""
        fault = ""
        if place < _HELD:
            outcome = _OUTCOMES[place]
            fault = "bot" if place == _BOT_FAILED else ""
        elif place == _HELD:
            outcome = INSIDE
        elif place == _DECLINED:
            outcome = _NO_CONSENT
        else:
            outcome = LEFT
            if place == _LOST:
                fault = "bot"
            elif reference:  # the participant left after a server error
                fault = "server"
        current_decisions = decisions.get(key, ())
        visit = Submission(
            key,
            platform,
            external_id or "",
            outcome,
            fault,
            began,
            None if outcome == INSIDE else ended,
            pay_of(version, outcome, parts),
            reference,
            status,
            entered_code,
            shown_code if outcome in _ENDS else None,
            next((decision for decision in current_decisions if decision.action != _BONUS), None),
            [decision for decision in current_decisions if decision.action == _BONUS],
            is_synthetic,
            [part for rank, part in parts if rank in _EARNS],
        )
        visits.append(visit)
        if is_unclear:
            unclear.append(visit)
    _choose_shown_codes(unclear)
    visits.sort(key=lambda visit: (visit.began, visit.key.participant.int), reverse=True)
    return Submissions(study, visits)


def _participants(study: Study, *, include_synthetic: bool) -> QuerySet[Participant]:
    """Return the participants who came by a link."""
    participants = Participant.objects.filter(study=study).exclude(platform=IMPORT_PLATFORM)
    return participants if include_synthetic else participants.filter(is_synthetic=False)


def _rows(everybody: QuerySet[Participant], since: datetime) -> dict[tuple[UUID, str | None], list[Any]]:
    """Return a row per visit, in the order unpacked by `submissions_of`.

    Tasks are grouped here: the database would sort them first and take twice as long.
    """
    began = Cast(Coalesce("tasks__created_at", "created_at"), CharField())
    rows = everybody.order_by().values_list(
        "pk",
        "tasks__submission",
        "platform",
        "platform_ids__external_id",
        _place(since),
        began,
        Cast("tasks__ended_at", CharField()),
        _TOLD,
        "is_synthetic",
        "tasks__sitting",
        "tasks__version",
    )
    rows_by_visit: dict[tuple[UUID, str | None], list[Any]] = {}
    for person, submission, *of_task in rows.iterator(chunk_size=2000):
        merged = rows_by_visit.setdefault((person, submission), of_task)
        _platform, _id, place, began_here, ended, shown_code, _is_synthetic, sitting, version = of_task[:9]
        if merged is of_task:
            merged.append(False)
        if sitting and place in _PAID:
            merged.append((place, sitting))
        if merged is of_task:
            continue
        if place < merged[2]:
            merged[8] = version
        merged[2], merged[3] = min(merged[2], place), min(merged[3], began_here)
        merged[4] = max(filter(None, (merged[4], ended)), default=None)
        merged[9] = merged[9] or (shown_code is not None and merged[5] is not None and shown_code != merged[5])
        merged[5] = shown_code if merged[5] is None else merged[5]
    return rows_by_visit


class _PayReader:
    """Reader of the announced pay, by the version consented to."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._known: dict[tuple[int | None, str, tuple[tuple[int, str], ...]], Pay] = {}

    @cached_property
    def _values(self) -> dict[int, StudyValues]:
        return {version.pk: version.values for version in self._study.versions.all()}

    def __call__(self, version: int | None, outcome: str, parts: Sequence[tuple[int, str]]) -> Pay:
        key = (version, outcome, tuple(parts))
        if key not in self._known:
            is_current = version in (None, self._study.version_id)
            values = self._study.values if is_current else self._values[cast(int, version)]
            endings = [(_OUTCOMES[rank], part) for rank, part in parts] or [(outcome, "")]
            self._known[key] = pay_for_endings(values, endings)
        return self._known[key]


def _time(text: str) -> datetime:
    """Parse a time as the database writes it.

    SQLite omits the zone, which is UTC.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _place(since: datetime) -> Case:
    """Return the rank of a task for its visit's outcome.

    The lowest counts.
    """
    is_open = Q(tasks__state=Task.State.OPEN)
    return Case(
        *(When(tasks__outcome=outcome, then=Value(n)) for n, outcome in enumerate(_OUTCOMES)),
        When(is_open & Q(tasks__created_at__gte=since), then=Value(_HELD)),
        When(tasks=None, created_at__gte=since, then=Value(_HELD)),
        When(is_open, then=Value(_OPEN)),
        When(tasks__state=Task.State.FAILED, then=Value(_LOST)),
        When(tasks__outcome=_NO_CONSENT, then=Value(_DECLINED)),
        default=Value(_NOTHING),
        output_field=IntegerField(),
    )


def _choose_shown_codes(visits: Sequence[Submission]) -> None:
    """Set the code of visits in which several were shown.

    It is the newest one for the visit's outcome.
    """
    if not visits:
        return
    people = {visit.key.participant for visit in visits}
    tasks = Task.objects.filter(participant__in=people).exclude(told={}).order_by("pk")
    codes = {
        (person, submission, outcome): ending["code"]
        for person, submission, outcome, ending in tasks.values_list("participant", "submission", "outcome", "told")
    }
    for visit in visits:
        visit.shown_code = codes.get((*visit.key, visit.outcome))


def _broken(study: Study) -> dict[SubmissionKey, str]:
    """Return the newest server error reference by visit."""
    rows = Breakage.objects.filter(participant__study=study, task__isnull=False).order_by("pk")
    return {
        SubmissionKey(person, submission): reference
        for person, submission, reference in rows.values_list("participant", "task__submission", "reference")
    }


def _decisions(study: Study) -> dict[SubmissionKey, list[Decided]]:
    decisions_by_visit: dict[SubmissionKey, list[Decided]] = {}
    rows = (
        Decision.objects.filter(participant__study=study)
        .exclude(state=Decision.State.UNDONE)
        .order_by("pk")
        .values_list("participant", "submission", "pk", "action", "state", "amount", "error")
    )
    for participant, submission, pk, action, state, amount, error in rows:
        decided = Decided(pk, action, state, amount, error)
        decisions_by_visit.setdefault(SubmissionKey(participant, submission), []).append(decided)
    return decisions_by_visit


LARGE = 2000
"""Minimum number of submissions from which a total is reused,"""
_REUSED_FOR = 20
"""for this many times its computing time,"""
_LONGEST_S = 60.0
"""but never longer than this."""


def pay_owed(study: Study) -> float:
    """Return the pay of all visits and their bonuses, paid or not; of a large study it may be some seconds old."""
    key = f"pay-owed/{study.pk}"
    known: float | None = cache.get(key)
    if known is not None:
        return known
    started = time.monotonic()
    visits = submissions_of(study).all
    bonuses = (bonus.amount for visit in visits for bonus in visit.bonuses)
    pay = float(sum((visit.owed or Decimal() for visit in visits), Decimal()) + sum(bonuses, Decimal()))
    if len(visits) >= LARGE:
        cache.set(key, pay, timeout=min(_REUSED_FOR * (time.monotonic() - started), _LONGEST_S))
    return pay
