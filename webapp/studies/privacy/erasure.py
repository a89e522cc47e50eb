"""Erasure: all data of participants, by kind, counted beforehand and deleted at once.

Every app registers in `AppConfig.ready()` the participants' data that it stores, as with health checks. Foreign keys
also cascade, so that no other deletion of a participant leaves their texts behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Count, Model, QuerySet

from webapp.bots.services import bot_reasons_forget
from webapp.core.audit_trail import ERASE, record
from webapp.core.clean_up import clean_up_kind, clean_up_on_commit
from webapp.core.database import journal_emptied
from webapp.studies.assignment.counterbalance import study_count_anew
from webapp.studies.models import Erasure, Participant, Study, StudyVersion

log = logging.getLogger(__name__)


Rows = Callable[[QuerySet[Participant]], QuerySet[Any]]


def rows_of(model: type[Model], path: str = "participant") -> Rows:
    """Return a function that returns participants' rows of a model.

    Args:
        path: lookup path from the row to its participant.
    """
    return lambda people: model._default_manager.filter(**{f"{path}__in": people})


@dataclass(frozen=True, slots=True)
class ErasureKind:
    """Kind of participants' data.

    Attributes:
        title: name on the page that lists the data to be deleted.
        rows: function that returns all rows of this kind that belong to these participants.
        lock: True if these rows must be locked during the deletion, because other writes wait for them.
        for_pay: True if it is kept when a participant withdraws after the end, so that they can be paid.
    """

    title: Any
    rows: Rows
    lock: bool = False
    for_pay: bool = False


_kinds: dict[str, ErasureKind] = {}


_follow: list[Callable[[Collection[int]], None]] = []


_people_gone: list[Callable[[Collection[UUID]], None]] = []


def erasure_kind(table: str, title: Any, rows: Rows, *, lock: bool = False, for_pay: bool = False) -> None:
    """Register a kind, counted under `table`.

    A kind that depends on another is registered after it.
    """
    _kinds[table] = ErasureKind(title, rows, lock, for_pay)


def erasure_follow(act: Callable[[Collection[int]], None]) -> None:
    """Register a hook that runs after an erasure with the studies' ids.

    It removes files with participants' texts.
    """
    _follow.append(act)


def erasure_people_gone(act: Callable[[Collection[UUID]], None]) -> None:
    """Register a hook that runs after an erasure with participants' ids.

    It clears data without a foreign key.
    """
    _people_gone.append(act)


def studies_gone(study_ids: Collection[int]) -> None:
    """Remove studies' data outside the database before their rows are deleted."""
    for act in _follow:
        act(study_ids)


def erasure_kinds() -> dict[str, ErasureKind]:
    """Return all kinds of data by table name."""
    return dict(_kinds)


def erasure_counts(participants: QuerySet[Participant]) -> dict[str, int]:
    """Return the number of these participants' rows by kind."""
    return {table: kind.rows(participants).count() for table, kind in _kinds.items()}


def people_locked(participants: QuerySet[Participant]) -> QuerySet[Participant]:
    """Return the participants with all rows locked that their writes need.

    This requires a transaction. Conversations are locked before participants, as in the writing services, to avoid
    deadlocks.
    """
    people = Participant.objects.filter(pk__in=list(participants.values_list("pk", flat=True)))
    for kind in reversed(_kinds.values()):
        if kind.lock:
            rows = kind.rows(people).order_by("pk").select_for_update(of=("self",))
            list(rows.values_list("pk", flat=True))
    return people


def _clean_up(payload: Mapping[str, Any]) -> None:
    """Run all hooks even if one fails.

    Raises:
        RuntimeError: names and errors of the hooks that failed.
    """
    people, studies = {UUID(hex=person) for person in payload["people"]}, set(payload["studies"])
    hooks: list[tuple[Any, Callable[[], object]]] = [(act, partial(act, people)) for act in _people_gone if people]
    hooks += [(act, partial(act, studies)) for act in _follow]
    failed = []
    for act, run in [*hooks, (journal_emptied, journal_emptied)]:
        try:
            run()
        except Exception as error:
            log.exception("clean-up after an erasure: %s failed", act)
            failed.append(f"{getattr(act, '__name__', act)} ({type(error).__name__}: {error})")
    if failed:
        raise RuntimeError("; ".join(failed))


CLEAN_UP = "erasure"
clean_up_kind(CLEAN_UP, "Files and results after an erasure", _clean_up)


def erased_follow_up(study_ids: Collection[int], *, people: Collection[UUID] = ()) -> None:
    """Recount the studies' work and schedule clean-up after an erasure.

    The clean-up removes files and results with erased data.

    Args:
        people: erased participants; none if the participants stay.
    """
    clean_up_on_commit(CLEAN_UP, {"studies": sorted(study_ids), "people": sorted(person.hex for person in people)})
    versions = StudyVersion.objects.filter(study__in=study_ids)
    bot_reasons_forget({bot_id for version in versions for bot_id in version.values.bots})
    for study_id in study_ids:
        study_count_anew(study_id=study_id)


def participants_erase(*, participants: QuerySet[Participant], notes: bool = False) -> dict[str, int]:
    """Delete all data of these participants, in one transaction.

    Returns the number of rows by kind.

    Embeddings of their texts are deleted, too (`webapp/conversations/erasure.py`), as with every deletion.
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
        erased_follow_up(n_people, people=ids)
        reason = Erasure.Kind.ASKED if notes else "scripted"
        for study in Study.everywhere.filter(pk__in=n_people):
            record(ERASE, study, kind=reason, participants=n_people[study.pk])
        if notes:
            for study_id, n in n_people.items():
                Erasure.objects.create(study_id=study_id, kind=Erasure.Kind.ASKED, n_people=n, removed=removed)
    return removed


def _log_entries_of(rows: QuerySet[Any]) -> QuerySet[LogEntry]:
    """Return the admin log's entries about these rows, by primary key."""
    return LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(rows.model),
        object_id__in=[str(pk) for pk in rows.values_list("pk", flat=True)],
    )
