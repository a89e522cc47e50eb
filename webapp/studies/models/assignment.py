"""Tables for assignment: items, counts of completed work, and orders of bots.

Other modules import them from `webapp.studies.models`.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import TimeStamped


class Item(TimeStamped):
    """Item that participants judge: replies to a context, with or without a reference.

    Attention checks, gold items and repeated items are items too, so that nothing distinguishes them from the
    others; no result counts them.
    """

    class Purpose(models.TextChoices):
        JUDGED = "", _("Judged")
        CHECK = "check", _("Attention check")
        GOLD = "gold", _("Has a known right answer")
        REPEAT = "repeat", _("Another item once more")
        QUESTION = "question", _("Stands for the question itself")

    UNCOUNTED = (Purpose.CHECK, Purpose.GOLD, Purpose.REPEAT)
    """What people judge besides, for checks."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="items")
    key = models.CharField(max_length=200, help_text=_("Its name in the study."))
    context = models.JSONField(default=list, help_text=_("Utterances, oldest first."))
    responses = models.JSONField(help_text=_("[{model, text}]"))
    # Null differs from an empty reference.
    reference = models.TextField(  # noqa: DJ001
        null=True, blank=True, help_text=_("A reply written by a person.")
    )
    reference_score = models.FloatField(null=True, blank=True, help_text=_("How the reference was rated before."))
    task = models.CharField(
        max_length=50,
        blank=True,
        help_text=_("What kind of talk it is from (chitchat, persona); some questions are for one kind alone."),
    )
    panel = models.JSONField(
        default=dict, blank=True, help_text=_("What is shown beside: {persona: [lines], emotion, topic}")
    )
    purpose = models.CharField(max_length=10, choices=Purpose, blank=True, default="")
    expected = models.JSONField(
        default=dict, blank=True, help_text=_("Of a check or a gold item: {question: [answers that pass]}")
    )
    original = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="repeats",
        help_text=_("Of an item that is shown once more: the one it is like."),
    )
    conversation = models.ForeignKey(
        "conversations.Conversation",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="items",
        help_text=_("Whose words it holds; it goes with it."),
    )
    origin = models.JSONField(default=dict, blank=True, help_text=_("How it was drawn: place, seed, filters, bots."))
    digest = models.CharField(
        max_length=32, blank=True, editable=False, help_text=_("Of the texts of one that was drawn.")
    )

    class Meta:
        indexes = [models.Index(fields=["study", "digest"], name="item_digest")]
        constraints = [models.UniqueConstraint(fields=["study", "key"], name="item_key_unique")]

    def __str__(self) -> str:
        return self.key


class TaskCount(models.Model):
    """Number of completed tasks of a study: in all, or with one bot, item or conversation in a slot.

    A draw reads these counts and not all tasks. `task_complete` increments them; erasing participants counts
    again from scratch (`webapp/studies/assignment/counterbalance.py`).
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="task_counts")
    is_synthetic = models.BooleanField(default=False)
    bot_id = models.CharField(max_length=100, blank=True)
    conversation = models.ForeignKey(
        "conversations.Conversation", null=True, on_delete=models.CASCADE, related_name="task_counts"
    )
    item = models.ForeignKey("studies.Item", null=True, on_delete=models.CASCADE, related_name="task_counts")
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
                fields=["item", "is_synthetic"], condition=Q(item__isnull=False), name="task_count_of_item"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bot_id or self.item_id or self.conversation_id or 'all'}: {self.n_completed}"


class OrderState(models.Model):
    """State of the ranking of a study's bots, as a job computed it last.

    The rule `resolve` draws by it, and pages about a collecting study read it, because no request computes
    statistics.
    """

    study = models.OneToOneField("studies.Study", on_delete=models.CASCADE, related_name="order_state")
    found = models.JSONField(help_text=_("As `evaluation.analysis.leaderboard` has it."))
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
        return {"made_at": self.made_at.isoformat(), "n_ratings": self.n_ratings, "needs": self.needs}


class SequenceCount(models.Model):
    """Number of participants who completed a study's bots in this order, where each meets several bots."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="sequence_counts")
    is_synthetic = models.BooleanField(default=False)
    sequence = models.CharField(max_length=16, help_text=_("As `sequences.sequence_key` names it."))
    n_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "is_synthetic", "sequence"], name="sequence_count_unique")
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.n_completed}"
