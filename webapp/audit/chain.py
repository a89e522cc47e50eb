"""Chain of a project's audit log: hashes, the writer, and the check.

An entry is first stored with its action, in one transaction (`PendingEntry`). After the commit the writer appends the
waiting entries to the chain and deletes them there, again in one transaction, so that none is lost or written twice
if a process dies. The writer holds the chain's head meanwhile; any process may be the writer.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from webapp.audit.models import AuditEntry, ChainHead, MonthSeal, PendingEntry
from webapp.audit.triggers import triggers_missing
from webapp.core.audit_trail import RecordedAction
from webapp.core.clock import database_now

log = logging.getLogger(__name__)

_FIELDS = ("action", "actor", "object_kind", "object_id", "parameters", "origin")
_BATCH = 500
CHECKED_EVERY = timedelta(days=1)


def entry_hash(entry: AuditEntry) -> str:
    """Return the SHA-256 of an entry and of the previous hash.

    They are serialised as canonical JSON.
    """
    document = {
        **{name: getattr(entry, name) for name in (*_FIELDS, "project", "sequence", "previous_hash")},
        "recorded_at": entry.recorded_at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def entry_store(recorded: RecordedAction) -> None:
    """Store an action in the current transaction.

    It is added to the chain after the commit.
    """
    PendingEntry.everywhere.create(project=recorded.project, **{name: getattr(recorded, name) for name in _FIELDS})
    transaction.on_commit(pending_write, robust=True)


def pending_write() -> int:
    """Append all waiting entries to their chains. Returns their number."""
    n_written = 0
    for project in PendingEntry.everywhere.order_by("project").values_list("project", flat=True).distinct():
        while n := _write_batch(project):
            n_written += n
    return n_written


def _write_batch(project: str) -> int:
    with transaction.atomic():
        head = head_lock(project)
        waiting = list(PendingEntry.everywhere.filter(project=project).order_by("pk")[:_BATCH])
        entries = []
        for pending in waiting:
            head.sequence += 1
            entry = AuditEntry(
                project=project,
                sequence=head.sequence,
                previous_hash=head.hash,
                recorded_at=pending.recorded_at,
                **{name: getattr(pending, name) for name in _FIELDS},
            )
            entry.hash = head.hash = entry_hash(entry)
            entries.append(entry)
        if entries:
            AuditEntry.everywhere.bulk_create(entries)
            head.save(update_fields=["sequence", "hash"])
            PendingEntry.everywhere.filter(pk__in=[pending.pk for pending in waiting]).delete()
    return len(entries)


def head_lock(project: str) -> ChainHead:
    """Return the head of a project's chain, locked until the transaction ends."""
    ChainHead.everywhere.get_or_create(project=project)
    head: ChainHead = ChainHead.everywhere.select_for_update().get(project=project)
    return head


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """Result of checking a chain.

    Attributes:
        n_entries: entries that were intact, from the beginning.
        n_deleted: entries of deleted months.
        head: hash of the last entry.
        problem: first problem, with the sequence number of its entry; empty if the chain is intact.
    """

    project: str
    n_entries: int
    n_deleted: int
    head: str
    problem: str


def chain_check(project: str) -> ChainCheck:
    """Check a project's chain from its oldest entry to its head.

    The outcome is stored at the head.
    """
    seals = _seals(project)
    check = _check_from(project, seals)
    while check.problem and (current := _seals(project)) != seals:  # a month was deleted meanwhile
        seals, check = current, _check_from(project, current)
    ChainHead.everywhere.filter(project=project).update(checked_at=database_now(), problem=check.problem[:300])
    if check.problem:
        log.error("audit log of project %s: %s", project, check.problem)
    return check


def chains_check_due() -> list[ChainCheck]:
    """Check the chains that have not been checked for a day."""
    is_due = Q(checked_at=None) | Q(checked_at__lt=database_now() - CHECKED_EVERY)
    projects = ChainHead.everywhere.filter(is_due).values_list("project", flat=True)
    return [chain_check(project) for project in projects]


def chain_projects() -> list[str]:
    """Return the key of the active project's chain.

    Without an active project, the keys of all projects with a chain.
    """
    return sorted(ChainHead.objects.values_list("project", flat=True))


def _seals(project: str) -> list[MonthSeal]:
    return list(MonthSeal.everywhere.filter(project=project).order_by("last_sequence"))


def _check_from(project: str, seals: Sequence[MonthSeal]) -> ChainCheck:
    entries = AuditEntry.everywhere.filter(project=project).order_by("sequence")
    newest = entries.values_list("sequence", flat=True).last() or 0
    head = ChainHead.everywhere.filter(project=project).first() or ChainHead(project=project)
    sequence = n_deleted = sum(seal.n_entries for seal in seals)
    last_hash = seals[-1].last_hash if seals else ""

    def finish(problem: str) -> ChainCheck:
        return ChainCheck(project, sequence - n_deleted, n_deleted, last_hash, problem)

    if missing := triggers_missing():
        return finish(f"the database lacks the trigger {missing[0]}; run `migrate`, which creates it again")
    if seals and seals[-1].last_sequence != n_deleted:
        return finish(f"the seals count {n_deleted} deleted entries, but the last one is {seals[-1].last_sequence}")
    for entry in entries.filter(sequence__lte=head.sequence).iterator(chunk_size=2000):
        problem = _problem_of(entry, sequence + 1, last_hash)
        if problem:
            return finish(f"entry {entry.sequence} (row {entry.pk}) {problem}")
        sequence, last_hash = entry.sequence, entry.hash
    if sequence != head.sequence:
        return finish(f"entries {sequence + 1} to {head.sequence} are missing at the end")
    if last_hash != head.hash:
        return finish(f"entry {sequence} is not the one that the chain ends with")
    if newest > head.sequence:
        return finish(f"entry {head.sequence + 1} is beyond the end of the chain")
    return finish("")


def _problem_of(entry: AuditEntry, sequence: int, last_hash: str) -> str:
    if entry.sequence != sequence:
        return f"follows a gap: entry {sequence} is missing"
    if entry.hash != entry_hash(entry):
        return "was changed: its hash does not match its values"
    if entry.previous_hash != last_hash:
        return "does not follow the entry before it: the chain was rewritten here"
    return ""


def head_of(project: str) -> dict[str, Any]:
    """Return a chain's last sequence number and hash, for safekeeping."""
    head = ChainHead.everywhere.filter(project=project).first() or ChainHead(project=project)
    return {"project": project, "sequence": head.sequence, "hash": head.hash}


def has_entry(project: str, sequence: int, digest: str) -> bool:
    """Return True if the chain has or had this entry.

    A deleted month counts unless the entry was its last one.
    """
    seals = MonthSeal.everywhere.filter(project=project, last_sequence__gte=sequence)
    if seal := seals.order_by("last_sequence").first():
        return seal.last_sequence != sequence or seal.last_hash == digest
    return bool(AuditEntry.everywhere.filter(project=project, sequence=sequence, hash=digest).exists())
