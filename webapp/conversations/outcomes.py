"""How chats ended for the people in them, and what they were shown to be paid.

One answer for the pages and for exports: outcome, code and link of a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from webapp.conversations.models import Conversation
from webapp.studies.completion import Outcome, completion_shown
from webapp.studies.models import Participant, Task


@dataclass(frozen=True, slots=True)
class Ending:
    """How one task ended.

    Attributes:
        outcome: a value of `Outcome`.
        code: the code the participant is shown; empty where there is none.
        link: where they are sent back to; empty where there is none. Mechanical Turk's people go back by
            a form instead.
        ended_at: None only where the chat itself is gone.
    """

    task: Task
    outcome: str
    code: str
    link: str
    ended_at: datetime | None


def tasks_with_endings(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """The tasks with all that `ending_of` reads, in the same query."""
    return tasks.select_related("participant__study", "conversation")


def ending_of(task: Task) -> Ending | None:
    """How the task ended; None while it is open, and where it ended in nothing (swapped, left)."""
    conversation: Conversation | None = getattr(task, "conversation", None)
    # Who lost their place to another visit may still withdraw the chat.
    withdrawn = conversation is not None and conversation.state == Conversation.State.WITHDRAWN
    if withdrawn or task.state == Task.State.WITHDRAWN:
        outcome = Outcome.WITHDRAWN
    elif task.state != Task.State.COMPLETED:
        return None
    elif conversation is not None and conversation.state == Conversation.State.FAILED:
        outcome = Outcome.BOT_FAILED
    else:
        outcome = Outcome.RATED
    participant = task.participant
    shown = completion_shown(
        study=participant.study,
        platform=participant.platform,
        outcome=outcome,
        own_code=task.completion_code or "",
    )
    ended_at = conversation.ended_at if conversation else task.completed_at
    return Ending(task, outcome, shown.code, shown.link, ended_at)


def endings_of(participant: Participant) -> list[Ending]:
    """The participant's endings, oldest first."""
    tasks = tasks_with_endings(participant.tasks.order_by("created_at", "pk"))
    return [ending for ending in map(ending_of, tasks) if ending is not None]
