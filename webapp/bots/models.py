"""One row per bot identity ever used, and the cost of paid bots."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, Incident, OfProject, TimeStamped


class BotVersion(TimeStamped):
    """Bot identity: name, version and parameters.

    Conversations refer to it, so rows never change.
    """

    key = models.CharField(max_length=32, unique=True, help_text="Digest of the identity.")
    bot_id = models.CharField(max_length=100, db_index=True)
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=50)
    version = models.CharField(max_length=50)
    params = models.JSONField(default=dict)
    is_control = models.BooleanField(default=False)

    class Meta:
        ordering = ["bot_id", "created_at"]

    def __str__(self) -> str:
        return f"{self.bot_id} ({self.version})"


class Secret(TimeStamped, OfProject):
    """Encrypted key that bots send to one address; never shown again."""

    name = models.CharField(max_length=64, unique=True)
    address = models.CharField(max_length=300, help_text=_("Scheme, host and port to which the secret can be sent."))
    sealed = models.TextField(help_text=_("Encrypted together with its name and address."))

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class DeclaredBot(TimeStamped, OfProject):
    """Bot added in the browser, with its secret.

    It is stored in the form of an entry in `bots.yaml`.
    """

    bot_id = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=50)
    title = models.CharField(max_length=200)
    params = models.JSONField(default=dict)
    secret = models.ForeignKey(Secret, null=True, blank=True, on_delete=models.PROTECT, related_name="bots")
    revision = models.PositiveIntegerField(
        default=1, help_text=_("Increased by every change, so that other processes notice it.")
    )
    archived_at = models.DateTimeField(null=True, blank=True)
    is_shared = models.BooleanField(default=False, help_text=_("All projects can use the bot."))

    shared_rows = Q(is_shared=True)

    class Meta:
        ordering = ["bot_id"]

    def __str__(self) -> str:
        return self.bot_id


class Spending(models.Model):
    """Account of the cost of replies: of a bot, a study, a run, or a project in one month.

    `spent_nano` includes the maximum cost of every running call, until the actual cost replaces it. A killed call keeps
    its maximum, since it may have been charged.
    """

    class Of(models.TextChoices):
        BOT = "bot", _("Bot")
        STUDY = "study", _("Study")
        RUN = "run", "Run of simulated participants"
        PROJECT = "project", "Project in one month"

    of = models.CharField(max_length=10, choices=Of)
    key = models.CharField(
        max_length=100, help_text=_("The bot's id, the number of the study or run, or the project's key and month.")
    )
    spent_nano = models.BigIntegerField(
        default=0, help_text=_("Billionths of the currency of the prices, as an integer so that sums are exact.")
    )
    n_calls = models.PositiveBigIntegerField(default=0)
    n_unpriced = models.PositiveBigIntegerField(default=0, help_text=_("Number of calls with an unknown price."))
    n_estimated = models.PositiveBigIntegerField(default=0, help_text=_("Number of calls with estimated tokens."))
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["of", "key"], name="spending_unique")]

    def __str__(self) -> str:
        return f"{self.of} {self.key}"

    @property
    def spent(self) -> float:
        """Amount spent, in the currency of the prices."""
        return self.spent_nano / NANO


class BotHealth(models.Model):
    """Health of a bot, updated by its replies to participants.

    There is a row for each bot that has been asked for a reply. A bot that keeps failing is disabled: it gets no new
    participants until a reply works.
    """

    bot_id = models.CharField(max_length=100, primary_key=True)
    answered_at = models.DateTimeField(null=True, blank=True, help_text=_("Time of the last reply, to the minute."))
    answer_s = models.FloatField(null=True, blank=True, help_text=_("Duration of that reply."))
    failed_at = models.DateTimeField(null=True, blank=True, help_text=_("Time of the last failure."))
    reason = models.CharField(max_length=500, blank=True, help_text=_("Reason of the last failure."))
    n_failed = models.PositiveIntegerField(default=0, help_text=_("Failures in a row, including the last one."))
    failed_since = models.DateTimeField(null=True, blank=True, help_text=_("First failure of this row."))
    failed_in = models.JSONField(default=list, help_text=_("First chats with these failures, without duplicates."))
    latest = models.JSONField(
        default=list,
        help_text=_(
            "Last replies, oldest first: the chat in which one failed, or an empty text; empty if none failed."
        ),
    )
    rejected_params = models.JSONField(
        default=list, blank=True, help_text=_("Request fields that the model rejected, and which are no longer sent.")
    )
    set_aside_at = models.DateTimeField(null=True, blank=True)
    try_at = models.DateTimeField(null=True, blank=True, help_text=_("When a bot host tests the bot again."))
    n_tries = models.PositiveIntegerField(default=0, help_text=_("Number of such tests so far."))

    class Meta:
        verbose_name_plural = _("bot health")

    def __str__(self) -> str:
        return f"{self.bot_id}: {self.n_failed} failures in a row"


class BotAside(models.Model):
    """Period in which a bot is disabled because its replies kept failing."""

    class EndedBy(models.TextChoices):
        REPLY = "reply", _("A reply that worked")
        PERSON = "person", _("Re-enabled by a user")

    bot_id = models.CharField(max_length=100)
    began_at = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True, help_text=_("Reason of the last failure."))
    n_failed = models.PositiveIntegerField(help_text=_("Number of replies that had failed."))
    of_n = models.PositiveIntegerField(
        default=0, help_text=_("Number of last replies among which they failed; 0 if they failed in a row.")
    )
    needs_person = models.BooleanField(default=False, help_text=_("Only a user can re-enable the bot."))
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=10, choices=EndedBy, blank=True)
    put_back_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        verbose_name = _("disabled bot")
        verbose_name_plural = _("disabled bots")
        ordering = ["-began_at"]
        constraints = [
            models.UniqueConstraint(fields=["bot_id"], condition=Q(ended_at=None), name="bot_aside_once_at_a_time"),
            models.CheckConstraint(
                condition=Q(ended_at=None, ended_by="") | (~Q(ended_at=None) & ~Q(ended_by="")),
                name="bot_aside_end_has_cause",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bot_id} since {self.began_at:%Y-%m-%d %H:%M}"


class Alert(models.Model):
    """Alert about a bot or the installation, one row per channel."""

    class Event(models.TextChoices):
        SET_ASIDE = "bot_set_aside", _("Disabled")
        CAME_BACK = "bot_came_back", _("Re-enabled")
        PROCESS_SILENT = "process_silent", _("Process silent")
        PROCESS_BACK = "process_back", _("Process running again")
        DISK_LOW = "disk_low", _("Disk nearly full")
        DISK_ENOUGH = "disk_enough", _("Disk space available again")
        QUEUE_STILL = "queue_still", _("Queue stuck")
        QUEUE_MOVES = "queue_moves", _("Queue running again")
        REDIS_AWAY = "redis_away", _("Redis does not respond")
        REDIS_BACK = "redis_back", _("Redis responds again")
        JOB_FAILED = "job_failed", _("Job failed")
        JOB_WENT_ON = "job_went_on", _("Job no longer failed")
        RESTORE_UNFINISHED = "restore_unfinished", _("Restore not finished")
        RESTORE_FINISHED = "restore_finished", _("Restore finished")
        CLOCK_OFF = "clock_off", _("Clock wrong")
        CLOCK_RIGHT = "clock_right", _("Clock right again")
        FOLDER_DIFFERS = "data_folder_differs", _("Data folder not shared")
        FOLDER_SHARED = "data_folder_shared", _("Data folder shared again")
        RETENTION_HELD = "retention_held", _("Retention held")
        RETENTION_RESUMED = "retention_resumed", _("Retention resumed")
        DISTRESS = "distress_marked", _("Message marked")
        STUDY_FULL = "study_full", _("Study full")
        STUDY_STUCK = "study_stuck", _("Study stuck")
        STUDY_SLOW = "study_slow", _("Study slow")
        STUDY_CLOSED = "study_closed", _("Study closed itself")
        AUDIT_BROKEN = "audit_broken", _("Audit log changed")
        AUDIT_INTACT = "audit_intact", _("Audit log intact again")
        JUDGE_DRIFTED = "judge_drifted", _("Judge drifted")
        TEST = "test", _("Test")

    class Channel(models.TextChoices):
        WEBHOOK = "webhook", _("Webhook")
        EMAIL = "email", _("E-mail")

    id = models.UUIDField(
        primary_key=True,
        default=uuid.uuid4,
        editable=False,
        help_text=_("Id sent with the alert, so that the receiver can recognise duplicates."),
    )
    aside = models.ForeignKey(BotAside, null=True, blank=True, on_delete=models.CASCADE, related_name="alerts")
    incident = models.ForeignKey(Incident, null=True, blank=True, on_delete=models.CASCADE, related_name="alerts")
    said = models.JSONField(default=dict, blank=True, help_text=_("Content of the alert, unless it is about a bot."))
    event = models.CharField(max_length=20, choices=Event)
    channel = models.CharField(max_length=10, choices=Channel)
    created_at = DatabaseTimeField(auto_now_add=True)
    tried_at = models.DateTimeField(null=True, blank=True, help_text=_("When the last attempt to send it began."))
    n_tries = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, help_text=_("Why it could not be sent."))

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["aside", "event", "channel"], name="alert_once_each"),
            models.UniqueConstraint(fields=["incident", "event", "channel"], name="alert_of_incident_once_each"),
        ]
        indexes = [models.Index(fields=["created_at"], condition=Q(sent_at=None), name="alert_not_sent_yet")]

    def __str__(self) -> str:
        subject = f" of {self.aside.bot_id}" if self.aside is not None else ""
        return f"{self.event}{subject} by {self.channel}"


NANO = 1_000_000_000
