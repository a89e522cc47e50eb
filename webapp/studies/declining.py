"""Not agreeing: an answer that is kept with the platform's ids of the visit, and nothing else."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from webapp.studies.models import Outcome, Participant, StudyVersion, Task
from webapp.studies.outcomes import told_keep

KIND = "consent"
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
            kind=KIND,
            state=Task.State.ENDED,
            outcome=Outcome.NO_CONSENT,
            submission=submission,
            ended_at=timezone.now(),
        )
        # The row's own time of making is a moment later than any that is read before.
        task.ended_at = task.created_at
        task.save(update_fields=["ended_at"])
        told_keep(task=task)
        return task
