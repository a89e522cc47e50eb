"""Judges in development: split of their gold set, versions of the prompt, corrections that become examples."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import OfProject, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models import Study


class JudgeDevelopment(TimeStamped, OfProject):
    """Development of a judge on one question of one gold set, with a frozen split of its items."""

    study = models.ForeignKey(Study, null=True, on_delete=models.CASCADE, related_name="+")
    file = models.CharField(max_length=100, blank=True, help_text=_("Name of an uploaded file, without a study."))
    title = models.CharField(max_length=200, help_text=_("Name of the study or file."))
    question = models.CharField(max_length=200, blank=True, help_text=_("Key of the question; empty for the default."))
    most = models.PositiveIntegerField(help_text=_("Maximum number of items."))
    seed = models.CharField(max_length=32)
    test_share = models.FloatField(validators=[MinValueValidator(0.1), MaxValueValidator(0.9)])
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-id"]
        constraints = [
            # A second development could draw another split until the test looks good.
            models.UniqueConstraint(
                fields=["project", "study", "question"],
                condition=Q(study__isnull=False),
                name="judge_development_of_study",
            ),
            models.UniqueConstraint(
                fields=["project", "file", "question"], condition=~Q(file=""), name="judge_development_of_file"
            ),
            models.CheckConstraint(condition=Q(study__isnull=True) ^ Q(file=""), name="judge_development_has_one_set"),
            models.CheckConstraint(
                condition=Q(test_share__gte=0.1, test_share__lte=0.9), name="judge_development_has_both_parts"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.title}, {self.question}" if self.question else self.title


class JudgeItem(models.Model):
    """Item of a gold set with its part, and a researcher's correction of its score."""

    class Part(models.TextChoices):
        DEVELOPMENT = "development", _("Development")
        TEST = "test", _("Test")

    development = models.ForeignKey(JudgeDevelopment, on_delete=models.CASCADE, related_name="items")
    digest = models.CharField(max_length=16, help_text=_("Digest of the item's name and text."))
    key = models.CharField(max_length=500, help_text=_("Conversation, or name of the reply."))
    part = models.CharField(max_length=11, choices=Part)
    score = models.FloatField(null=True, help_text=_("Corrected score; null for an item that is no example."))
    reason = models.CharField(max_length=500, blank=True)
    corrected_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    project_paths = ("development",)
    objects = ProjectManager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["development", "digest"], name="judge_item_once"),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(part="development"), name="judge_example_is_no_test_item"
            ),
        ]

    def __str__(self) -> str:
        return self.key


class JudgeVersion(TimeStamped):
    """Version of a judge in development, which never changes.

    Its examples are corrected items. Their texts stay in the gold set; a version cannot score once one is erased.
    """

    development = models.ForeignKey(JudgeDevelopment, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    judge = models.CharField(max_length=200, help_text=_("Judge whose model and scale are used."))
    prompt = models.TextField()
    wording = models.TextField(help_text=_("Question as the judge reads it."))
    examples = models.ManyToManyField(JudgeItem, related_name="versions")
    n_examples = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64, help_text=_("Digest of model, parameters, prompt and examples."))
    n_test_looks = models.PositiveIntegerField(default=0, help_text=_("Number of times it scored the test items."))
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    project_paths = ("development",)
    objects = ProjectManager()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["development", "number"], name="judge_version_number_once"),
            models.UniqueConstraint(fields=["development", "digest"], name="judge_version_once"),
        ]

    def __str__(self) -> str:
        return f"Version {self.number}"
