"""Erasing people: everything that is kept of them, by kind, counted beforehand and removed at once.

Every app says in `AppConfig.ready()` what it keeps of a person, as it does with health checks. Foreign
keys cascade besides, so that no other way of deleting a participant leaves their words behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Count, QuerySet

from webapp.bots.health import bot_reasons_forget
from webapp.core.database import journal_emptied
from webapp.studies.counting import study_count_anew
from webapp.studies.models import Erasure, Participant, StudyVersion

Rows = Callable[[QuerySet[Participant]], QuerySet[Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of what is kept of people.

    Attributes:
        title: for the page that lists what will go.
        rows: all rows of this kind that belong to these people.
        lock: whether other writes wait at these rows, and so must be held off while all is removed.
        for_pay: whether it stays when somebody withdraws after the end, so that they are paid.
    """

    title: Any
    rows: Rows
    lock: bool = False
    for_pay: bool = False


_kinds: dict[str, Kind] = {}
_follow: list[Callable[[Collection[int]], None]] = []
_people_gone: list[Callable[[Collection[UUID]], None]] = []


def erasure_kind(
    table: str, title: Any, rows: Rows, *, lock: bool = False, for_pay: bool = False
) -> None:
    """Add a kind, counted under `table`; one that hangs on another is added after it."""
    _kinds[table] = Kind(title, rows, lock, for_pay)


def erasure_follow(act: Callable[[Collection[int]], None]) -> None:
    """Add what is done once people are erased, given the ids of their studies: remove files that hold their words."""
    _follow.append(act)


def erasure_people_gone(act: Callable[[Collection[UUID]], None]) -> None:
    """Add what is done once people are erased, given their ids: take these out of what no foreign key ties to them."""
    _people_gone.append(act)


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


def people_locked(participants: QuerySet[Participant]) -> QuerySet[Participant]:
    """Return the people, with all rows locked at which writes of theirs wait; call it inside a transaction.

    Conversations before participants, as the services that write do: nobody waits for ever.
    """
    people = Participant.objects.filter(pk__in=list(participants.values_list("pk", flat=True)))
    for kind in reversed(_kinds.values()):
        if kind.lock:
            rows = kind.rows(people).order_by("pk").select_for_update(of=("self",))
            list(rows.values_list("pk", flat=True))
    return people


def erased_follow_up(study_ids: Collection[int]) -> None:
    """Count the studies' work anew, and with the transaction remove files and results that hold what is erased."""
    for act in _follow:
        transaction.on_commit(partial(act, set(study_ids)))
    transaction.on_commit(journal_emptied)
    versions = StudyVersion.objects.filter(study__in=study_ids)
    bot_reasons_forget({bot_id for version in versions for bot_id in version.values.bots})
    for study_id in study_ids:
        study_count_anew(study_id=study_id)


def participants_erase(
    *, participants: QuerySet[Participant], notes: bool = False
) -> dict[str, int]:
    """Remove all that is kept of these people, in one transaction. Returns how much it was, by kind.

    What encoders made of their words goes, too (`webapp/conversations/forgetting.py`), as with every deletion.
    The figures that were made of it (fits, reports already written) stay: nobody stands in them.

    Args:
        notes: whether their studies keep that somebody was erased.
    """
    with transaction.atomic():
        people = people_locked(participants)
        removed = erasure_counts(people)
        n_people = dict(people.order_by().values_list("study").annotate(n=Count("pk")))
        ids = set(people.values_list("pk", flat=True))
        for kind in reversed(_kinds.values()):
            rows = kind.rows(people)
            _log_entries_of(rows).delete()
            rows.delete()
        for act in _people_gone:
            transaction.on_commit(partial(act, ids))
        erased_follow_up(n_people)
        if notes:
            for study_id, n in n_people.items():
                Erasure.objects.create(
                    study_id=study_id, kind=Erasure.Kind.ASKED, n_people=n, removed=removed
                )
    return removed


def _log_entries_of(rows: QuerySet[Any]) -> QuerySet[LogEntry]:
    """Return the admin log's entries about these rows, found by their keys."""
    return LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(rows.model),
        object_id__in=[str(pk) for pk in rows.values_list("pk", flat=True)],
    )
