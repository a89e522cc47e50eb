"""A participant's answers to a rubric."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.conversations.models import Conversation
from webapp.core.models import TimeStamped
from webapp.studies.models import Participant, Rubric


class Rating(TimeStamped):
    """One rater's answers about one conversation: `{dimension key: number}`."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="ratings")
    participant = models.ForeignKey(
        Participant, null=True, blank=True, on_delete=models.CASCADE, related_name="ratings"
    )
    rater = models.CharField(
        max_length=200, blank=True, help_text=_("The rater's name in imported data, if any.")
    )
    external_id = models.CharField(max_length=200, blank=True)
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="ratings")
    answers = models.JSONField(default=dict)
    comment = models.TextField(blank=True)
    submitted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "participant"],
                condition=Q(participant__isnull=False),
                name="rating_once_each",
            ),
            models.UniqueConstraint(
                fields=["conversation", "external_id"],
                condition=~Q(external_id=""),
                name="rating_import_once",
            ),
        ]

    def __str__(self) -> str:
        return f"rating of {self.conversation_id}"
