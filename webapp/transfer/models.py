"""Shared reports, reviews of personal data, imported files and saved mappings."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.models import OfProject, TimeStamped
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


class RedactionReview(models.Model):
    """Review of a study's texts for personal data, before publication."""

    study = models.OneToOneField(Study, on_delete=models.CASCADE, related_name="redaction")
    names = models.TextField(blank=True, help_text=_("Names to find, one a line."))
    model = models.CharField(max_length=100, blank=True, help_text=_("spaCy model that finds names, if any."))
    n_texts = models.PositiveIntegerField(default=0, help_text=_("Texts read by the last search."))
    searched_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When a person finished the review; empty again after new texts or hits.")
    )

    project_paths = ("study",)

    objects = ProjectManager()

    def __str__(self) -> str:
        return str(self.study_id)


class RedactionHit(models.Model):
    """Personal data in one text, and the decision about it.

    It stores no text: digests are keyed with the server's secret. It is deleted with the row that holds the text.
    """

    class Decision(models.TextChoices):
        """Decision of a person; undecided hits are replaced."""

        UNDECIDED = "", _("Undecided")
        REPLACE = "replace", _("Replace")
        KEEP = "keep", _("Keep")

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="redaction_hits")
    turn = models.ForeignKey("conversations.Turn", null=True, on_delete=models.CASCADE, related_name="+")
    rating = models.ForeignKey("ratings.Rating", null=True, on_delete=models.CASCADE, related_name="+")
    answers = models.ForeignKey("studies.QuestionAnswers", null=True, on_delete=models.CASCADE, related_name="+")
    item = models.ForeignKey("studies.Item", null=True, on_delete=models.CASCADE, related_name="+")
    text_digest = models.CharField(max_length=32)
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    kind = models.CharField(max_length=10)
    value_digest = models.CharField(max_length=32, help_text=_("Equal for equal values of the study."))
    number = models.PositiveIntegerField(help_text=_("Number of the value in its placeholder."))
    decision = models.CharField(max_length=7, choices=Decision, blank=True, default="")

    project_paths = ("study",)

    objects = ProjectManager()

    class Meta:
        ordering = ["kind", "number", "pk"]
        indexes = [
            models.Index(fields=["study", "kind", "number", "id"], name="redaction_hit_listed"),
            models.Index(fields=["study", "decision"], name="redaction_hit_decided"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(turn__isnull=False)
                ^ models.Q(rating__isnull=False)
                ^ models.Q(answers__isnull=False)
                ^ models.Q(item__isnull=False),
                name="redaction_hit_of_one_row",
            )
        ]

    def __str__(self) -> str:
        return self.placeholder

    @property
    def placeholder(self) -> str:
        """Text that replaces the value in redacted exports."""
        return f"[{self.kind.upper()}_{self.number}]"


class ImportMapping(OfProject, TimeStamped):
    """Mapping of a file's speakers, columns and fields, saved for further files."""

    name = models.CharField(max_length=80)
    mapping = models.JSONField(help_text=_("As `FileMapping.as_dict`."))

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="import_mapping_name")]

    def __str__(self) -> str:
        return self.name


class ImportedFile(TimeStamped):
    """Origin of a file that was imported into a study."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="imported_files")
    name = models.CharField(max_length=200)
    licence = models.CharField(max_length=200, blank=True)
    source = models.CharField(max_length=500, blank=True, help_text=_("Address or citation."))
    mapping = models.JSONField(default=dict)
    losses = models.JSONField(default=dict, help_text=_("{format: what its import leaves out}"))

    project_paths = ("study",)

    objects = ProjectManager()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["study", "name"], name="imported_file_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def left_out(self) -> str:
        """Sentence on the values that the import left out."""
        return "; ".join(f"{title}: {words}" for title, words in self.losses.items())

    def describe(self) -> str:
        """Return origin, licence and losses in sentences."""
        kind = "Scores of other programs" if "metrics" in self.mapping else "Data"
        facts = f"licence: {self.licence or 'not stated'}, source: {self.source or 'not stated'}"
        losses = f" Not imported ({self.left_out})." if self.losses else ""
        return f"{kind} imported from {self.name} ({facts}).{losses}"
