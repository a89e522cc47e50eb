"""Target of a rating, and the progress of a task by its ratings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import F, Q

from chatbots.storable import quote
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.models import Item, Slot, Task
from webapp.studies.pairs import slots_judged, slots_kept
from webapp.studies.protocols.base import Progress

Pair = tuple[Slot, Slot]
Target = Conversation | Turn | Item | Pair


def target_fields(target: Target) -> dict[str, Any]:
    """Return the fields of a rating that define its target."""
    match target:
        case Conversation():
            return {"conversation": target}
        case Turn():
            return {"turn": target}
        case Item():
            return {"item": target}
        case (first, second):
            return {"first": first, "second": second}
    raise TypeError(f"{quote(target)} cannot be rated: a conversation, turn, item or two slots can")


def slots_rated(task: Task, target: Target) -> set[int]:
    """Return the ids of the task's slots that a rating of the target is about; empty: it is not of this task."""
    match target:
        case Conversation():
            where = _shows(target.pk)
        case Turn():
            chosen = task.payload.get("turns")
            if chosen is not None and target.index not in chosen.get(
                str(target.conversation_id), ()
            ):
                return set()
            where = _shows(target.conversation_id)
        case Item():
            where = Q(item=target)
        case _:
            pair = {slot.pk for slot in target if slot.task_id == task.pk}
            return pair if len(pair) == 2 else set()
    return set(task.slots.filter(where).values_list("pk", flat=True))


def task_progress(task: Task) -> Progress:
    """Return the number of the task's slots, and the number of rated ones, in two queries.

    A chat whose bot failed, or its pair, is not to be rated: another stands in its place, or none. Where single turns
    are rated, these stand for slots.
    """
    if "turns" in task.payload:
        # Of those that are still there: the chat's participant may have withdrawn.
        of_task = Q(conversation__judged_in__task=task) | Q(conversation__slot__task=task)
        there = set(Turn.objects.filter(of_task).values_list("conversation", "index"))
        chosen = {(UUID(chat), n) for chat, turns in task.payload["turns"].items() for n in turns}
        return Progress(
            len(chosen & there), Rating.objects.filter(task=task, turn__isnull=False).count()
        )
    kept = slots_kept(task.slots.annotate(chat_pk=F("chat__pk")).order_by("order"))
    slots = [
        (slot.pk, slot.item_id, slot.conversation_id, slot.chat_pk)  # type: ignore[attr-defined]
        for group in slots_judged(kept)
        for slot in group
    ]
    given = Rating.objects.filter(task=task).values_list(
        "first_id", "second_id", "item_id", "conversation_id", "turn__conversation_id"
    )
    rated: set[tuple[str, Any]] = {("slot", one) for row in given for one in row[:2]}
    rated |= {("item", row[2]) for row in given}
    rated |= {("conversation", one) for row in given for one in row[3:]}
    shown: list[set[tuple[str, Any]]] = [
        {("slot", pk), ("item", item), ("conversation", stored), ("conversation", chat)}
        for pk, item, stored, chat in slots
    ]
    nothing = {("item", None), ("conversation", None)}
    return Progress(len(shown), sum(bool((one & rated) - nothing) for one in shown))


def _shows(conversation_id: Any) -> Q:
    """Return the condition that a slot holds the conversation, made in it or stored before."""
    return Q(chat=conversation_id) | Q(conversation=conversation_id)
