"""Retention of the audit log: whole months are deleted.

A seal keeps the last hash of each.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction

from webapp.audit.chain import head_lock
from webapp.audit.models import AuditEntry, ChainHead, MonthSeal
from webapp.core.audit_trail import MONTH_DELETE, record
from webapp.core.clock import database_now


def months_delete(now: datetime | None = None) -> list[MonthSeal]:
    """Delete the months older than `CONFAB_AUDIT_MONTHS` (idempotent).

    Returns their seals.
    """
    if not settings.CONFAB_AUDIT_MONTHS:
        return []
    first_kept = month_start(now or database_now(), -settings.CONFAB_AUDIT_MONTHS)
    seals: list[MonthSeal] = []
    for project in ChainHead.everywhere.values_list("project", flat=True):
        while (seal := _month_delete(project, first_kept)) is not None:
            seals.append(seal)
    return seals


def month_start(moment: datetime, months: int = 0) -> datetime:
    """Return the start of a later month, in UTC.

    It is the given number of months after that of `moment`.
    """
    moment = moment.astimezone(UTC)
    n = moment.year * 12 + moment.month - 1 + months
    return datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC)


def _month_delete(project: str, first_kept: datetime) -> MonthSeal | None:
    """Delete the oldest month of a chain if it ended long enough ago.

    An entry may have waited until after the first entry of the next month; it is deleted with that month.
    """
    with transaction.atomic():
        head_lock(project)
        entries = AuditEntry.everywhere.filter(project=project).order_by("sequence")
        oldest = entries.first()
        if oldest is None or oldest.recorded_at >= first_kept:
            return None
        next_month = month_start(oldest.recorded_at, 1)
        following = entries.filter(recorded_at__gte=next_month).first()
        old = entries if following is None else entries.filter(sequence__lt=following.sequence)
        last = old.last()
        assert last is not None
        month = month_start(oldest.recorded_at)
        seal = MonthSeal.everywhere.create(
            project=project,
            month=month.year * 100 + month.month,
            n_entries=old.count(),
            last_sequence=last.sequence,
            last_hash=last.hash,
        )
        # The trigger allows this because the seal exists.
        AuditEntry.everywhere.filter(project=project, sequence__lte=last.sequence)._raw_delete("default")
        record(MONTH_DELETE, project=project, month=seal.month, entries=seal.n_entries)
    return seal
