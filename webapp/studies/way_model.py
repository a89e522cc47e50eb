"""Tables of participants' progress through a study; other modules import them from `webapp.studies.models`.

Only the live room reads them: no participant's flow depends on them.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class LinkCount(models.Model):
    """Number of times that a study's link was opened on one day; it holds nothing about a person."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="link_counts")
    day = models.DateField()
    is_synthetic = models.BooleanField(default=False, help_text=_("By the link of a rehearsal."))
    refused = models.CharField(
        max_length=20,
        blank=True,
        help_text=_("Why nobody could begin there; empty where somebody could."),
    )
    n = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "day", "is_synthetic", "refused"], name="link_count_once_each"
            )
        ]

    def __str__(self) -> str:
        return f"{self.study_id}/{self.day}: {self.n}"


class Whereabouts(models.Model):
    """The step of its protocol that a task's person has come to."""

    task = models.OneToOneField(
        "studies.Task", on_delete=models.CASCADE, primary_key=True, related_name="whereabouts"
    )
    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="+")
    is_synthetic = models.BooleanField(default=False)
    step = models.CharField(max_length=30, help_text=_("Whose page they asked for last."))
    furthest = models.CharField(max_length=30, help_text=_("The last one they ever reached."))
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = _("whereabouts")
        indexes = [models.Index(fields=["study", "seen_at"], name="whereabouts_seen")]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.step}"
