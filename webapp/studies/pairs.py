"""Pairs of slots: two things shown side by side and compared with each other."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from webapp.studies.models import Participant, Slot


def slots_grouped(slots: Iterable[Slot]) -> list[tuple[Slot, ...]]:
    """Return the slots in their order: two in a row with sides in order as a pair, any other one alone.

    A half whose other half was deleted stays alone: its neighbour is of another pair.
    """
    left = list(slots)
    groups: list[tuple[Slot, ...]] = []
    while left:
        first = left.pop(0)
        is_next = bool(left) and left[0].order == first.order + 1
        if is_next and first.side and left[0].side > first.side:
            groups.append((first, left.pop(0)))
        else:
            groups.append((first,))
    return groups


def slots_judged(slots: Iterable[Slot]) -> list[tuple[Slot, ...]]:
    """Return the slots grouped, without halves of pairs whose other half was deleted."""
    return [group for group in slots_grouped(slots) if len(group) == 2 or not group[0].side]


def slots_kept(slots: QuerySet[Slot]) -> QuerySet[Slot]:
    """Return the slots except those of chats whose bot failed, and of pairs that were abandoned for such a chat."""
    return slots.exclude(Q(chat__state="failed") | ~Q(side="") & Q(chat__state="ended"))


def pairs_compared(participant: Participant) -> set[frozenset[str]]:
    """Return the pairs of bots that the participant was given in this study, judged or not."""
    slots = Slot.objects.filter(task__participant=participant).exclude(bot_id="").exclude(side="")
    groups = slots_grouped(slots.order_by("task", "order"))
    return {frozenset(slot.bot_id for slot in group) for group in groups if len(group) == 2}


def pair_with(slot: Slot) -> tuple[Slot, Slot] | None:
    """Return the pair that the slot is one half of, in its order; None if it stands alone."""
    if not slot.side:
        return None
    slots = Slot.objects.filter(task=slot.task_id).order_by("order")
    pairs = (group for group in slots_grouped(slots) if slot in group)
    first, *rest = next(pairs)
    return (first, rest[0]) if rest else None
