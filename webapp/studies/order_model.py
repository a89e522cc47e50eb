"""Tables of what draws read beside counts of bots; other modules know them from `webapp.studies.models`."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class OrderState(models.Model):
    """How far ratings have settled the order of a study's bots, as a job found it last.

    The rule `resolve` draws by it, and pages that show a study while it collects read it: nobody computes statistics
    in a request.
    """

    study = models.OneToOneField(
        "studies.Study", on_delete=models.CASCADE, related_name="order_state"
    )
    found = models.JSONField(help_text=_("As `evaluation.analysis.settling` has it."))
    n_ratings = models.PositiveIntegerField()
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.study_id}: {self.n_ratings} ratings"

    @property
    def needs(self) -> dict[str, int]:
        """How many more ratings each bot needs; 0: it is told apart from every other."""
        return dict(self.found.get("needs", {}))

    @property
    def identity(self) -> dict[str, Any]:
        """What a task notes of it that was drawn by it."""
        return {
            "made_at": self.made_at.isoformat(),
            "n_ratings": self.n_ratings,
            "needs": self.needs,
        }


class SequenceCount(models.Model):
    """How many people of a study have gone through its bots in this order, where one person meets several."""

    study = models.ForeignKey(
        "studies.Study", on_delete=models.CASCADE, related_name="sequence_counts"
    )
    is_synthetic = models.BooleanField(default=False)
    sequence = models.CharField(max_length=16, help_text=_("As `sequences.sequence_key` names it."))
    n_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "is_synthetic", "sequence"], name="sequence_count_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.n_completed}"
