"""Tables of how people come through a study; other modules know them from `webapp.studies.models`.

They are for the live room alone: nobody's way on depends on them.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class LinkOpening(models.Model):
    """A browser in which a study's link was opened; nothing in it says whose."""

    study = models.ForeignKey(
        "studies.Study", on_delete=models.CASCADE, related_name="link_openings"
    )
    browser = models.CharField(
        max_length=32,
        help_text=_("A digest of a random cookie, or random where there is none."),
    )
    is_synthetic = models.BooleanField(default=False, help_text=_("By the link of a rehearsal."))
    opened_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(help_text=_("When it was opened last."))
    answered_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When somebody there agreed, or did not.")
    )
    refused = models.CharField(
        max_length=20, blank=True, help_text=_("Why nobody could begin there when it was opened.")
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "browser"], name="link_opening_once_each")
        ]
        indexes = [
            models.Index(
                fields=["study", "seen_at"],
                condition=Q(answered_at=None),
                name="link_opening_unanswered",
            )
        ]

    def __str__(self) -> str:
        return f"{self.study_id}/{self.browser}"


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
