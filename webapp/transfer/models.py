"""Reports shared by a link with readers without an account."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.models import TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models import Study


class SharedReport(TimeStamped):
    """Snapshot of a shared report.

    Only a digest of its token is stored.
    """

    class Ended(models.TextChoices):
        """Reasons why a link no longer works."""

        WITHDRAWN = "withdrawn", _("Withdrawn")
        ERASED = "erased", _("Ended because a participant's data were removed")

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="shared_reports")
    name = models.CharField(max_length=100, help_text=_("Recipient of the link."))
    digest = models.CharField(max_length=64, unique=True)
    document = models.BinaryField(help_text=_("Compressed JSON of the report; empty once the link has ended."))
    report_made_at = models.DateTimeField()
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended = models.CharField(max_length=10, choices=Ended, blank=True)

    project_paths = ("study",)

    objects = ProjectManager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name
