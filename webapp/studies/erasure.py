"""Erasure of participants: all their data, by kind, counted beforehand and deleted at once.

Every app registers in `AppConfig.ready()` the data that it stores of participants, as with health checks. Foreign
keys also cascade, so that no other deletion of a participant leaves their texts behind.
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
    """One kind of participants' data.

    Attributes:
        title: name on the page that lists the data to be deleted.
        rows: function that returns all rows of this kind that belong to these participants.
        lock: True if other writes wait at these rows, and so must be held off during the deletion.
        for_pay: True if it stays when a participant withdraws after the end, so that they are paid.
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
    """Register a hook that runs after an erasure, given the studies' ids: it removes files with participants' texts."""
    _follow.append(act)


def erasure_people_gone(act: Callable[[Collection[UUID]], None]) -> None:
    """Register a hook that runs after an erasure, given the participants' ids: it clears data without a foreign key."""
    _people_gone.append(act)


def studies_gone(study_ids: Collection[int]) -> None:
    """Remove studies' data outside the database, before their rows are deleted."""
    for act in _follow:
        act(study_ids)


def erasure_kinds() -> dict[str, Kind]:
    """Return all kinds, by the name their rows are counted under."""
    return dict(_kinds)


def erasure_counts(participants: QuerySet[Participant]) -> dict[str, int]:
    """Count the rows of each kind that are stored of these participants."""
    return {table: kind.rows(participants).count() for table, kind in _kinds.items()}


def people_locked(participants: QuerySet[Participant]) -> QuerySet[Participant]:
    """Return the participants, with all rows locked at which their writes wait; call it inside a transaction.

    Conversations are locked before participants, as in the services that write, so that there is no deadlock.
    """
    people = Participant.objects.filter(pk__in=list(participants.values_list("pk", flat=True)))
    for kind in reversed(_kinds.values()):
        if kind.lock:
            rows = kind.rows(people).order_by("pk").select_for_update(of=("self",))
            list(rows.values_list("pk", flat=True))
    return people


def erased_follow_up(study_ids: Collection[int]) -> None:
    """Count the studies' work again, and on commit remove files and results that contain erased data."""
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
    """Delete all data of these participants, in one transaction. Returns the number of rows by kind.

    Embeddings of their texts are deleted, too (`webapp/conversations/forgetting.py`), as with every deletion.
    Figures computed from them (fits, reports already written) stay, because they name no participant.

    Args:
        notes: True if their studies record the erasure.
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
