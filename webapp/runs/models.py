"""Self-play runs, metric results and hybrid fits, and the state of the jobs behind them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.core.models import TimeStamped
from webapp.studies.models import Study


class Job(TimeStamped):
    """Long work: its state and how far it is. What remains is derived from the rows it makes."""

    class State(models.TextChoices):
        QUEUED = "queued", _("Waiting")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        CANCELLED = "cancelled", _("Stopped")
        FAILED = "failed", _("Failed")

    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    cancel_requested = models.BooleanField(default=False)
    n_total = models.PositiveIntegerField(default=0)
    n_done = models.PositiveIntegerField(default=0)
    holder = models.CharField(
        max_length=150, blank=True, help_text=_("The process at work on it: host:pid:token.")
    )
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        abstract = True

    @property
    def is_over(self) -> bool:
        """Nothing more will happen."""
        return self.state in (self.State.DONE, self.State.CANCELLED, self.State.FAILED)


class SelfPlayRun(Job):
    """Bots that converse with themselves or each other, by a plan frozen when the run is made."""

    name = models.CharField(max_length=200, blank=True)
    plan = models.JSONField(
        help_text=_("bots, pairs, n_conversations, n_turns, seed, openers, metrics, identities.")
    )

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk}"


class SelfPlayConversation(models.Model):
    """One conversation of a run; unique on run, bots and ordinal, so a slice may be done twice.

    `bot_id` has the bot's side, which is the conversation's bot; `partner_bot_id` the side that begins,
    and is empty where a bot converses with itself.
    """

    run = models.ForeignKey(SelfPlayRun, on_delete=models.CASCADE, related_name="conversations")
    bot_id = models.CharField(max_length=100)
    partner_bot_id = models.CharField(max_length=100, blank=True)
    partner = models.ForeignKey(
        BotVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    ordinal = models.PositiveIntegerField()
    conversation = models.OneToOneField(
        Conversation, null=True, on_delete=models.CASCADE, related_name="selfplay"
    )
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "bot_id", "partner_bot_id", "ordinal"],
                name="selfplay_ordinal_unique",
            )
        ]

    def __str__(self) -> str:
        both = f"{self.partner_bot_id}>{self.bot_id}" if self.partner_bot_id else self.bot_id
        return f"{self.run_id}/{both}/{self.ordinal}"


class MetricVersion(TimeStamped):
    """One row per metric identity ever used."""

    key = models.CharField(max_length=32, unique=True)
    name = models.CharField(max_length=100, db_index=True)
    version = models.CharField(max_length=50)
    params = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.name} ({self.version})"


class MetricResult(TimeStamped):
    """What one metric found in one conversation; null where undefined, with the reason."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="metric_results"
    )
    metric = models.ForeignKey(MetricVersion, on_delete=models.PROTECT, related_name="results")
    values = models.JSONField(default=dict, help_text=_("{column: number or null}"))
    turns = models.JSONField(default=dict, help_text=_("{column: [number or null per turn]}"))
    reasons = models.JSONField(default=dict, help_text=_("{column: why it is null}"))

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "metric"], name="metric_result_unique")
        ]

    def __str__(self) -> str:
        return f"{self.metric_id} of {self.conversation_id}"


class MetricRun(Job):
    """Metrics for every conversation of a study or of a self-play run that has none yet."""

    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE)
    run = models.ForeignKey(SelfPlayRun, null=True, blank=True, on_delete=models.CASCADE)
    metrics = models.JSONField(default=list)
    languages = models.JSONField(
        default=dict, help_text=_("{language: how many of its conversations read as that}")
    )

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"metrics {self.pk}"


class HybridFit(Job):
    """A leave-bot-out fit: what was asked, and the whole result with every identity used."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="hybrid_fits")
    train_study = models.ForeignKey(
        Study, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    run = models.ForeignKey(SelfPlayRun, null=True, blank=True, on_delete=models.SET_NULL)
    request = models.JSONField(
        help_text=_("targets, preset, intercept, features, seed, excluded bots.")
    )
    result = models.JSONField(
        null=True, blank=True, help_text=_("The document that `fit_hybrid --json` prints.")
    )
    kept = models.JSONField(
        null=True, blank=True, help_text=_("The fit alone, to apply it without its data.")
    )
    predictions = models.JSONField(
        default=dict, blank=True, help_text=_("Per rated conversation: bot, target, predicted.")
    )
    identities = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"fit {self.pk}"
