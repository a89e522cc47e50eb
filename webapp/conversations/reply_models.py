"""Reports of replies by participants, and labels by filters."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.studies.models import Item, Participant


class ReplyReport(models.Model):
    """Report of a reply by a participant: a reply of a conversation, or one of an item's replies.

    There is one for each participant and reply.
    """

    class Reason(models.TextChoices):
        HURTFUL = "hurtful", _("It is hurtful or hateful")
        SEXUAL = "sexual", _("It is sexual")
        DANGEROUS = "dangerous", _("It could put somebody in danger")
        PRIVATE = "private", _("It gives away private data")
        OTHER = "other", _("Something else")

    MOST_CHARS = 1000

    participant = models.ForeignKey(
        Participant, on_delete=models.CASCADE, related_name="reply_reports"
    )
    # By name: turns are declared in the module that imports this one.
    turn = models.ForeignKey(
        "conversations.Turn",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="reports",
    )
    item = models.ForeignKey(
        Item, null=True, blank=True, on_delete=models.CASCADE, related_name="reports"
    )
    response = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text=_("Which of the item's replies, from 0.")
    )
    reason = models.CharField(max_length=20, choices=Reason)
    words = models.TextField(blank=True, help_text=_("The person's own."))
    created_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    seen_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(turn__isnull=False, item=None, response=None)
                | Q(turn=None, item__isnull=False, response__isnull=False),
                name="report_of_one_reply",
            ),
            models.CheckConstraint(
                condition=Q(reason__in=["hurtful", "sexual", "dangerous", "private", "other"]),
                name="report_reason_known",
            ),
            models.UniqueConstraint(
                fields=["participant", "turn"],
                condition=Q(turn__isnull=False),
                name="report_turn_once",
            ),
            models.UniqueConstraint(
                fields=["participant", "item", "response"],
                condition=Q(item__isnull=False),
                name="report_item_once",
            ),
        ]
        indexes = [
            models.Index(fields=["participant"], condition=Q(seen_at=None), name="report_not_seen")
        ]

    def __str__(self) -> str:
        return f"{self.reason} by {self.participant_id}"


class ReplyMark(models.Model):
    """Label of a filter on a reply; one for each filter and reply."""

    turn = models.ForeignKey("conversations.Turn", on_delete=models.CASCADE, related_name="marks")
    filter = models.CharField(max_length=50)
    identity = models.JSONField(help_text=_("The filter's name, version and settings."))
    found = models.JSONField(
        default=list, help_text=_("The words that were found, if it names any.")
    )
    reason = models.CharField(max_length=500, help_text=_("For staff, in words."))
    is_withheld = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["turn", "filter"], name="mark_once_each_filter")
        ]
        indexes = [models.Index(fields=["filter"], name="mark_by_filter")]

    def __str__(self) -> str:
        return f"{self.filter}: {self.reason}"
