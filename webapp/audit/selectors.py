"""Queries for the audit log: filters, pages, and state of the chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import QuerySet, Sum

from webapp.audit.models import AuditEntry, ChainHead, MonthSeal, PendingEntry
from webapp.core.audit_trail import AUDIT_ACTIONS


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Filter of entries; None and "" select all.

    Attributes:
        since, until: first and last day, in UTC.
    """

    actor: int | None = None
    action: str = ""
    object_kind: str = ""
    object_id: int | None = None
    since: date | None = None
    until: date | None = None


@dataclass(frozen=True, slots=True)
class ChainState:
    """State of the active project's chain.

    Attributes:
        head: None before the first entry.
        n_waiting: number of entries that are not in the chain yet.
        n_deleted: number of entries of deleted months.
    """

    head: ChainHead | None
    n_waiting: int
    n_deleted: int


def entries_matching(entry_filter: EntryFilter, *, before: int | None = None) -> QuerySet[AuditEntry]:
    """Return the active project's entries, newest first.

    Args:
        before: sequence number of the last entry of the previous page.
    """
    entries = AuditEntry.objects.order_by("-sequence")
    for name in ("actor", "action", "object_kind", "object_id"):
        if value := getattr(entry_filter, name):
            entries = entries.filter(**{name: value})
    if entry_filter.since is not None:
        entries = entries.filter(recorded_at__gte=_midnight(entry_filter.since))
    if entry_filter.until is not None:
        entries = entries.filter(recorded_at__lt=_midnight(entry_filter.until) + timedelta(days=1))
    return entries if before is None else entries.filter(sequence__lt=before)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def entry_actors() -> list[int]:
    """Return the ids of all users in the active project's log."""
    return list(AuditEntry.objects.exclude(actor=None).order_by("actor").values_list("actor", flat=True).distinct())


def action_title(key: str) -> str:
    """Return an action's title.

    Its key if this version does not know it.
    """
    return AUDIT_ACTIONS[key].title if key in AUDIT_ACTIONS else key


def chain_state() -> ChainState:
    """Return the state of the active project's chain."""
    deleted = MonthSeal.objects.aggregate(n=Sum("n_entries"))["n"] or 0
    return ChainState(ChainHead.objects.first(), PendingEntry.objects.count(), deleted)


def chains_broken() -> QuerySet[ChainHead]:
    """Return the chains of all projects whose latest check found a problem."""
    return ChainHead.everywhere.exclude(problem="").order_by("project")
