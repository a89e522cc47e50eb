"""Writes of the counts of completed work, which draws and quotas read and not all tasks.

A task that ended early because a bot failed is paid, so it counts as a task of the study; its conversation was not
rated, so it does not count for the bot.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q

from webapp.studies.models import Outcome, Slot, Task, TaskCount
from webapp.studies.sequences import sequence_counted, sequences_count_anew

_ALL = ("", None, None)
"""Stands for no bot, conversation or item: the tasks themselves."""
_COUNTED = Q(chat__state="completed") | Q(task__outcome=Outcome.RATED, chat=None)
"""What is counted of a completed task: chats that were rated, and in a task that was rated what was judged there."""


def task_counted(*, task: Task) -> None:
    """Count a task that has just been completed, and what is in its slots; in the same transaction."""
    person = task.participant
    own = {"study_id": person.study_id, "is_synthetic": person.is_synthetic}
    slots = list(
        Slot.objects.filter(_COUNTED, task=task).values_list("bot_id", "conversation_id", "item_id")
    )
    rows = [TaskCount(**own, **_target(*target)) for target in dict.fromkeys([_ALL, *slots])]
    TaskCount.objects.bulk_create(rows, ignore_conflicts=True)  # those that there are not yet
    counts = TaskCount.objects.filter(**own)
    # The task itself first: other transactions that count in the study wait there, so there is no deadlock.
    counts.filter(bot_id="", conversation=None, item=None).update(n_completed=F("n_completed") + 1)
    bots, chats, items = ({slot[i] for slot in slots if slot[i]} for i in range(3))
    held = Q(bot_id__in=bots) | Q(conversation__in=chats) | Q(item__in=items)
    counts.filter(held).update(n_completed=F("n_completed") + 1)
    sequence_counted(task=task)


def study_count_anew(*, study_id: int) -> None:
    """Count all completed tasks of a study again, after some of them are gone."""
    with transaction.atomic():
        TaskCount.objects.filter(study=study_id).delete()
        sequences_count_anew(study_id=study_id)
        done = Task.objects.filter(
            participant__study=study_id, state=Task.State.COMPLETED
        ).order_by()
        slots = Slot.objects.filter(_COUNTED, task__in=done).order_by()
        tasks = done.values_list("participant__is_synthetic").annotate(n=Count("pk"))
        held = slots.values_list(
            "task__participant__is_synthetic", "bot_id", "conversation_id", "item_id"
        ).annotate(n=Count("task", distinct=True))
        found = [(is_synthetic, _ALL, n) for is_synthetic, n in tasks]
        found += [(is_synthetic, (bot, chat, item), n) for is_synthetic, bot, chat, item, n in held]
        TaskCount.objects.bulk_create(
            [
                TaskCount(
                    study_id=study_id, is_synthetic=is_synthetic, n_completed=n, **_target(*target)
                )
                for is_synthetic, target, n in found
            ],
            batch_size=1000,
        )


def _target(bot_id: str, conversation_id: Any, item_id: int | None) -> dict[str, Any]:
    return {"bot_id": bot_id, "conversation_id": conversation_id, "item_id": item_id}
