"""Jobs, their shards, and jobs with their own tables.

Self-play runs, metric results and hybrid fits have their own tables.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from webapp.bots.models import BotVersion
from webapp.conversations.models import Conversation
from webapp.core.models import OfProject, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models import Item, Study


class State(models.TextChoices):
    """State of a job or of a shard of it."""

    QUEUED = "queued", _("Waiting")
    RUNNING = "running", _("Running")
    DONE = "done", _("Done")
    CANCELLED = "cancelled", _("Stopped")
    FAILED = "failed", _("Failed")
    INTERRUPTED = "interrupted", _("Interrupted")


UNFINISHED = (State.QUEUED, State.RUNNING)


class Held(models.Model):
    """Work claimed by a process: its holder, progress and last heartbeat."""

    state = models.CharField(max_length=11, choices=State, default=State.QUEUED)
    holder = models.CharField(max_length=150, blank=True, help_text=_("Process holding the job, as host:pid:token."))
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    n_total = models.PositiveIntegerField(default=0)
    n_done = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True


class JobBase(Held, TimeStamped, OfProject):
    """Job of any kind: its parameters, state and progress.

    Workers hold its shards; the job itself is held only during planning and finishing.
    """

    State = State

    cancel_requested = models.BooleanField(default=False)
    inline = models.BooleanField(default=False, help_text=_("Run by a command and ignored by workers."))
    planned_at = models.DateTimeField(null=True, blank=True, help_text=_("When its shards were created."))
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    priority = models.SmallIntegerField(default=0, help_text=_("1 before other jobs in the queue, -1 after them."))
    note = models.CharField(
        max_length=200,
        blank=True,
        help_text=_("Progress message from the process holding the job, such as the training loss."),
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    # The name of the job's kind in `webapp.jobs.kinds`; a column of `Job`.
    kind: Any

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the job.

        A new job of a study belongs to the study's project.
        """
        study: Study | None = getattr(self, "study", None)
        if self._state.adding and study is not None:
            self.project_id = study.project_id
        super().save(*args, **kwargs)

    @property
    def is_over(self) -> bool:
        """True if the job will not continue by itself."""
        return self.state not in UNFINISHED

    @property
    def is_stopping(self) -> bool:
        """True if a stop was requested and is still pending."""
        return self.cancel_requested and not self.is_over

    @property
    def can_go_on(self) -> bool:
        """True if `job_restart` can resume the job."""
        return self.state in (State.FAILED, State.CANCELLED, State.INTERRUPTED)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters, parsed as the kind's `Payload`."""
        raise NotImplementedError


class Job(JobBase):
    """Job of a kind without its own table.

    A job with a `key` caches a result that is requested repeatedly, such as a page's analysis of a study's current
    data.
    """

    kind = models.CharField(max_length=100, db_index=True)
    payload = models.JSONField(default=dict, help_text=_("Parameters, validated by the job kind."))
    key = models.CharField(max_length=200, blank=True, help_text=_("Key of a stored result, derived from its inputs."))
    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE, related_name="jobs")
    result = models.JSONField(null=True, blank=True)
    starts_at = models.DateTimeField(
        null=True, blank=True, help_text=_("Workers start the job at this time at the earliest.")
    )

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "kind", "key"], condition=~models.Q(key=""), name="job_key_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def params(self) -> dict[str, Any]:
        return self.payload

    @property
    def n_skipped(self) -> int:
        """Number of rows of the imported file that were skipped."""
        if not isinstance(self.result, dict) or not isinstance(self.result.get("skipped"), list):
            return 0
        return int(self.result.get("n_skipped", len(self.result["skipped"])))


class Shard(Held):
    """Part of a job, processed by one process; deleted with the job's end.

    It fixes its batches and does not depend on earlier work of the process. A restarted shard starts from its
    beginning, so the results are the same on any worker.
    """

    kind = models.CharField(max_length=100)
    job_id = models.PositiveBigIntegerField(help_text=_("Id of the job in the table of its kind."))
    number = models.PositiveIntegerField()
    payload = models.JSONField(default=dict)
    result = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["kind", "job_id", "number"]
        constraints = [models.UniqueConstraint(fields=["kind", "job_id", "number"], name="shard_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.job_id}, shard {self.number}"


SELF_PLAY = models.Q(study=None, plan__participants__isnull=True)
"""Runs of bots alone, without simulated participants."""


class SelfPlayRun(JobBase):
    """Self-play or simulation run, whose plan is frozen at creation."""

    name = models.CharField(max_length=200, blank=True)
    plan = models.JSONField(help_text=_("bots, pairs, n_conversations, n_turns, seed, openers, metrics, identities."))

    then = models.JSONField(
        default=dict, blank=True, help_text=_("Steps that follow this job in its chain (see `jobs/services/fits.py`).")
    )

    study = models.ForeignKey(
        Study,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="simulations",
        help_text="Study whose participants are simulated; empty in self-play.",
    )

    kind = "selfplay"

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def is_simulated(self) -> bool:
        """True if participants are simulated, False for self-play."""
        return bool(self.plan.get("participants"))

    @property
    def file_name(self) -> str:
        """Prefix of its file names, and source of its conversations in exports."""
        return f"{'simulated' if self.is_simulated else 'selfplay'}-{self.pk}"

    @property
    def title(self) -> str:
        """The run's name, or its kind and number."""
        return self.name or f"{'Simulation' if self.is_simulated else 'Self-play'} {self.pk}"

    @property
    def params(self) -> dict[str, Any]:
        return self.plan


class SelfPlayConversation(models.Model):
    """Conversation of a run; unique by run, bots and ordinal.

    Uniqueness lets a slice be repeated safely.

    `bot_id` is the bot that is evaluated; `partner_bot_id` is the one that speaks first, empty for a bot that talks to
    itself. A simulated participant is stored in `partner_bot_id` with a prefix (`BotPair`).
    """

    run = models.ForeignKey(SelfPlayRun, on_delete=models.CASCADE, related_name="conversations")
    bot_id = models.CharField(max_length=100)
    partner_bot_id = models.CharField(max_length=150, blank=True)
    partner = models.ForeignKey(BotVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    ordinal = models.PositiveIntegerField()
    conversation = models.OneToOneField(Conversation, null=True, on_delete=models.CASCADE, related_name="selfplay")
    error = models.CharField(max_length=500, blank=True)
    sources = models.JSONField(
        default=list,
        blank=True,
        help_text="Ids of the chats its texts come from, starting with the one it takes place in.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "bot_id", "partner_bot_id", "ordinal"], name="selfplay_ordinal_unique"
            )
        ]

    def __str__(self) -> str:
        bot_names = f"{self.partner_bot_id}>{self.bot_id}" if self.partner_bot_id else self.bot_id
        return f"{self.run_id}/{bot_names}/{self.ordinal}"


class MetricVersion(TimeStamped):
    """One row per metric identity ever used."""

    key = models.CharField(max_length=32, unique=True)
    name = models.CharField(max_length=100, db_index=True)
    version = models.CharField(max_length=50)
    params = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.name} ({self.version})"


class MetricResult(TimeStamped):
    """Result of one metric for one conversation.

    Null where undefined, with the reason.
    """

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="metric_results")
    metric = models.ForeignKey(MetricVersion, on_delete=models.PROTECT, related_name="results")
    values = models.JSONField(default=dict, help_text=_("{column: number or null}"))
    turns = models.JSONField(default=dict, help_text=_("{column: [number or null per turn]}"))
    reasons = models.JSONField(default=dict, help_text=_("{column: reason for null}"))
    language = models.CharField(
        max_length=20,
        blank=True,
        default="",
        help_text=_(
            "Language of the conversation if the metric was skipped because it does not support that language."
        ),
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "metric"], name="metric_result_unique")]

    def __str__(self) -> str:
        return f"{self.metric_id} of {self.conversation_id}"


class ImportedMetric(TimeStamped, OfProject):
    """Metric whose values come from files of another program.

    Each import that changes a value increases the revision, which is the version of the metric's identity; the row of
    its version is updated.
    """

    class Direction(models.TextChoices):
        """Usually better direction of the values."""

        HIGHER = "higher", _("Higher values are better")
        LOWER = "lower", _("Lower values are better")
        NEITHER = "neither", _("Neither direction is better")

    name = models.CharField(max_length=60)
    title = models.CharField(max_length=100, help_text=_("Name in the file."))
    direction = models.CharField(max_length=7, choices=Direction, default=Direction.HIGHER)
    revision = models.PositiveIntegerField(default=1)
    version = models.OneToOneField(MetricVersion, on_delete=models.PROTECT, related_name="imported")
    licence = models.CharField(max_length=200, blank=True)
    source = models.CharField(max_length=500, blank=True, help_text=_("Address or citation."))

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="imported_metric_name")]

    def __str__(self) -> str:
        return self.title


class ItemScore(models.Model):
    """Value of an imported metric for an item of a study."""

    metric = models.ForeignKey(ImportedMetric, on_delete=models.CASCADE, related_name="item_scores")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="+")
    value = models.FloatField()

    project_paths = ("metric",)

    objects = ProjectManager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["metric", "item"], name="item_score_unique")]

    def __str__(self) -> str:
        return f"{self.metric_id} of item {self.item_id}"


class ResultTally(models.Model):
    """Change in the number of results of one metric version.

    The sum of `n` over a study is the number of its results.

    Only results of finished conversations count. Triggers keep it (`webapp.search.index`). Rows are added rather than
    updated, so that concurrent jobs on one study do not block each other; rebuilding the index leaves one row of each
    kind.
    """

    is_derived = True

    # No database constraint: deleting a study removes these rows first, and deleting its results then adds new ones.
    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    metric = models.PositiveBigIntegerField(help_text="Primary key of the metric version.")
    language = models.CharField(max_length=20, help_text="As in the result: empty if the metric was computed.")
    n = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.study_id}, {self.metric}: {self.n:+}"


class MetricRun(JobBase):
    """Job that computes missing metrics of a study or self-play run."""

    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE)
    run = models.ForeignKey(SelfPlayRun, null=True, blank=True, on_delete=models.CASCADE)
    metrics = models.JSONField(default=list)
    languages = models.JSONField(
        default=dict,
        help_text=_("{language: number of conversations detected as that language}, for jobs that skipped none"),
    )

    then = models.JSONField(
        default=dict, blank=True, help_text=_("Steps that follow this job in its chain (see `jobs/services/fits.py`).")
    )

    kind = "metrics"

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"metrics {self.pk}"

    @property
    def params(self) -> dict[str, Any]:
        return {"metrics": self.metrics}


class HybridFit(JobBase):
    """Leave-bot-out fit: its parameters and whole result with all identities used."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="hybrid_fits")
    train_study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    run = models.ForeignKey(SelfPlayRun, null=True, blank=True, on_delete=models.SET_NULL)
    request = models.JSONField(help_text=_("targets, preset, intercept, features, seed, excluded bots."))
    result = models.JSONField(null=True, blank=True, help_text=_("Output of `fit_hybrid --json`."))
    kept = models.JSONField(
        null=True, blank=True, help_text=_("The fit alone, so that it can be applied without its data.")
    )
    predictions = models.JSONField(
        default=dict, blank=True, help_text=_("Bot, target and prediction of each rated conversation.")
    )
    identities = models.JSONField(default=dict, blank=True)

    kind = "hybrid"

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"fit {self.pk}"

    @property
    def params(self) -> dict[str, Any]:
        return self.request
