"""Records of how participants were recruited, kept apart from their work; a part of `models.py`."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class PlatformIds(models.Model):
    """A platform's ids of a participant, kept apart from all their work because the ids identify them."""

    participant = models.OneToOneField(
        "studies.Participant", on_delete=models.CASCADE, related_name="platform_ids"
    )
    # Both are the participant's own, here for the constraint.
    study = models.ForeignKey(
        "studies.Study", on_delete=models.CASCADE, related_name="platform_ids"
    )
    platform = models.CharField(max_length=20, blank=True)
    external_id = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(
        default=dict, blank=True, help_text=_("Of the newest link they came by.")
    )

    class Meta:
        verbose_name = _("ids on a recruitment platform")
        verbose_name_plural = _("ids on recruitment platforms")
        constraints = [
            models.UniqueConstraint(
                fields=["study", "platform", "external_id"],
                condition=~Q(external_id=""),
                name="platform_ids_unique",
            )
        ]

    def __str__(self) -> str:
        return str(self.participant_id)


class OneTimeLink(models.Model):
    """A link that one person may use, of a list that a researcher made. Who used it is in `PlatformIds`."""

    study = models.ForeignKey(
        "studies.Study", on_delete=models.CASCADE, related_name="one_time_links"
    )
    number = models.PositiveIntegerField(help_text=_("In the study."))
    batch = models.PositiveIntegerField(help_text=_("Which list of the study it is in."))
    label = models.CharField(max_length=100, blank=True, help_text=_("Of its list."))
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("one-time link")
        constraints = [
            models.UniqueConstraint(fields=["study", "number"], name="one_time_link_unique")
        ]
        indexes = [models.Index(fields=["study", "batch"], name="one_time_link_batch")]

    def __str__(self) -> str:
        return str(self.number)
