"""In which order one person meets several bots, so that no bot gains by its place or by the one before it.

For k bots a balanced Latin square (Williams, 1949, Australian Journal of Scientific Research A 2) has k orders, or 2 k
where k is odd: in all of them together each bot stands in each place equally often, and follows each other bot equally
often. People are given the order that the fewest have gone through.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from django.db.models import F

from webapp.studies.models import Outcome, SequenceCount, Study, Task
from webapp.studies.places import open_tasks

Order = tuple[str, ...]


def williams(bots: Sequence[str]) -> list[Order]:
    """Return the orders of a balanced Latin square of these bots."""
    k = len(bots)
    first = [0]
    for step in range(1, k):
        first.append((first[-1] + (step if step % 2 else -step)) % k)
    rows = [[(place + shift) % k for place in first] for shift in range(k)]
    if k % 2:
        rows += [row[::-1] for row in rows]
    return list(dict.fromkeys(tuple(bots[place] for place in row) for row in rows))


def sequence_key(order: Order) -> str:
    """Return a short name of an order, by which it is counted."""
    return hashlib.sha256("\n".join(order).encode()).hexdigest()[:16]


def order_drawn(
    study: Study, bots: Sequence[str], rng: random.Random, *, synthetic: bool
) -> tuple[Order, str]:
    """Return the order with the fewest participants, completed or open, ties drawn, and its key.

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
    """Count the order of a completed task, if it was rated to its end; in the same transaction."""
    key = task.payload.get("sequence")
    if not key or not Task.objects.filter(pk=task.pk, outcome=Outcome.RATED).exists():
        return
    person = task.participant
    own = {"study_id": person.study_id, "is_synthetic": person.is_synthetic, "sequence": key}
    SequenceCount.objects.bulk_create([SequenceCount(**own)], ignore_conflicts=True)
    SequenceCount.objects.filter(**own).update(n_completed=F("n_completed") + 1)


def sequences_count_anew(*, study_id: int) -> None:
    """Count all orders of a study again, after an erasure of participants."""
    SequenceCount.objects.filter(study=study_id).delete()
    done = Task.objects.filter(
        participant__study=study_id, outcome=Outcome.RATED, payload__has_key="sequence"
    )
    found: dict[tuple[bool, str], int] = {}
    rows = done.values_list("participant__is_synthetic", "payload__sequence")
    for row in rows.iterator():
        found[row] = found.get(row, 0) + 1
    SequenceCount.objects.bulk_create(
        SequenceCount(study_id=study_id, is_synthetic=synthetic, sequence=key, n_completed=n)
        for (synthetic, key), n in found.items()
    )
