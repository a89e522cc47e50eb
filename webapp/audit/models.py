"""Audit log: waiting entries, chains, their heads, and seals.

A seal replaces a deleted month.

No table has foreign keys: entries stay when a user, study or project is deleted.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from webapp.core.models import DatabaseTimeField
from webapp.core.project_scope import ProjectManager


class OfChain(models.Model):
    """Row of a project's chain, visible only to members of the project."""

    project = models.CharField(max_length=60)

    project_paths = ("project",)

    objects: ClassVar[ProjectManager[Any]] = ProjectManager()
    everywhere: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        abstract = True


class RecordedRow(OfChain):
    """A recorded action.

    Attributes:
        actor: id of the user; None for participants, commands and the server's own work.
        object_kind, object_id: name of the model and primary key.
    """

    recorded_at = DatabaseTimeField(auto_now_add=True)
    action = models.CharField(max_length=40)
    actor = models.PositiveBigIntegerField(null=True)
    object_kind = models.CharField(max_length=40, blank=True)
    object_id = models.PositiveBigIntegerField(null=True)
    parameters = models.JSONField(default=dict)
    origin = models.JSONField(default=dict)

    class Meta:
        abstract = True


class PendingEntry(RecordedRow):
    """Entry committed with its action and not yet in the chain."""

    def __str__(self) -> str:
        return f"{self.project}: {self.action}"


class AuditEntry(RecordedRow):
    """Link of a project's chain.

    Triggers refuse changes, and deletion unless a seal covers it.

    Attributes:
        sequence: 1, 2, … within the project.
        previous_hash: hash of the entry before; empty for the first.
        hash: SHA-256 of all other values but the primary key (`chain.py`).
    """

    recorded_at = models.DateTimeField()
    sequence = models.PositiveBigIntegerField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        verbose_name_plural = "audit entries"
        constraints = [models.UniqueConstraint(fields=["project", "sequence"], name="audit_sequence_unique")]
        indexes = [
            models.Index(fields=["project", "actor"], name="audit_by_actor"),
            models.Index(fields=["project", "object_kind", "object_id"], name="audit_by_object"),
        ]

    def __str__(self) -> str:
        return f"{self.project} {self.sequence}"


class ChainHead(OfChain):
    """End of a project's chain.

    The writer locks it, so that there is one writer at a time.

    Attributes:
        checked_at: time of the latest check of the chain; None before the first.
        problem: first problem that this check found; empty if the chain was intact.
    """

    project = models.CharField(max_length=60, unique=True)
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    checked_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return f"{self.project} {self.sequence}"


class MonthSeal(OfChain):
    """Remainder of a deleted month, to which the chain stays attached.

    Attributes:
        month: year and month, such as 202611.
    """

    month = models.PositiveIntegerField()
    n_entries = models.PositiveBigIntegerField()
    last_sequence = models.PositiveBigIntegerField()
    last_hash = models.CharField(max_length=64)
    sealed_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "last_sequence"], name="audit_seal_unique")]

    def __str__(self) -> str:
        return f"{self.project} {self.month}"
