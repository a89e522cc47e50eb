"""Tables that draws read besides counts of bots; other modules import them from `webapp.studies.models`."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class OrderState(models.Model):
    """State of the ranking of a study's bots, as a job computed it last.

    The rule `resolve` draws by it, and pages about a collecting study read it, because no request computes
    statistics.
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
        """Number of further ratings each bot needs; 0: it differs significantly from every other bot."""
        return dict(self.found.get("needs", {}))

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the state that a task drawn by it stores."""
        return {
            "made_at": self.made_at.isoformat(),
            "n_ratings": self.n_ratings,
            "needs": self.needs,
        }


class SequenceCount(models.Model):
    """Number of participants who completed a study's bots in this order, where each meets several bots."""

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
