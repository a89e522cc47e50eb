"""Erasing people: everything that is kept of them, by kind, counted beforehand and removed at once.

Every app says in `AppConfig.ready()` what it keeps of a person, as it does with health checks. Foreign
keys cascade besides, so that no other way of deleting a participant leaves their words behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from webapp.studies.counting import study_count_anew
from webapp.studies.models import Participant

Rows = Callable[[QuerySet[Participant]], QuerySet[Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of what is kept of people.

    Attributes:
        title: for the page that lists what will go.
        rows: all rows of this kind that belong to these people.
        lock: whether other writes wait at these rows, and so must be held off while all is removed.
    """

    title: Any
    rows: Rows
    lock: bool = False


_kinds: dict[str, Kind] = {}
_follow: list[Callable[[Collection[int]], None]] = []


def erasure_kind(table: str, title: Any, rows: Rows, *, lock: bool = False) -> None:
    """Add a kind, counted under `table`; one that hangs on another is added after it."""
    _kinds[table] = Kind(title, rows, lock)


def erasure_follow(act: Callable[[Collection[int]], None]) -> None:
    """Add what is done once people are erased, given the ids of their studies: remove files that hold their words."""
    _follow.append(act)


def studies_gone(study_ids: Collection[int]) -> None:
    """Remove what is kept of studies outside the database, before their rows go."""
    for act in _follow:
        act(study_ids)


def erasure_kinds() -> dict[str, Kind]:
    """Return all kinds, by the name their rows are counted under."""
    return dict(_kinds)


def erasure_counts(participants: QuerySet[Participant]) -> dict[str, int]:
    """Count how many rows of each kind are kept of these people."""
    return {table: kind.rows(participants).count() for table, kind in _kinds.items()}


def participants_erase(*, participants: QuerySet[Participant]) -> dict[str, int]:
    """Remove all that is kept of these people, in one transaction. Returns how much it was, by kind.

    What encoders made of their words goes, too (`webapp/conversations/forgetting.py`), as with every deletion.
    The figures that were made of it (fits, reports already written) stay: nobody stands in them.
    """
    with transaction.atomic():
        people = Participant.objects.filter(pk__in=list(participants.values_list("pk", flat=True)))
        # Conversations before participants, as the services that write do: nobody waits for ever.
        kinds = list(reversed(_kinds.values()))
        for kind in kinds:
            if kind.lock:
                rows = kind.rows(people).order_by("pk").select_for_update(of=("self",))
                list(rows.values_list("pk", flat=True))
        removed = erasure_counts(people)
        studies = set(people.values_list("study_id", flat=True))
        for act in _follow:
            transaction.on_commit(partial(act, studies))
        for kind in kinds:
            kind.rows(people).delete()
        for study_id in studies:
            study_count_anew(study_id=study_id)
    return removed
