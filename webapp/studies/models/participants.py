"""Records about participants next to their work: recruitment, progress, quiz, practice, erasure.

Other modules import them from `webapp.studies.models`. Only the live page reads the tables of progress: no
participant's flow depends on them.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class PlatformIds(models.Model):
    """A platform's ids of a participant, kept apart from all their work because the ids identify them."""

    participant = models.OneToOneField("studies.Participant", on_delete=models.CASCADE, related_name="platform_ids")
    # Both are the participant's own, here for the constraint.
    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="platform_ids")
    platform = models.CharField(max_length=20, blank=True)
    external_id = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(default=dict, blank=True, help_text=_("Of the newest link they came by."))

    class Meta:
        verbose_name = _("ids on a recruitment platform")
        verbose_name_plural = _("ids on recruitment platforms")
        constraints = [
            models.UniqueConstraint(
                fields=["study", "platform", "external_id"], condition=~Q(external_id=""), name="platform_ids_unique"
            )
        ]

    def __str__(self) -> str:
        return str(self.participant_id)


class OneTimeLink(models.Model):
    """A link that one person may use, of a list that a researcher made. Who used it is in `PlatformIds`."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="one_time_links")
    number = models.PositiveIntegerField(help_text=_("In the study."))
    batch = models.PositiveIntegerField(help_text=_("Which list of the study it is in."))
    label = models.CharField(max_length=100, blank=True, help_text=_("Of its list."))
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("one-time link")
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="one_time_link_unique")]
        indexes = [models.Index(fields=["study", "batch"], name="one_time_link_batch")]

    def __str__(self) -> str:
        return str(self.number)


class LinkCount(models.Model):
    """Number of times that a study's link was opened on one day; it holds nothing about a person."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="link_counts")
    day = models.DateField()
    is_synthetic = models.BooleanField(default=False, help_text=_("By the link of a rehearsal."))
    refused = models.CharField(
        max_length=20, blank=True, help_text=_("Why nobody could begin there; empty where somebody could.")
    )
    n = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "day", "is_synthetic", "refused"], name="link_count_once_each")
        ]

    def __str__(self) -> str:
        return f"{self.study_id}/{self.day}: {self.n}"


class Whereabouts(models.Model):
    """The step of its protocol that a task's person has come to."""

    task = models.OneToOneField("studies.Task", on_delete=models.CASCADE, primary_key=True, related_name="whereabouts")
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


class QuizAttempt(models.Model):
    """A participant's answers to the quiz about the instructions, at one of two attempts; they never change."""

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="quiz_attempts")
    quiz = models.CharField(max_length=32, help_text=_("Digest of the questions."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("[{question, answer, is_right}]"))
    is_right = models.BooleanField(help_text=_("All of them."))
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(fields=["participant", "quiz", "attempt"], name="quiz_attempt_once"),
            models.CheckConstraint(condition=Q(attempt__in=[1, 2]), name="quiz_attempt_first_or_second"),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.quiz}/{self.attempt}"


class TrainingAnswer(models.Model):
    """A participant's answer about a practice pair, at the first or second attempt; it never changes."""

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="training_answers")
    pair = models.CharField(max_length=32, help_text=_("Digest of the pair."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("{question: 1 the first, 0 the same, -1 the second}"))
    is_right = models.BooleanField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(fields=["participant", "pair", "attempt"], name="training_answer_once"),
            models.CheckConstraint(condition=Q(attempt__in=[1, 2]), name="training_attempt_first_or_second"),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.pair}/{self.attempt}"


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

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="breakages")
    task = models.ForeignKey("studies.Task", null=True, on_delete=models.CASCADE, related_name="breakages")
    reference = models.CharField(max_length=16)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.reference
