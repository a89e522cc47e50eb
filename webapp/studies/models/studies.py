"""Tables of studies: versions, consent texts and agreements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, OfProject, Project, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models.rubrics import Rubric
from webapp.studies.settings import StudyValues, ValuesField


class ClosedBy(models.TextChoices):
    """Closing rule by which a study closed itself."""

    PLANNED_NUMBER = "planned_number", _("the planned number was reached")
    BUDGET = "budget", _("one more participant could have exceeded the budget")
    DATE = "date", _("its last day was over")


class StudyVersion(models.Model):
    """Version of a study's questions and promises.

    Immutable once a participant has agreed to it.
    """

    study = models.ForeignKey("Study", on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    values: StudyValues = ValuesField()  # type: ignore[assignment]
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="study_versions")
    digest = models.CharField(max_length=32, help_text=_("Digest of all fields above."))
    author = models.CharField(max_length=150, blank=True, help_text=_("User who saved it; empty for a program."))
    saved_at = models.DateTimeField(null=True, blank=True, editable=False)
    frozen_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = DatabaseTimeField(auto_now_add=True)

    lines_told: Mapping[str, str] = MappingProxyType({})
    """Translations of Confab's lines, if this instance is set to a participant's language (`version_speak`)."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="study_version_unique")]

    def __str__(self) -> str:
        return str(self.number)


class StudyBaseManager(models.Manager["Study"]):
    """Manager of the studies of all projects.

    Each comes with its newest version, in one query.
    """

    def get_queryset(self) -> models.QuerySet[Study]:
        return super().get_queryset().select_related("version__rubric")


class StudyManager(ProjectManager["Study"]):
    """Manager of the studies of the active project.

    Each comes with its newest version, in one query.
    """

    def get_queryset(self) -> models.QuerySet[Study]:
        return super().get_queryset().select_related("version__rubric")


class Study(TimeStamped, OfProject):
    """Study: its identity, state and newest version.

    The version holds the participants' task, the bots and the rules.
    """

    class State(models.TextChoices):
        DRAFT = "draft", _("Draft")
        COLLECTING = "collecting", _("Collecting")
        PAUSED = "paused", _("Paused")
        ENDED = "ended", _("Ended")

    key = models.SlugField(max_length=60, unique=True, help_text=_("Part of the participant link."))
    name = models.CharField(max_length=200, help_text=_("Shown to researchers."))
    state = models.CharField(max_length=20, choices=State, default=State.DRAFT)
    protocol = models.CharField(max_length=50, default="chat")
    rule = models.CharField(_("assignment rule"), max_length=50, default="balanced")
    seed = models.BigIntegerField(default=0)
    version: StudyVersion = models.ForeignKey(  # type: ignore[assignment]
        StudyVersion,
        null=True,  # only until the first version is stored
        editable=False,
        on_delete=models.RESTRICT,
        related_name="+",
        help_text=_("Current version, which new tasks follow."),
    )
    ended_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text=_("Time at which the study was last closed.")
    )
    closed_by = models.CharField(
        max_length=20,
        blank=True,
        editable=False,
        choices=ClosedBy,
        help_text=_("Closing rule that closed the study last; empty if a researcher did."),
    )
    is_imported = models.BooleanField(default=False, help_text=_("Created by an import."))
    import_error = models.TextField(
        blank=True, editable=False, help_text=_("Error that stopped the import; empty if it finished.")
    )
    is_sequential = models.BooleanField(
        default=False,
        editable=False,
        help_text=_("Results were visible while the study was open, so the anytime-valid test is used."),
    )
    archived_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text=_("Time at which the study was archived and hidden from lists."),
    )
    bot_columns = models.JSONField(
        default=dict, blank=True, help_text=_("Data about the bots other than ratings: numbers, factors, controls.")
    )
    datasheet = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text=_("Researchers' answers in the human evaluation datasheet, by question number."),
    )

    offered_to = models.ForeignKey(
        Project,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text=_("Project that the study moves to as soon as an administrator there accepts it."),
    )

    objects: ClassVar[StudyManager] = StudyManager()
    everywhere: ClassVar[StudyBaseManager] = StudyBaseManager()

    class Meta:
        verbose_name_plural = "studies"
        ordering = ["-created_at"]
        base_manager_name = "everywhere"

    def __str__(self) -> str:
        return self.key

    @property
    def values(self) -> StudyValues:
        """Values of the newest version."""
        return self.version.values

    @property
    def agreed_values(self) -> StudyValues:
        """Values that the first participant agreed to, before any data.

        Without participants, the newest values.
        """
        first = self.versions.filter(frozen_at__isnull=False).order_by("number").first()
        return (first or self).values

    @property
    def bots(self) -> list[str]:
        """Ids of its bots; their order sets their marks."""
        return list(self.values.bots)

    @property
    def rubric(self) -> Rubric:
        """The questions of its newest version."""
        return self.version.rubric

    @property
    def rubric_id(self) -> int:
        """Primary key of the newest version's rubric."""
        return self.version.rubric_id


class StudyPlan(models.Model):
    """Plan of a study as it was when the study opened, or after a later change.

    Rows never change; the first one is the plan, and the later ones are deviations from it.
    """

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="plans")
    number = models.PositiveIntegerField()
    document = models.JSONField(help_text=_("The plan, as in `plan.json`."))
    digest = models.CharField(max_length=64, help_text=_("SHA-256 of the bytes of `plan.json`."))
    n_participants = models.PositiveIntegerField(help_text=_("People who had started by then."))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="study_plan_unique")]

    def __str__(self) -> str:
        return f"{self.study_id} {self.number}"


class StudyHelper(models.Model):
    """Judge or metric that helps to draw a study's items, with its scores of them.

    Rows never change, so that draws and estimates read the same scores. The newest one is in use.
    """

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="helpers")
    identity = models.CharField(max_length=300, help_text=_("Names and versions of the scores and uncertainties."))
    scores = models.JSONField(help_text=_("{item id: score}"))
    weights = models.JSONField(help_text=_("{item id: relative probability of being drawn}; the mean of a bot is 1"))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.identity


class ConsentText(models.Model):
    """Exact texts that participants agreed to.

    Equal texts are stored once.
    """

    digest = models.CharField(max_length=32, unique=True)
    texts = models.JSONField(help_text=_("{field of the study: its text or number}"))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("text agreed to")
        verbose_name_plural = _("texts agreed to")

    def __str__(self) -> str:
        return self.digest


class StudyAgreement(TimeStamped, OfProject):
    """Request of a project to name a study of another project in its settings, and the answer.

    It stores the key as typed, whether or not there is such a study, so that asking reveals nothing.
    """

    class State(models.TextChoices):
        """Answer of the study's project."""

        WAITING = "waiting", "Waiting"
        ACCEPTED = "accepted", "Accepted"
        DECLINED = "declined", "Declined or withdrawn"

    study_key = models.SlugField(max_length=60)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)

    class Meta:
        ordering = ["study_key", "project"]
        constraints = [models.UniqueConstraint(fields=["project", "study_key"], name="study_agreement_unique")]

    def __str__(self) -> str:
        return f"{self.project_id} about {self.study_key}: {self.state}"
