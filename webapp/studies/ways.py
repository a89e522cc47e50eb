"""Writes of participants' progress through a study: opened links and reached steps."""

from __future__ import annotations

from django.db.models import Case, F, Value, When
from django.utils import timezone

from webapp.studies.models import LinkCount, Study, Task, Whereabouts
from webapp.studies.protocols.base import protocols


def link_opened(*, study: Study, is_synthetic: bool, refused: str = "") -> None:
    """Add one to the day's count of openings of the study's link.

    Args:
        refused: code of the reason why nobody can begin there; empty if a visitor can.
    """
    key = {
        "study": study,
        "day": timezone.localdate(),
        "is_synthetic": is_synthetic,
        "refused": refused,
    }
    counts = LinkCount.objects.filter(**key)
    if not counts.update(n=F("n") + 1):
        # The first of the day; a concurrent visit is not lost, since the row begins at 0.
        LinkCount.objects.bulk_create([LinkCount(**key)], ignore_conflicts=True)
        counts.update(n=F("n") + 1)


def step_reached(*, task: Task, step: str) -> None:
    """Store that the participant of an open task reached this step of the study's protocol."""
    if task.state != Task.State.OPEN:
        return
    study = task.participant.study
    names = [one.name for one in protocols.get(study.protocol).steps]
    if step not in names:
        return
    now = timezone.now()
    earlier = Case(
        When(furthest__in=names[: names.index(step)], then=Value(step)), default=F("furthest")
    )
    rows = Whereabouts.objects.filter(task=task)
    if not rows.update(step=step, furthest=earlier, seen_at=now):
        row = Whereabouts(
            task=task,
            study=study,
            is_synthetic=task.participant.is_synthetic,
            step=step,
            furthest=step,
            seen_at=now,
        )
        Whereabouts.objects.bulk_create([row], ignore_conflicts=True)
