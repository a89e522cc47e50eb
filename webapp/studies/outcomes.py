"""Outcomes of tasks, and the code and link that participants were shown to be paid.

Pages and exports both read them here, so that they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from webapp.studies.completion import Completion, completion_now, link_filled
from webapp.studies.models import Outcome, Participant, Task


@dataclass(frozen=True, slots=True)
class Ending:
    """Outcome of one task, with its code and link.

    Attributes:
        outcome: a value of `Outcome`.
        code: the code that the participant is shown; empty if there is none.
        link: link back to the platform; empty if there is none. Workers of Mechanical Turk go back by a form
            instead.
    """

    task: Task
    outcome: str
    code: str
    link: str
    ended_at: datetime | None


ENDING_READS = ("participant__study__version", "participant__platform_ids", "version")
"""What `ending_of` reads besides the task."""


def tasks_with_endings(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Return the tasks with all that `ending_of` reads, in the same query."""
    return tasks.select_related(*ENDING_READS)


def ending_of(task: Task) -> Ending | None:
    """Return the task's outcome; None while it is open, or if it has none (swapped, left)."""
    if not task.outcome:
        return None
    told = told_of(task)
    link = link_filled(
        told, participant=task.participant, outcome=task.outcome, submission=task.submission
    )
    return Ending(task, task.outcome, told.code, link, task.ended_at)


def told_of(task: Task) -> Completion:
    """Return the code and link shown for an ended task; if none are stored yet, those of the study now."""
    if task.told:
        return Completion(task.told["code"], task.told["link"])
    return completion_now(
        study=task.participant.study,
        participant=task.participant,
        outcome=task.outcome,
        own_code=task.completion_code or "",
    )


def told_keep(*, task: Task) -> None:
    """Store the code and link shown for a task that has just ended; stored ones stay."""
    told = told_of(task)
    Task.objects.filter(pk=task.pk, told={}).update(told={"code": told.code, "link": told.link})


def has_earned(participant: Participant) -> bool:
    """Return True if the participant has done a paid task, even one in which a chatbot failed."""
    earned = (Outcome.RATED, Outcome.BOT_FAILED)
    return participant.tasks.filter(outcome__in=earned).exists()


def endings_of(participant: Participant) -> list[Ending]:
    """Return the participant's endings, oldest first."""
    tasks = tasks_with_endings(participant.tasks.order_by("created_at", "pk"))
    return [ending for ending in map(ending_of, tasks) if ending is not None]
