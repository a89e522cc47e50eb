"""Tables of erasures and of failed pages; other modules import them from `webapp.studies.models`."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Erasure(models.Model):
    """Record of an erasure in a study: its time and amount, without any name or id of a participant."""

    class Kind(models.TextChoices):
        IDS = "ids", _("Recruitment ids, by the clock")
        TEXTS = "texts", _("Texts, by the clock")
        WITHDRAWN = "withdrawn", _("Withdrawn after the end")
        ASKED = "asked", _("Erased by staff")

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="erasures")
    kind = models.CharField(max_length=10, choices=Kind)
    n_people = models.PositiveIntegerField(help_text=_("Whom it was of."))
    removed = models.JSONField(default=dict, help_text=_("{table: rows}"))
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.n_people}"


class Breakage(models.Model):
    """A participant's page that failed on our server. The log has its reference, with the error."""

    participant = models.ForeignKey(
        "studies.Participant", on_delete=models.CASCADE, related_name="breakages"
    )
    task = models.ForeignKey(
        "studies.Task", null=True, on_delete=models.CASCADE, related_name="breakages"
    )
    reference = models.CharField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.reference
