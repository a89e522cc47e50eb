"""Decisions about the pay of visits, and the platform's records of them.

No decision is overwritten: a revoked one stays, marked as revoked.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, TimeStamped
from webapp.studies.models import Participant, Study


class Decision(TimeStamped):
    """Decision about a visit: approval, rejection with a reason, or bonus.

    A visit is what a platform pays for: a participant and the platform's id of the visit (a session at
    Prolific, an assignment at Mechanical Turk), which is empty without a platform.
    """

    class Action(models.TextChoices):
        APPROVE = "approve", _("Approve")
        REJECT = "reject", _("Reject")
        BONUS = "bonus", _("Bonus")

    class State(models.TextChoices):
        DECIDED = "decided", _("Not sent yet")
        SENDING = "sending", _("Being sent")
        SENT = "sent", _("Sent")
        FAILED = "failed", _("Could not be sent")
        UNSURE = "unsure", _("May have been sent")
        UNDONE = "undone", _("Undone")

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="pay_decisions")
    submission = models.CharField(max_length=200, blank=True, help_text=_("Id of the visit."))
    asked = models.UUIDField(
        default=uuid.uuid4,
        unique=True,
        editable=False,
        help_text=_("Id of the submitted form, so that a form sent twice makes one decision."),
    )
    action = models.CharField(max_length=10, choices=Action)
    reason = models.TextField(blank=True, help_text=_("Reason shown to the participant."))
    category = models.CharField(max_length=30, blank=True, help_text=_("Rejection category, in the platform's terms."))
    amount = models.DecimalField(
        max_digits=8, decimal_places=2, null=True, blank=True, help_text=_("Amount of a bonus.")
    )
    state = models.CharField(max_length=10, choices=State, default=State.DECIDED)
    platform_ref = models.CharField(
        max_length=100, blank=True, help_text=_("The platform's id of a bonus that was set up.")
    )
    tried_at = models.DateTimeField(null=True, blank=True, help_text=_("When the last attempt to send it began."))
    error = models.CharField(max_length=500, blank=True, help_text=_("Why it could not be sent."))
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text=_("User who sent or undid the decision."),
    )
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("pay decision")
        verbose_name_plural = _("pay decisions")
        constraints = [
            models.UniqueConstraint(
                fields=["participant", "submission"],
                condition=Q(action__in=["approve", "reject"]) & ~Q(state="undone"),
                name="pay_decision_one_verdict",
            ),
            models.CheckConstraint(condition=~Q(action="reject") | ~Q(reason=""), name="pay_rejection_has_reason"),
            models.CheckConstraint(
                condition=(Q(action="bonus") & Q(amount__isnull=False, amount__gt=0))
                | (~Q(action="bonus") & Q(amount=None)),
                name="pay_bonus_has_amount",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["sent", "undone"], closed_at__isnull=False)
                | (~Q(state__in=["sent", "undone"]) & Q(closed_at=None)),
                name="pay_decision_closed_at",
            ),
        ]
        indexes = [
            models.Index(
                fields=["participant"],
                condition=Q(state__in=["decided", "sending", "failed", "unsure"]),
                name="pay_decision_to_send",
            )
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.participant_id}"

    @property
    def can_be_undone(self) -> bool:
        """True if it can be revoked: no participant or platform knows of it."""
        return self.state in (self.State.DECIDED, self.State.FAILED)

    @property
    def can_be_tried_again(self) -> bool:
        """True if sending it failed or had no known result."""
        return self.state in (self.State.FAILED, self.State.UNSURE)


class PlatformVisit(TimeStamped):
    """Platform's record of a visit, from its API or webhook."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="platform_visits")
    submission = models.CharField(max_length=200)
    status = models.CharField(max_length=30, help_text=_("Status in the platform's terms."))
    entered_code = models.CharField(
        max_length=100, blank=True, help_text=_("Code that the participant submitted to the platform.")
    )
    told_at = models.DateTimeField(help_text=_("When the platform reported it."))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["study", "submission"], name="platform_visit_once_each")]

    def __str__(self) -> str:
        return f"{self.submission}: {self.status}"


class HookEvent(models.Model):
    """Event received by a study's Prolific webhook, stored once."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="hook_events")
    event_id = models.CharField(
        max_length=100, help_text=_("Prolific's id of the event; the same when an event is repeated.")
    )
    signature = models.CharField(
        max_length=64, help_text=_("Signature of the request; the same signature under another event id is a replay.")
    )
    submission = models.CharField(max_length=200)
    status = models.CharField(max_length=30)
    sent_at = models.DateTimeField(help_text=_("When the request was signed."))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "event_id"], name="hook_event_once_each"),
            models.UniqueConstraint(fields=["study", "signature"], name="hook_event_no_replay"),
        ]

    def __str__(self) -> str:
        return f"{self.event_id}: {self.status}"
