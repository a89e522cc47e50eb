"""Ratings that a task requests: targets, order, and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from chatbots import derive_seed
from chatbots.text import quote
from webapp.conversations.models import Conversation, Turn
from webapp.ratings.models import Rating
from webapp.studies.assignment.counterbalance import slots_judged, slots_kept
from webapp.studies.models import Item, Slot, Task
from webapp.studies.protocols.base import TaskProgress

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
            return {"first": first, "second": second, "at_turn": None}
    raise TypeError(f"{quote(target)} cannot be rated; only a conversation, turn, item or two slots can")


def slots_rated(task: Task, target: Target) -> set[int]:
    """Return the ids of the slots that a target covers.

    Empty for another task.
    """
    match target:
        case Conversation():
            condition = _shows(target.pk)
        case Turn():
            chosen = task.payload.get("turns")
            if chosen is not None and target.index not in chosen.get(str(target.conversation_id), ()):
                return set()
            condition = _shows(target.conversation_id)
        case Item():
            condition = Q(item=target)
        case _:
            pair = {slot.pk for slot in target if slot.task_id == task.pk}
            return pair if len(pair) == 2 else set()
    return set(task.slots.filter(condition).values_list("pk", flat=True))


def task_progress(task: Task) -> TaskProgress:
    """Return the numbers of slots and of rated slots, in two queries.

    Chats with a failed bot, and their pairs, are not rated; they may have been replaced. If single turns are rated,
    turns are counted instead of slots.
    """
    if "turns" in task.payload:
        # Only remaining turns count: the chat's participant may have withdrawn.
        of_task = Q(conversation__judged_in__task=task) | Q(conversation__slot__task=task)
        existing = set(Turn.objects.filter(of_task).values_list("conversation", "index"))
        chosen = {(UUID(chat), n) for chat, turns in task.payload["turns"].items() for n in turns}
        return TaskProgress(len(chosen & existing), Rating.objects.filter(task=task, turn__isnull=False).count())
    current_slots = slots_kept(task.slots.annotate(chat_pk=F("chat__pk")).order_by("order"))
    slots = [
        (slot.pk, slot.item_id, slot.conversation_id, slot.chat_pk)  # type: ignore[attr-defined]
        for group in slots_judged(current_slots)
        for slot in group
    ]
    rating_rows = Rating.objects.filter(task=task, at_turn=None).values_list(
        "first_id", "second_id", "item_id", "conversation_id", "turn__conversation_id"
    )
    rated: set[tuple[str, Any]] = {("slot", slot_id) for row in rating_rows for slot_id in row[:2]}
    rated |= {("item", row[2]) for row in rating_rows}
    rated |= {("conversation", conversation_id) for row in rating_rows for conversation_id in row[3:]}
    slot_targets: list[set[tuple[str, Any]]] = [
        {("slot", pk), ("item", item), ("conversation", stored), ("conversation", chat)}
        for pk, item, stored, chat in slots
    ]
    nothing = {("item", None), ("conversation", None)}
    return TaskProgress(len(slot_targets), sum(bool((targets & rated) - nothing) for targets in slot_targets))


def _shows(conversation_id: Any) -> Q:
    """Return the condition that a slot contains the conversation.

    It may be stored, or made in the slot.
    """
    return Q(chat=conversation_id) | Q(conversation=conversation_id)


@dataclass(frozen=True, slots=True)
class RequestedRating:
    """Rating requested by a task.

    Attributes:
        slots: rated slot, or two slots that are compared.
        rating: stored rating; None if there is none yet.
        turn: rated turn, if a single reply of the slot's conversation is rated.
    """

    slots: tuple[Slot, ...]
    rating: Rating | None = None
    turn: Turn | None = None

    @property
    def key(self) -> str:
        """Key of the judgement on pages: ids of its slots and turn.

        It stays the same if other parts of the task are deleted meanwhile.
        """
        slots = "-".join(str(slot.pk) for slot in self.slots)
        return f"{slots}.{self.turn.pk}" if self.turn is not None else slots

    @property
    def target(self) -> Target:
        """Target of the rating."""
        if len(self.slots) == 2:
            return self.slots[0], self.slots[1]
        if self.turn is not None:
            return self.turn
        target = self.slots[0].item or self.slots[0].conversation
        assert target is not None, f"slot {self.slots[0].pk} is rated but contains nothing stored"
        return target


def requested_ratings(task: Task) -> list[RequestedRating]:
    """Return the ratings requested by the task, in order, in two queries.

    Two slots in a row with different sides are a pair, unless a chatbot failed in one of them; any other stored slot
    stands alone. A chat by itself is rated by the step `form`, not here.
    """
    requests = [RequestedRating(slots) for slots in _grouped(task)]
    if "turns" in task.payload:
        requests = _by_turn(requests, task.payload["turns"])
    ratings = list(Rating.objects.filter(task=task, at_turn=None)) if requests else []
    return [replace(request, rating=_rating_of(request, ratings)) for request in requests]


def checks_not_asked(task: Task, target: Target) -> frozenset[str]:
    """Return the keys of attention checks after the task.

    Each is asked once in a task, about a randomly drawn object; versions without checks need no query.
    """
    keys = check_keys(task)
    if not keys:
        return keys
    judgements = requested_ratings(task)
    asked_of = judgements[check_place(task, judgements)].target if judgements else None
    return frozenset() if asked_of == target else keys


def check_keys(task: Task) -> frozenset[str]:
    """Return the position of the judgement with the attention checks.

    It counts from 0; the checks are among the questions.
    """
    return frozenset(question.key for question in task.version.values.after if question.is_check)


def check_place(task: Task, judgements: Sequence[RequestedRating]) -> int:
    """Return the place, from 0, of the judgement that asks the attention checks among the questions.

    It is drawn at random. If the task's objects change, it stays where the checks were answered, and skips objects
    rated without them.
    """
    keys = check_keys(task)
    for place, judgement in enumerate(judgements):
        if judgement.rating is not None and keys & judgement.rating.other_answers.keys():
            return place
    drawn_place = derive_seed(0, "check", str(task.public_id)) % len(judgements)
    unrated = [place for place, judgement in enumerate(judgements) if judgement.rating is None]
    return drawn_place if drawn_place in unrated or not unrated else unrated[0]


def _by_turn(requests: list[RequestedRating], chosen: Mapping[str, Sequence[int]]) -> list[RequestedRating]:
    """Return a judgement for each chosen turn of the conversations, in order."""
    chosen_turns = Turn.objects.filter(conversation__in=list(chosen)).order_by("index")
    turns = {(str(turn.conversation_id), turn.index): turn for turn in chosen_turns}
    return [
        RequestedRating(request.slots, turn=turns[chat, index])
        for request in requests
        for chat in [_chat_of(request.slots[0])]
        for index in chosen.get(chat, ())
        if (chat, index) in turns  # otherwise it was deleted meanwhile
    ]


def _grouped(task: Task) -> list[tuple[Slot, ...]]:
    slots = task.slots.select_related(
        "item", "conversation__slot__task__version", "conversation__study__version", "chat"
    ).order_by("order")
    groups = slots_judged(slots_kept(slots))
    # The participant's own chat is rated by turns once it has ended.
    has_turns = "turns" in task.payload
    return [group for group in groups if len(group) == 2 or has_turns or not group[0].bot_id]


def _chat_of(slot: Slot) -> str:
    """Return the id of a slot's conversation, stored or made in it.

    Empty without one.
    """
    own_chat = getattr(slot, "chat", None)
    return str(slot.conversation_id or (own_chat and own_chat.pk) or "")


def _rating_of(judgement: RequestedRating, ratings: list[Rating]) -> Rating | None:
    if len(judgement.slots) == 2:
        pair = tuple(slot.pk for slot in judgement.slots)
        return next((r for r in ratings if (r.first_id, r.second_id) == pair), None)
    [slot] = judgement.slots
    if judgement.turn is not None:
        return next((r for r in ratings if r.turn_id == judgement.turn.pk), None)
    if slot.item_id is not None:
        return next((r for r in ratings if r.item_id == slot.item_id), None)
    return next((r for r in ratings if r.conversation_id == slot.conversation_id), None)
