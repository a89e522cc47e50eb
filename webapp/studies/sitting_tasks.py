"""Tasks of a study's parts: late ones, and returning participants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from webapp.core.clock import database_now
from webapp.studies.models import Outcome, Participant, Study, Task
from webapp.studies.selectors import sitting_next
from webapp.studies.services import task_end
from webapp.studies.sittings import Sitting
from webapp.studies.start_refusals import StartRefusal

LATE_KIND = "late"
"""Kind of a task in which nothing was done, because its part had closed."""


def sitting_miss(*, participant: Participant) -> Task:
    """Store that the participant missed their next part.

    Returns the task that stores this, with its code.

    Raises:
        Refused: `sitting_early` if they are not late.
    """
    with transaction.atomic():
        # A form submitted twice at once is stored once.
        Participant.objects.select_for_update(of=("self",), no_key=True).get(pk=participant.pk)
        late = participant.tasks.filter(outcome=Outcome.LATE).first()
        if late is not None:
            return late
        due = sitting_next(participant.study, participant)
        if due is None or not due.is_late(database_now()):
            raise StartRefusal.SITTING_EARLY.refused(due=due)
        task = Task.objects.create(
            participant=participant,
            version=participant.study.version,
            kind=LATE_KIND,
            sitting=due.sitting.key,
            submission=participant.submission,
        )
        return task_end(task=task, outcome=Outcome.LATE)


@dataclass(frozen=True, slots=True)
class SittingCount:
    """Participants of one part.

    Attributes:
        sitting: the part; number: its number, from 1.
        n_begun, done: numbers of participants who have started it, and who have completed it.
        early, due, late: of participants who completed the previous part and have not begun this one: the part opens
            later, is open, or has closed.
    """

    sitting: Sitting
    number: int
    n_begun: int
    done: int
    early: int = 0
    due: int = 0
    late: int = 0

    @property
    def share(self) -> float | None:
        """Share of participants who began the part, among those who could.

        Participants who missed it count as those who could. None without any.
        """
        could = self.n_begun + self.due + self.late
        return self.n_begun / could if could and self.number > 1 else None


def sitting_counts(study: Study, *, include_synthetic: bool, now: datetime) -> list[SittingCount]:
    """Return the number of participants of each part, in order.

    Empty for a study without parts.
    """
    tasks = Task.objects.filter(participant__study=study, participant__withdrawn_at=None)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    parts, counts = study.values.sittings.parts, []
    begun_count = Count("participant", distinct=True, filter=~Q(outcome=Outcome.LATE))
    done = Count("participant", distinct=True, filter=Q(state=Task.State.COMPLETED))
    rows = (
        tasks.exclude(sitting="").order_by().values("sitting").annotate(begun=begun_count, done=done) if parts else ()
    )
    by_key = {row["sitting"]: (row["begun"], row["done"]) for row in rows}
    for number, part in enumerate(parts, start=1):
        n_begun, n_done = by_key.get(part.key, (0, 0))
        waiting = _waiting(tasks, part, parts[number - 2].key, now) if number > 1 else {}
        counts.append(SittingCount(part, number, n_begun, n_done, **waiting))
    return counts


def _waiting(tasks: QuerySet[Task], part: Sitting, before: str, now: datetime) -> dict[str, int]:
    """Count the participants between two parts by the state of the next part."""
    began = tasks.filter(participant=OuterRef("participant"), sitting=part.key).exclude(outcome=Outcome.LATE)
    waiting = tasks.filter(~Exists(began), sitting=before, state=Task.State.COMPLETED)
    is_early = Q(ended_at__gt=now - timedelta(days=part.gap.least))
    is_late = Q(ended_at__lt=now - timedelta(days=part.gap.most)) if part.gap.most is not None else Q(pk=None)
    return waiting.aggregate(
        early=Count("pk", filter=is_early),
        due=Count("pk", filter=~is_early & ~is_late),
        late=Count("pk", filter=is_late),
    )
