"""Studies, their rubrics, the people in them and the bots given to each."""

from __future__ import annotations

import uuid

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from webapp.bots.selectors import bots_unpriced
from webapp.core.models import TimeStamped


class Rubric(TimeStamped):
    """Questions on one scale. Frozen by its first answer; an edit makes a new version."""

    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    low = models.FloatField(default=1, help_text=_("Smallest value of the scale."))
    high = models.FloatField(default=7, help_text=_("Largest value of the scale."))
    scale_inferred = models.BooleanField(
        default=False, help_text=_("The scale was read off imported ratings.")
    )
    frozen_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="rubric_version_unique"),
            models.CheckConstraint(condition=Q(low__lt=F("high")), name="rubric_low_below_high"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class Dimension(models.Model):
    """One question of a rubric, with the words at both ends of its scale."""

    rubric = models.ForeignKey(Rubric, on_delete=models.CASCADE, related_name="dimensions")
    key = models.CharField(
        max_length=50,
        validators=[
            RegexValidator(r"^[a-z][a-z0-9_]*$", _("Lower-case letters, digits and _.")),
            # The rating form has fields of these names.
            RegexValidator(
                r"^(comments|csrfmiddlewaretoken)$",
                _("This name is taken by the form; choose another."),
                inverse_match=True,
            ),
        ],
    )
    title = models.CharField(max_length=100)
    question = models.CharField(max_length=300)
    low_label = models.CharField(max_length=60, blank=True)
    high_label = models.CharField(max_length=60, blank=True)
    required = models.BooleanField(default=True)
    position = models.PositiveSmallIntegerField(default=0)
    low = models.FloatField(null=True, blank=True, help_text=_("Own scale, if not the rubric's."))
    high = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(fields=["rubric", "key"], name="dimension_key_unique")
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def scale(self) -> tuple[float, float]:
        """Smallest and largest value of this question."""
        low = self.rubric.low if self.low is None else self.low
        high = self.rubric.high if self.high is None else self.high
        return low, high


class Study(TimeStamped):
    """What people are asked to do, with which bots, and by which rules."""

    class State(models.TextChoices):
        DRAFT = "draft", _("Draft")
        COLLECTING = "collecting", _("Collecting")
        PAUSED = "paused", _("Paused")
        ENDED = "ended", _("Ended")

    key = models.SlugField(max_length=60, unique=True, help_text=_("In the participant link."))
    name = models.CharField(max_length=200, help_text=_("For researchers."))
    title = models.CharField(
        max_length=120, default="Chat with a chatbot", help_text=_("What participants read.")
    )
    state = models.CharField(max_length=20, choices=State, default=State.DRAFT)
    protocol = models.CharField(max_length=50, default="balanced")
    bots = models.JSONField(default=list, help_text=_("Bot ids; the order gives their marks."))
    rubric = models.ForeignKey(Rubric, on_delete=models.PROTECT, related_name="studies")

    min_exchanges = models.PositiveSmallIntegerField(default=5, validators=[MinValueValidator(1)])
    max_exchanges = models.PositiveSmallIntegerField(default=20, validators=[MinValueValidator(1)])
    max_message_chars = models.PositiveIntegerField(default=500)
    typing_chars_per_s = models.PositiveIntegerField(
        default=60,
        help_text=_("Pace of bots that know their whole text at once; 0: no pacing."),
    )
    n_conversations_wanted = models.PositiveIntegerField(
        default=0, help_text=_("Completed conversations aimed at; 0: no limit.")
    )
    max_conversations_per_participant = models.PositiveSmallIntegerField(
        default=0, help_text=_("0: once with every bot.")
    )
    max_cost = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_(
            "The most that replies of endpoint bots may cost here, in the currency of their prices in "
            "bots.yaml; empty: no cap."
        ),
    )
    seed = models.BigIntegerField(default=0)

    minutes = models.PositiveSmallIntegerField(default=8, help_text=_("Shown to participants."))
    payment = models.CharField(max_length=100, blank=True, help_text=_("E.g. “£1.40 per chat”."))
    organisation = models.CharField(max_length=200, blank=True)
    contact = models.EmailField(blank=True)
    promises_pay_on_failure = models.BooleanField(default=True)
    consent_points = models.TextField(
        default=(
            "You can stop at any time.\n"
            "We keep what you write, without your name.\n"
            "Do not write anything private about yourself or others."
        ),
        help_text=_("Short points shown before agreeing, one a line."),
    )
    consent_text = models.TextField(blank=True, help_text=_("The full form. Markdown."))
    instructions_text = models.TextField(
        default=(
            "Write as you would to a person you have just met.\n"
            "Talk about anything you like.\n"
            "Vote on replies with thumbs up or down as you go.\n"
            "When you have written enough messages, rate the chat."
        ),
        help_text=_("One point a line."),
    )
    thanks_text = models.TextField(default="Thank you for taking part.")
    completion_url = models.URLField(
        blank=True, help_text=_("Where Prolific sends people back; {code} is replaced.")
    )
    auto_return = models.BooleanField(default=False)
    frame_ancestors = models.CharField(
        max_length=300, blank=True, help_text=_("Origins that may show the study in a frame.")
    )
    is_imported = models.BooleanField(default=False, help_text=_("Made by an import."))
    bot_columns = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("What is known of the bots beside their ratings: numbers, factors, controls."),
    )

    class Meta:
        verbose_name_plural = "studies"
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(min_exchanges__lte=F("max_exchanges")),
                name="study_min_up_to_max_exchanges",
            )
        ]

    def __str__(self) -> str:
        return self.key

    def clean(self) -> None:
        """A cap needs the prices of every bot that it is to hold.

        Raises:
            ValidationError: naming the bots without prices, and what to add.
        """
        super().clean()
        if self.max_cost is None:
            return
        if unpriced := bots_unpriced(self.bots or []):
            raise ValidationError(
                {
                    "max_cost": _(
                        "The price of %(bots)s is unknown, so nobody can tell when a cap is reached. "
                        "Add price_in and price_out to its entry in bots.yaml (0 where it is free), or "
                        "take the cap out."
                    )
                    % {"bots": ", ".join(unpriced)}
                }
            )


class Participant(TimeStamped):
    """A person in one study: known by the session or by a signed token, never by name."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="participants")
    platform = models.CharField(max_length=20, blank=True, help_text=_("mturk, prolific, import."))
    external_id = models.CharField(max_length=200, blank=True)
    recruitment = models.JSONField(default=dict, blank=True)
    is_synthetic = models.BooleanField(default=False, help_text=_("A scripted participant."))
    consent_version = models.CharField(max_length=32, blank=True)
    consented_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "platform", "external_id"],
                condition=~Q(external_id=""),
                name="participant_external_id_unique",
            )
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def submission(self) -> str:
        """What the platform calls this visit: known to it and to this person alone."""
        return self.recruitment.get("SESSION_ID") or self.recruitment.get("assignmentId") or ""


class Assignment(TimeStamped):
    """One bot given to one participant, and the code they earn with it."""

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Bot failed")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        EXPIRED = "expired", _("Left")

    participant = models.ForeignKey(
        Participant, on_delete=models.CASCADE, related_name="assignments"
    )
    bot_id = models.CharField(max_length=100)
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    submission = models.CharField(
        max_length=200, blank=True, help_text=_("The platform's id of the visit it was given in.")
    )
    completion_code = models.CharField(max_length=20, null=True, blank=True, unique=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["bot_id", "state"])]
        constraints = [
            models.UniqueConstraint(
                fields=["participant"],
                condition=Q(state="open"),
                name="assignment_one_open_each",
            ),
            models.CheckConstraint(
                condition=~Q(state="completed") | Q(completion_code__isnull=False),
                name="assignment_completed_has_code",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bot_id} for {self.participant_id}"
