"""Everybody who began, visit by visit: how it ended, and what is decided about its pay.

All of a study's visits are read at once, in a few queries however many there are, since a page tells how many
are to be approved, looked at and paid beside the few that it lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, IntegerField, Max, Min, Q, Value, When
from django.utils import timezone

from webapp.pay.models import Decision, PlatformVisit
from webapp.studies.models import Breakage, Outcome, Participant, Study, Task
from webapp.studies.outcomes import ending_of, tasks_with_endings

LEFT, INSIDE = "left", "inside"
"""Outcomes of those who have none: they went away, or are at it now."""
APPROVED, REJECTED, AWAITING = "APPROVED", "REJECTED", "AWAITING REVIEW"
GONE = ("RETURNED", "TIMED-OUT")
SETTLED = (APPROVED, REJECTED, *GONE)
"""What a platform says of visits that it takes no verdict about any more."""
# Of several tasks of a visit, the one that earns most says how it ended.
_RANKS = (
    Outcome.RATED,
    Outcome.BOT_FAILED,
    Outcome.FAILED_CHECK,
    Outcome.SCREENED_OUT,
    Outcome.WITHDRAWN,
    Outcome.NO_CONSENT,
)
_NO_OUTCOME = len(_RANKS)


@dataclass(frozen=True, slots=True)
class VisitKey:
    """Which visit: whose, and the platform's id of it."""

    participant: UUID
    submission: str

    def __str__(self) -> str:
        return f"{self.participant.hex}~{self.submission}"

    @classmethod
    def read(cls, text: str) -> VisitKey | None:
        """Return the key that a form names; None for what is none."""
        person, mark, submission = text.partition("~")
        try:
            return cls(UUID(hex=person), submission) if mark else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, as lists need it."""

    pk: int
    action: str
    state: str
    amount: Any
    error: str

    @property
    def is_sent(self) -> bool:
        """Whether the person or the platform knows of it."""
        return self.state == Decision.State.SENT


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit.

    Attributes:
        outcome: a value of `Outcome`, or `left` or `inside`.
        fault: what broke through no fault of theirs: `bot`, `server` or nothing.
        reference: of the newest page that our server could not make for them; the log has it.
        began_at, ended_at: its first task's begin and its last one's end; the latter None while it goes on.
        status: what the platform says of it, in its words; empty where it was not asked.
        entered_code: the code that the person gave the platform.
        verdict: the standing approval or rejection.
        bonuses: the standing ones.
    """

    key: VisitKey
    platform: str
    external_id: str
    outcome: str
    fault: str
    began_at: datetime
    ended_at: datetime | None
    reference: str = ""
    status: str = ""
    entered_code: str = ""
    verdict: Decided | None = None
    bonuses: list[Decided] = field(default_factory=list)

    @property
    def is_ours(self) -> bool:
        """Whether it broke through no fault of theirs."""
        return bool(self.fault)

    @property
    def duration(self) -> timedelta | None:
        """How long it took; None where nothing ended."""
        return self.ended_at - self.began_at if self.ended_at is not None else None

    @property
    def earns(self) -> bool:
        """Whether its work is to be paid, as far as the outcome says."""
        return self.is_ours or self.outcome == Outcome.RATED

    @property
    def can_be_approved(self) -> bool:
        """Whether nothing is decided about it, here or there, and nobody is still at it."""
        return self.verdict is None and self.outcome != INSIDE and self.status not in SETTLED

    @property
    def decisions(self) -> list[Decided]:
        """All that is decided about it and stands."""
        return [*([self.verdict] if self.verdict else []), *self.bonuses]


@dataclass(frozen=True)
class Visits:
    """All visits of a study, the newest first."""

    study: Study
    all: list[Visit]

    @cached_property
    def by_key(self) -> dict[VisitKey, Visit]:
        """Return them by their keys."""
        return {visit.key: visit for visit in self.all}

    def of(self, participant: UUID) -> list[Visit]:
        """Return the visits of a person, the newest first."""
        return [visit for visit in self.all if visit.key.participant == participant]


def visits_of(study: Study) -> Visits:
    """Return everybody who began; scripted participants are paid by nobody and left out."""
    since = timezone.now() - study.values.assignment.place_held_for
    rank = Case(
        *(When(tasks__outcome=outcome, then=Value(n)) for n, outcome in enumerate(_RANKS)),
        default=Value(_NO_OUTCOME),
        output_field=IntegerField(),
    )
    rows = (
        Participant.objects.filter(study=study, is_synthetic=False)
        .order_by()
        .values("pk", "platform", "platform_ids__external_id", "created_at", "tasks__submission")
        .annotate(
            rank=Min(rank),
            began=Min("tasks__created_at"),
            ended=Max("tasks__ended_at"),
            n_tasks=Count("tasks"),
            n_open=Count("tasks", filter=Q(tasks__state=Task.State.OPEN)),
            n_held=Count(
                "tasks", filter=Q(tasks__state=Task.State.OPEN, tasks__created_at__gte=since)
            ),
            n_lost=Count("tasks", filter=Q(tasks__state=Task.State.FAILED)),
        )
    )
    decisions = _decisions(study)
    told = {
        submission: (status, code)
        for submission, status, code in PlatformVisit.objects.filter(study=study).values_list(
            "submission", "status", "entered_code"
        )
    }
    # Of those without a task: they agreed, or answered what is asked before, and that was all.
    idle = Participant.objects.filter(study=study, is_synthetic=False, tasks=None)
    submissions = {
        person.pk: person.submission for person in idle.select_related("platform_ids", "study")
    }
    broken = _broken(study)
    found = [
        _visit(row, submissions, since, decisions, told, broken)
        for row in rows.iterator(chunk_size=2000)
    ]
    found.sort(key=lambda visit: (visit.began_at, str(visit.key)), reverse=True)
    return Visits(study, found)


def _visit(
    row: Any,
    submissions: dict[UUID, str],
    since: datetime,
    decisions: dict[VisitKey, list[Decided]],
    told: dict[str, tuple[str, str]],
    broken: dict[VisitKey, str],
) -> Visit:
    key = VisitKey(row["pk"], row["tasks__submission"] or submissions.get(row["pk"], ""))
    began = row["began"] or row["created_at"]
    is_held = row["n_held"] or (not row["n_tasks"] and began >= since)
    if row["rank"] < _NO_OUTCOME:
        outcome: str = _RANKS[row["rank"]]
    else:
        outcome = INSIDE if is_held else LEFT
    standing = decisions.get(key, [])
    verdicts = [one for one in standing if one.action != Decision.Action.BONUS]
    status, entered_code = told.get(key.submission, ("", ""))
    fault, reference = "", broken.get(key, "")
    if outcome == Outcome.BOT_FAILED or (
        outcome == LEFT and row["n_lost"] > 0 and not row["n_open"]
    ):
        fault = "bot"
    elif outcome == LEFT and reference:
        # They went away after a page that our server did not make.
        fault = "server"
    return Visit(
        key=key,
        platform=row["platform"],
        external_id=row["platform_ids__external_id"] or "",
        outcome=outcome,
        fault=fault,
        reference=reference,
        began_at=began,
        ended_at=row["ended"] if outcome != INSIDE else None,
        status=status,
        entered_code=entered_code,
        verdict=verdicts[0] if verdicts else None,
        bonuses=[one for one in standing if one.action == Decision.Action.BONUS],
    )


def _broken(study: Study) -> dict[VisitKey, str]:
    """Return the newest reference of a server error in each visit that had any."""
    rows = Breakage.objects.filter(participant__study=study, task__isnull=False).order_by("pk")
    return {
        VisitKey(person, submission): reference
        for person, submission, reference in rows.values_list(
            "participant", "task__submission", "reference"
        )
    }


def _decisions(study: Study) -> dict[VisitKey, list[Decided]]:
    found: dict[VisitKey, list[Decided]] = {}
    rows = (
        Decision.objects.filter(participant__study=study)
        .exclude(state=Decision.State.UNDONE)
        .order_by("pk")
        .values_list("participant", "submission", "pk", "action", "state", "amount", "error")
    )
    for participant, submission, pk, action, state, amount, error in rows:
        decided = Decided(pk, action, state, amount, error)
        found.setdefault(VisitKey(participant, submission), []).append(decided)
    return found


def codes_shown(visits: Iterable[Visit]) -> dict[VisitKey, str]:
    """Return the code that each of these visits ended with, where one was shown."""
    wanted = {visit.key: visit for visit in visits}
    people = {key.participant for key in wanted}
    tasks = tasks_with_endings(Task.objects.filter(participant__in=people).order_by("pk"))
    found: dict[VisitKey, str] = {}
    for task in tasks:
        key = VisitKey(task.participant_id, task.submission)
        ending = ending_of(task)
        if ending is not None and key in wanted and ending.outcome == wanted[key].outcome:
            found[key] = ending.code
    return found


def codes_told(study: Study) -> dict[tuple[VisitKey, str], str]:
    """Return the codes that people were told, by their visit and its outcome, in one query."""
    rows = (
        Task.objects.filter(participant__study=study, participant__is_synthetic=False)
        .exclude(told={})
        .order_by("pk")
        .values_list("participant", "submission", "outcome", "told")
    )
    return {
        (VisitKey(person, submission), outcome): told["code"]
        for person, submission, outcome, told in rows.iterator(chunk_size=2000)
    }


def visits_searched(visits: Visits, words: str, *, by_id: bool = True) -> list[Visit]:
    """Return the visits whose ids or codes contain these words, upper and lower case alike.

    Args:
        by_id: whether the platform's ids are searched, too.
    """
    sought = words.strip().lower()
    if not sought:
        return visits.all
    recruitment = visits.study.values.recruitment
    outcomes = {one.value for one in Outcome if sought in recruitment.code(one).lower()}
    had = Q(completion_code__icontains=sought) | Q(told__code__icontains=sought)
    by_own_code = {
        VisitKey(participant, submission)
        for participant, submission in Task.objects.filter(
            had, participant__study=visits.study
        ).values_list("participant", "submission")
    }
    return [
        visit
        for visit in visits.all
        if (by_id and sought in f"{visit.external_id} {visit.key.submission}".lower())
        or visit.key.participant.hex.startswith(sought.replace("-", ""))
        or visit.outcome in outcomes
        or visit.key in by_own_code
    ]
