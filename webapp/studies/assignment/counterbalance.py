"""Counterbalancing of bot orders and of sides, from completed work.

For k bots a balanced Latin square (Williams, 1949, Australian Journal of Scientific Research A 2) has k orders, or 2 k
if k is odd: across all of them, each bot is in each position equally often, and follows each other bot equally often.
Participants get the order that the fewest have completed.

Draws and quotas read counts of completed work, and not all tasks. A task that ended early because a bot failed is
paid, so it counts as a task of the study; its conversation was not rated, so it does not count for the bot.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import Any

from django.db import transaction
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery, UUIDField

from webapp.studies.assignment.capacity import open_tasks
from webapp.studies.conditions import condition_key
from webapp.studies.models import Item, Outcome, Participant, SequenceCount, Slot, Study, Task, TaskCount


def slots_grouped(slots: Iterable[Slot]) -> list[tuple[Slot, ...]]:
    """Group slots into pairs and single slots.

    Two consecutive slots with opposite sides are a pair. If one half was deleted, the other stays single, because its
    neighbour belongs to another pair.
    """
    remaining = list(slots)
    groups: list[tuple[Slot, ...]] = []
    while remaining:
        first = remaining.pop(0)
        is_next = bool(remaining) and remaining[0].order == first.order + 1
        if is_next and first.side and remaining[0].side > first.side:
            groups.append((first, remaining.pop(0)))
        else:
            groups.append((first,))
    return groups


def slots_judged(slots: Iterable[Slot]) -> list[tuple[Slot, ...]]:
    """Return the slots grouped, without incomplete pairs."""
    return [group for group in slots_grouped(slots) if len(group) == 2 or not group[0].side]


def slots_kept(slots: QuerySet[Slot]) -> QuerySet[Slot]:
    """Return the slots without failed chats and pairs abandoned for them."""
    return slots.exclude(Q(chat__state="failed") | ~Q(side="") & Q(chat__state="ended"))


def pairs_compared(participant: Participant) -> set[frozenset[str]]:
    """Return the bot pairs that the participant was assigned here.

    Unrated pairs count too.
    """
    slots = Slot.objects.filter(task__participant=participant).exclude(bot_id="").exclude(side="")
    groups = slots_grouped(slots.order_by("task", "order"))
    return {frozenset(slot.bot_id for slot in group) for group in groups if len(group) == 2}


def pair_of_slot(slot: Slot) -> tuple[Slot, Slot] | None:
    """Return the pair that contains the slot, in order.

    None for a single slot.
    """
    if not slot.side:
        return None
    slots = Slot.objects.filter(task=slot.task_id).order_by("order")
    pairs = (group for group in slots_grouped(slots) if slot in group)
    first, *rest = next(pairs)
    return (first, rest[0]) if rest else None


@dataclass(frozen=True, slots=True)
class PairBegun:
    """Pair of conversations that participants have already compared.

    Attributes:
        n_raters: number of participants who have or had them.
        n_first: number of these for whom the first one was A.
    """

    first: str
    second: str
    n_raters: int
    n_first: int

    def order_sides(self, rng: random.Random) -> tuple[str, str]:
        """Return both sides, with the bot as A that was A less often.

        Ties are drawn.
        """
        ahead = 2 * self.n_first - self.n_raters
        is_first = ahead < 0 or (ahead == 0 and rng.random() < 0.5)
        return (self.first, self.second) if is_first else (self.second, self.first)


@dataclass
class DialogueHistory:
    """Counts of each bot's shown conversations, by bot and side."""

    n: Counter[tuple[str, str]] = field(default_factory=Counter)

    def load(self, bot_id: str) -> int:
        """Count the assignments of the bot's conversations."""
        return self.n[bot_id, "A"] + self.n[bot_id, "B"]

    def sides(self, first: str, second: str, rng: random.Random) -> tuple[str, str]:
        """Return both bots, first the one that was A less often."""
        ahead = [self.n[bot_id, "A"] - self.n[bot_id, "B"] for bot_id in (first, second)]
        is_first = ahead[0] < ahead[1] or (ahead[0] == ahead[1] and rng.random() < 0.5)
        return (first, second) if is_first else (second, first)

    def add(self, on_a: str, on_b: str) -> None:
        """Count one more pair."""
        self.n.update([(on_a, "A"), (on_b, "B")])


def dialogue_history(study: Study, *, synthetic: bool) -> DialogueHistory:
    """Count the conversations shown to participants by bot and side.

    This takes one query.
    """
    rows = _slots_on_sides(study, synthetic=synthetic).values_list("conversation__bot__bot_id", "side")
    return DialogueHistory(Counter({(bot, side): n for bot, side, n in rows.annotate(n=Count("pk"))}))


def pairs_begun(study: Study, unseen: QuerySet[Any], raters_wanted: int, *, synthetic: bool) -> list[PairBegun]:
    """Return the pairs of unseen conversations that still need raters.

    Their order is stable.

    Args:
        unseen: conversations that the participant may be assigned.
        raters_wanted: number of raters that each pair should have.
    """
    partner = Slot.objects.filter(task=OuterRef("task"), order=OuterRef("order") + 1, side="B")
    rows = (
        _slots_on_sides(study, synthetic=synthetic)
        .filter(side="A", conversation__in=unseen.order_by().values("pk"))
        .annotate(other=Subquery(partner.values("conversation")[:1], output_field=UUIDField()))
        .filter(other__isnull=False)
        .values_list("conversation", "other")
        .annotate(n=Count("pk"))
    )
    first: Counter[tuple[str, str]] = Counter({(str(a), str(b)): n for a, b, n in rows})
    pairs = sorted({tuple(sorted(pair)) for pair in first})
    may = unseen.filter(pk__in={pk for pair in pairs for pk in pair})
    allowed = {str(pk) for pk in may.values_list("pk", flat=True)}
    candidates = [PairBegun(a, b, first[a, b] + first[b, a], first[a, b]) for a, b in pairs]
    return [pair for pair in candidates if pair.n_raters < raters_wanted and {pair.first, pair.second} <= allowed]


def _slots_on_sides(study: Study, *, synthetic: bool) -> QuerySet[Slot]:
    """Return the study's slots that are sides of a pair.

    Those of expired reservations are left out.
    """
    slots = Slot.objects.filter(
        task__participant__study=study, task__participant__is_synthetic=synthetic, conversation__isnull=False
    ).exclude(side="")
    return slots.exclude(task__state__in=[Task.State.EXPIRED, Task.State.WITHDRAWN]).order_by()


def slots_with(items: Sequence[str], *, synthetic: bool) -> QuerySet[Slot]:
    """Return the slots with these items, without those of expired reservations."""
    slots = Slot.objects.filter(item__in=[int(item) for item in items], task__participant__is_synthetic=synthetic)
    return slots.exclude(task__state__in=[Task.State.EXPIRED, Task.State.WITHDRAWN]).order_by()


def replies_given(items: Sequence[str], *, synthetic: bool) -> dict[str, tuple[int, list[Sequence[int]]]]:
    """Return each item's number of replies, and those that raters saw.

    This takes two queries.
    """
    stored = Item.objects.filter(pk__in=[int(item) for item in items]).values_list("pk", "responses")
    replies_by_item: dict[str, tuple[int, list[Sequence[int]]]] = {
        str(pk): (len(replies), []) for pk, replies in stored
    }
    for item, shown_by_item in slots_with(items, synthetic=synthetic).values_list("item", "task__payload__shown"):
        replies_by_item[str(item)][1].append((shown_by_item or {}).get(str(item), ()))
    return replies_by_item


def replies_balanced(n_held: int, shown_before: Sequence[Sequence[int]], n: int, rng: random.Random) -> list[int]:
    """Return `n` replies of an item in display order, balanced over raters.

    These are the replies shown least often, then those shown least often together; then the order in which each reply
    has a position it had least often. Ties are drawn.

    Args:
        shown_before: indices shown to earlier raters, in display order.
    """
    times = Counter(reply for numbers in shown_before for reply in numbers)
    together = Counter(frozenset(pair) for numbers in shown_before for pair in combinations(numbers, 2))
    places = Counter(place for numbers in shown_before for place in enumerate(numbers))
    remaining, chosen = rng.sample(range(n_held), n_held), list[int]()
    while len(chosen) < n:
        met = {reply: sum(together[frozenset((reply, chosen_reply))] for chosen_reply in chosen) for reply in remaining}
        chosen.append(min(remaining, key=lambda reply: (times[reply], met[reply])))
        remaining.remove(chosen[-1])
    orders = list(permutations(chosen))
    rng.shuffle(orders)
    return list(min(orders, key=lambda order: sum(places[place] for place in enumerate(order))))


BotOrder = tuple[str, ...]


def williams(bots: Sequence[str]) -> list[BotOrder]:
    """Return the orders of a balanced Latin square of these bots."""
    k = len(bots)
    first = [0]
    for step in range(1, k):
        first.append((first[-1] + (step if step % 2 else -step)) % k)
    rows = [[(place + shift) % k for place in first] for shift in range(k)]
    if k % 2:
        rows += [row[::-1] for row in rows]
    return list(dict.fromkeys(tuple(bots[place] for place in row) for row in rows))


def sequence_key(order: BotOrder) -> str:
    """Return a short key of an order, used for counting."""
    return hashlib.sha256("\n".join(order).encode()).hexdigest()[:16]


def order_drawn(study: Study, bots: Sequence[str], rng: random.Random, *, synthetic: bool) -> tuple[BotOrder, str]:
    """Return the order with the fewest participants, and its key.

    Completed and open tasks count; ties are drawn.

    Args:
        synthetic: True to count scripted participants only, who are balanced separately; else real ones only.
    """
    orders = {sequence_key(order): order for order in williams(sorted(bots))}
    done = SequenceCount.objects.filter(study=study, is_synthetic=synthetic, sequence__in=orders)
    loads = dict.fromkeys(orders, 0) | dict(done.values_list("sequence", "n_completed"))
    under_way = open_tasks(study, synthetic=synthetic).values_list("payload__sequence", flat=True)
    for key in under_way:
        if key in loads:
            loads[key] += 1
    least = min(loads.values())
    key = rng.choice([key for key, n in loads.items() if n == least])
    return orders[key], key


def sequence_counted(*, task: Task) -> None:
    """Count the order of a fully rated task.

    Call it in the transaction that completes the task.
    """
    key = task.payload.get("sequence")
    if not key or not Task.objects.filter(pk=task.pk, outcome=Outcome.RATED).exists():
        return
    person = task.participant
    count_key = {"study_id": person.study_id, "is_synthetic": person.is_synthetic, "sequence": key}
    SequenceCount.objects.bulk_create([SequenceCount(**count_key)], ignore_conflicts=True)
    SequenceCount.objects.filter(**count_key).update(n_completed=F("n_completed") + 1)


def sequences_count_anew(*, study_id: int) -> None:
    """Recount all orders of a study after participants were erased."""
    SequenceCount.objects.filter(study=study_id).delete()
    done = Task.objects.filter(participant__study=study_id, outcome=Outcome.RATED, payload__has_key="sequence")
    counts: dict[tuple[bool, str], int] = {}
    rows = done.values_list("participant__is_synthetic", "payload__sequence")
    for row in rows.iterator():
        counts[row] = counts.get(row, 0) + 1
    SequenceCount.objects.bulk_create(
        SequenceCount(study_id=study_id, is_synthetic=synthetic, sequence=key, n_completed=n)
        for (synthetic, key), n in counts.items()
    )


_ALL = ("", "", None, None)
"""Key of the count of tasks themselves, without a bot, conversation or item."""
_COUNTED = Q(chat__state="completed") | Q(task__outcome=Outcome.RATED, chat=None)
"""Counts of a completed task: its rated chats and, if the task was rated, the rated items."""


def task_counted(*, task: Task) -> None:
    """Count a newly completed task and its slots.

    Call it in the transaction that completes the task.
    """
    person = task.participant
    scope = {"study_id": person.study_id, "is_synthetic": person.is_synthetic}
    slot_rows = Slot.objects.filter(_COUNTED, task=task).values_list(
        "bot_id", "condition", "conversation_id", "item_id"
    )
    slots = [(bot_id, condition_key(condition), chat, item) for bot_id, condition, chat, item in slot_rows]
    rows = [TaskCount(**scope, **_target(*target)) for target in dict.fromkeys([_ALL, *slots])]
    TaskCount.objects.bulk_create(rows, ignore_conflicts=True)  # counts without a row yet
    counts = TaskCount.objects.filter(**scope)
    # Lock the task's row first: other transactions that count in the study wait for it, which avoids deadlocks.
    counts.filter(bot_id="", conversation=None, item=None).update(n_completed=F("n_completed") + 1)
    bots, _cells, chats, items = ({slot[i] for slot in slots if slot[i]} for i in range(4))
    of_slots = Q(conversation__in=chats) | Q(item__in=items)
    for cell in {key for bot_id, key, _chat, _item in slots if bot_id}:
        of_slots |= Q(cell=cell, bot_id__in={bot_id for bot_id, key, _chat, _item in slots if key == cell} & bots)
    counts.filter(of_slots).update(n_completed=F("n_completed") + 1)
    sequence_counted(task=task)


def study_count_anew(*, study_id: int) -> None:
    """Recount all completed tasks of a study after some were deleted."""
    with transaction.atomic():
        TaskCount.objects.filter(study=study_id).delete()
        sequences_count_anew(study_id=study_id)
        done = Task.objects.filter(participant__study=study_id, state=Task.State.COMPLETED).order_by()
        slots = Slot.objects.filter(_COUNTED, task__in=done).order_by()
        tasks = done.values_list("participant__is_synthetic").annotate(n=Count("pk"))
        slot_rows = slots.values_list(
            "task__participant__is_synthetic", "bot_id", "condition", "conversation_id", "item_id"
        ).annotate(n=Count("task", distinct=True))
        counts: Counter[tuple[bool, tuple[str, str, Any, int | None]]] = Counter(
            {(is_synthetic, _ALL): n for is_synthetic, n in tasks}
        )
        for is_synthetic, bot, condition, chat, item, n in slot_rows:
            counts[is_synthetic, (bot, condition_key(condition), chat, item)] += n
        TaskCount.objects.bulk_create(
            [
                TaskCount(study_id=study_id, is_synthetic=is_synthetic, n_completed=n, **_target(*target))
                for (is_synthetic, target), n in counts.items()
            ],
            batch_size=1000,
        )


def _target(bot_id: str, cell: str, conversation_id: Any, item_id: int | None) -> dict[str, Any]:
    return {"bot_id": bot_id, "cell": cell, "conversation_id": conversation_id, "item_id": item_id}
