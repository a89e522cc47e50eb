"""The places of a study: which are taken, who holds one now and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q
from django.utils import timezone

from webapp.conversations.models import Conversation
from webapp.studies.models import Slot, Study, Task

_LISTED = 100
"""People in the list; the counts are of all."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A person who holds a place.

    Attributes:
        bot_ids: bots of the chats that their task requires; none if they rate stored material.
        chat: the newest conversation of the task, if it has one.
    """

    bot_ids: list[str]
    chat: UUID | None
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Places:
    """The open tasks of a study's participants.

    Attributes:
        held: numbers of quota slots held now, by bot.
        lapsed: numbers of slots of tasks opened too long ago to hold them still, by bot.
        n_held, n_lapsed: numbers of tasks that still hold their slots, and that no longer do.
        holders: the participants who hold a slot, the longest first; at most 100.
    """

    held: dict[str, int]
    lapsed: dict[str, int]
    n_held: int
    n_lapsed: int
    holders: list[Holder]

    @property
    def n_more(self) -> int:
        """Number of participants who hold a quota slot and are not listed."""
        return self.n_held - len(self.holders)


def places_of(study: Study, *, include_synthetic: bool = False) -> Places:
    """Read the participants who hold a quota slot of the study."""
    held_for = study.values.assignment.place_held_for
    since = timezone.now() - held_for
    tasks = Task.objects.filter(state=Task.State.OPEN, participant__study=study)
    if not include_synthetic:
        tasks = tasks.filter(participant__is_synthetic=False)
    is_held = Q(created_at__gte=since)
    counts = tasks.aggregate(held=Count("pk", filter=is_held), all=Count("pk"))
    by_bot = {
        row["bot_id"]: row
        for row in Slot.objects.filter(task__in=tasks)
        .exclude(bot_id="")
        .order_by()
        .values("bot_id")
        .annotate(
            held=Count("pk", filter=Q(task__created_at__gte=since)),
            lapsed=Count("pk", filter=Q(task__created_at__lt=since)),
        )
    }
    listed = list(
        tasks.filter(is_held).order_by("created_at", "pk").prefetch_related("slots")[:_LISTED]
    )
    chats = dict(
        Conversation.objects.filter(slot__task__in=listed)
        .order_by("created_at")
        .values_list("slot__task", "pk")
    )
    return Places(
        held={bot_id: row["held"] for bot_id, row in by_bot.items()},
        lapsed={bot_id: row["lapsed"] for bot_id, row in by_bot.items()},
        n_held=counts["held"],
        n_lapsed=counts["all"] - counts["held"],
        holders=[
            Holder(task.bot_ids, chats.get(task.pk), task.created_at, task.created_at + held_for)
            for task in listed
        ],
    )
