"""What a rating is about, and how far a task is by what has been rated in it."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.models import Item, Slot, Task
from webapp.studies.protocols.base import Progress

Pair = tuple[Slot, Slot]
Target = Conversation | Turn | Item | Pair


def target_fields(target: Target) -> dict[str, Any]:
    """Return the fields of a rating that say what it is about."""
    match target:
        case Conversation():
            return {"conversation": target}
        case Turn():
            return {"turn": target}
        case Item():
            return {"item": target}
        case (first, second):
            return {"first": first, "second": second}
    raise TypeError(f"{target!r} cannot be rated: a conversation, turn, item or two slots can")


def slots_rated(task: Task, target: Target) -> set[int]:
    """Return the ids of the task's slots that a rating of the target is about; empty: it is not of this task."""
    match target:
        case Conversation():
            where = _shows(target.pk)
        case Turn():
            where = _shows(target.conversation_id)
        case Item():
            where = Q(item=target)
        case _:
            pair = {slot.pk for slot in target if slot.task_id == task.pk}
            return pair if len(pair) == 2 else set()
    return set(task.slots.filter(where).values_list("pk", flat=True))


def task_progress(task: Task) -> Progress:
    """Return how many slots the task has, and how many of them have been rated."""
    rated: set[int] = set()
    given = Rating.objects.filter(task=task)
    for rating in given.select_related("conversation", "turn", "item", "first", "second"):
        rated |= slots_rated(task, _target_of(rating))
    return Progress(n_slots=task.slots.count(), n_rated=len(rated))


def _shows(conversation_id: Any) -> Q:
    """Return the condition that a slot holds the conversation, made in it or stored before."""
    return Q(chat=conversation_id) | Q(conversation=conversation_id)


def _target_of(rating: Rating) -> Target:
    if rating.first is not None and rating.second is not None:
        return rating.first, rating.second
    target = rating.conversation or rating.turn or rating.item
    assert target is not None, "the database keeps no rating without a target"
    return target
