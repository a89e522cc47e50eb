"""Table of participants' answers in practice; other modules import it from `webapp.studies.models`."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class TrainingAnswer(models.Model):
    """A participant's answer about a practice pair, at the first or second attempt; it never changes."""

    participant = models.ForeignKey(
        "studies.Participant", on_delete=models.CASCADE, related_name="training_answers"
    )
    pair = models.CharField(max_length=32, help_text=_("Digest of the pair."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("{question: 1 the first, 0 the same, -1 the second}"))
    is_right = models.BooleanField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(
                fields=["participant", "pair", "attempt"], name="training_answer_once"
            ),
            models.CheckConstraint(
                condition=Q(attempt__in=[1, 2]), name="training_attempt_first_or_second"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.pair}/{self.attempt}"
