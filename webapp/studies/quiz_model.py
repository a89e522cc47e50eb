"""Table of answers to the quiz about the instructions; other modules import it from `webapp.studies.models`."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class QuizAttempt(models.Model):
    """A participant's answers to the quiz about the instructions, at one of two attempts; they never change."""

    participant = models.ForeignKey(
        "studies.Participant", on_delete=models.CASCADE, related_name="quiz_attempts"
    )
    quiz = models.CharField(max_length=32, help_text=_("Digest of the questions."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("[{question, answer, is_right}]"))
    is_right = models.BooleanField(help_text=_("All of them."))
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(
                fields=["participant", "quiz", "attempt"], name="quiz_attempt_once"
            ),
            models.CheckConstraint(
                condition=Q(attempt__in=[1, 2]), name="quiz_attempt_first_or_second"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.quiz}/{self.attempt}"
