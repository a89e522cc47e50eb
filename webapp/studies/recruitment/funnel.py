"""Funnel of participants: opened links, reached steps, and refused consent.

Of a refusal nothing is kept but the answer and the platform's ids of the visit.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone

from webapp.studies.models import LinkCount, Outcome, Participant, Study, StudyVersion, Task, Whereabouts
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import store_shown_completion


def link_opened(*, study: Study, is_synthetic: bool, refused: str = "") -> None:
    """Add one to the day's count of openings of the study's link.

    Args:
        refused: code of the reason why nobody can begin there; empty if a visitor can.
    """
    key = {"study": study, "day": timezone.localdate(), "is_synthetic": is_synthetic, "refused": refused}
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
    earlier = Case(When(furthest__in=names[: names.index(step)], then=Value(step)), default=F("furthest"))
    rows = Whereabouts.objects.filter(task=task)
    if not rows.update(step=step, furthest=earlier, seen_at=now):
        row = Whereabouts(
            task=task, study=study, is_synthetic=task.participant.is_synthetic, step=step, furthest=step, seen_at=now
        )
        Whereabouts.objects.bulk_create([row], ignore_conflicts=True)


DECLINE_KIND = "consent"
"""Of a task in which nothing but the question whether to take part was answered."""


def task_decline(*, participant: Participant, version: StudyVersion) -> Task:
    """Store that a visitor did not agree in this visit. Returns the task for this.

    If they agreed, or did not agree, in this visit before, their task is returned unchanged.

    Args:
        version: of the study, whose texts they read.
    """
    submission = participant.submission
    with transaction.atomic():
        # The same answer, sent twice at once, is one.
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
            ended_at=timezone.now(),
        )
        # The row's own time of making is a moment later than any that is read before.
        task.ended_at = task.created_at
        task.save(update_fields=["ended_at"])
        store_shown_completion(task=task)
        return task
