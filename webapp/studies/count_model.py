"""The table of how much is completed; other modules know it from `webapp.studies.models`."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class TaskCount(models.Model):
    """Number of completed tasks of a study: in all, or with one bot, item or conversation in a slot.

    A draw reads these counts and not all tasks. `task_complete` increments them; erasing participants counts
    again from scratch (`webapp/studies/counting.py`).
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="task_counts")
    is_synthetic = models.BooleanField(default=False)
    bot_id = models.CharField(max_length=100, blank=True)
    conversation = models.ForeignKey(
        "conversations.Conversation",
        null=True,
        on_delete=models.CASCADE,
        related_name="task_counts",
    )
    item = models.ForeignKey(
        "studies.Item", null=True, on_delete=models.CASCADE, related_name="task_counts"
    )
    n_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "is_synthetic", "bot_id"],
                condition=Q(conversation=None, item=None),
                name="task_count_of_bot",
            ),
            models.UniqueConstraint(
                fields=["conversation", "study", "is_synthetic"],
                condition=Q(conversation__isnull=False),
                name="task_count_of_conversation",
            ),
            models.UniqueConstraint(
                fields=["item", "is_synthetic"],
                condition=Q(item__isnull=False),
                name="task_count_of_item",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bot_id or self.item_id or self.conversation_id or 'all'}: {self.n_completed}"
