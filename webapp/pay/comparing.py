"""Prolific's status of known visits, compared with Confab's, the newest kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils import timezone

from webapp.pay.models import PlatformVisit
from webapp.studies.models import Participant, Study, Task
from webapp.studies.recruitment_models import PlatformIds

if TYPE_CHECKING:
    from webapp.pay.prolific import Submission  # which brings in httpx

_AT_ONCE = 500


def prolific_studies(study: Study) -> list[str]:
    """Return the ids that Prolific gave to the studies whose participants came here."""
    rows = PlatformIds.objects.filter(
        study=study, platform="prolific", participant__is_synthetic=False
    )
    found = rows.order_by().values_list("parameters__STUDY_ID", flat=True).distinct()
    return sorted(name for name in found if name)


def known_submissions(study: Study, names: Sequence[str]) -> set[str]:
    """Return the ids of those visits that were made here."""
    tasks = Task.objects.filter(participant__study=study, submission__in=names)
    found = set(tasks.values_list("submission", flat=True))
    idle = _with_session(PlatformIds.objects.filter(study=study, participant__tasks=None))
    return found | set(idle.filter(session__in=names).values_list("session", flat=True))


def platform_visits_store(
    *, study: Study, told: Iterable[Submission], at: datetime | None = None
) -> tuple[int, int]:
    """Keep how these visits stand at the platform.

    Returns:
        How many of them were made here, and how many never were: people who took a place there and did not
        come. Of those nothing is kept.
    """
    at = at or timezone.now()
    n_here = n_never = 0
    batch: list[Submission] = []

    def store() -> None:
        nonlocal n_here, n_never
        known = known_submissions(study, [one.id for one in batch])
        n_here += len(known)
        n_never += len(batch) - len(known)
        PlatformVisit.objects.bulk_create(
            [
                PlatformVisit(
                    study=study,
                    submission=one.id,
                    status=one.status[:30],
                    entered_code=one.entered_code[:100],
                    told_at=at,
                )
                for one in batch
                if one.id in known
            ],
            update_conflicts=True,
            unique_fields=["study", "submission"],
            update_fields=["status", "entered_code", "told_at", "updated_at"],
        )
        batch.clear()

    for one in told:
        if one.id and len(one.id) <= 200:
            batch.append(one)
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
    """Add the newest visit as text, which both databases compare with text."""
    return ids.annotate(session=Cast(KT("parameters__SESSION_ID"), TextField()))
