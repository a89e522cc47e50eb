"""Studies, their rubrics, the people in them, and the tasks they take on."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from webapp.bots.selectors import bots_unknown, bots_unpriced
from webapp.core.models import TimeStamped
from webapp.studies.frames import frame_origins
from webapp.studies.prolific import code_read, link_code
from webapp.studies.terms import changes_refused

# Scripts agree to nothing, and the raters of imported data were not asked.
AGREED_BY_PEOPLE = Q(is_synthetic=False, consented_at__isnull=False)


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
    reversed = models.BooleanField(
        default=False,
        help_text=_(
            "A high answer is a bad one. Analyses count it the other way round; exports keep it as given."
        ),
    )
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
    protocol = models.CharField(max_length=50, default="chat")
    rule = models.CharField(_("assignment rule"), max_length=50, default="balanced")
    bots = models.JSONField(
        default=list, blank=True, help_text=_("Bot ids; the order gives their marks.")
    )
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
    prolific_rated = models.CharField(
        _("Prolific code: rated"),
        max_length=200,
        blank=True,
        help_text=_("Prolific's code, or its completion link, for people who chatted and rated."),
    )
    prolific_bot_failed = models.CharField(
        _("Prolific code: chatbot failed"),
        max_length=200,
        blank=True,
        help_text=_("For people who ended early because the chatbot failed; empty: as rated."),
    )
    prolific_withdrawn = models.CharField(
        _("Prolific code: withdrawn"),
        max_length=200,
        blank=True,
        help_text=_(
            "For people who deleted their chat; empty: they are asked to return their place."
        ),
    )
    completion_url = models.URLField(
        _("completion link"),
        blank=True,
        help_text=_(
            "Where another platform takes people back; {code} is replaced by a code of Confab's own. "
            "Prolific's link may stand here too: its code is shown and none of ours."
        ),
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
        """Prolific's codes are read out of their links; whatever cannot be is told at once.

        Raises:
            ValidationError: with a sentence for each field that is wrong.
        """
        super().clean()
        before = Study.objects.filter(pk=self.pk).first() if self.pk else None
        errors = {
            **self._limits_wrong(),
            **self._frames_wrong(),
            **self._opening_wrong(before),
            **self._prolific_codes_wrong(),
        }
        if before is not None:
            n_agreed = self.participants.filter(AGREED_BY_PEOPLE).count()
            errors |= changes_refused(before, self, n_agreed=n_agreed)
        if errors:
            raise ValidationError(errors)

    def _limits_wrong(self) -> dict[str, Any]:
        errors: dict[str, Any] = {}
        low, high = self.min_exchanges, self.max_exchanges
        if low is not None and high is not None and low > high:
            errors["min_exchanges"] = _(
                "At least %(low)d and at most %(high)d exchanges cannot be. Lower this number, or raise "
                "the other."
            ) % {"low": low, "high": high}
        if self.max_cost is not None and (unpriced := bots_unpriced(self.bots or [])):
            errors["max_cost"] = _(
                "The price of %(bots)s is unknown, so nobody can tell when a cap is reached. "
                "Add price_in and price_out to its entry in bots.yaml (0 where it is free), or "
                "take the cap out."
            ) % {"bots": ", ".join(unpriced)}
        return errors

    def _frames_wrong(self) -> dict[str, Any]:
        _origins, wrong = frame_origins(self.frame_ancestors or "")
        if not wrong:
            return {}
        return {
            "frame_ancestors": _(
                "“%(word)s” is no origin. Write each as https:// and a host, for example "
                "https://survey.example.org, with spaces between them."
            )
            % {"word": wrong[0]}
        }

    def _opening_wrong(self, before: Study | None) -> dict[str, Any]:
        """A study opens with bots that are here; one that goes on may lose a bot meanwhile."""
        was_open = before is not None and before.state == self.State.COLLECTING
        if self.state != self.State.COLLECTING or (was_open and before.bots == self.bots):  # type: ignore[union-attr]
            return {}
        if not self.bots:
            return {
                "bots": _("A study needs a bot to collect with. Choose one, or leave it a draft.")
            }
        unknown = bots_unknown(self.bots)
        return {"bots": " ".join(unknown)} if unknown else {}

    def _prolific_codes_wrong(self) -> dict[str, str]:
        """Keep codes only, each for one outcome: Prolific tells the outcomes apart by them."""
        errors: dict[str, str] = {}
        field_of: dict[str, str] = {}
        for field in ("prolific_rated", "prolific_bot_failed", "prolific_withdrawn"):
            try:
                code = code_read(getattr(self, field))
            except ValueError as error:
                errors[field] = str(error)
                continue
            setattr(self, field, code)
            if code and code in field_of:
                errors[field] = _(
                    "%(code)s is the code of another outcome already. Make one for each in Prolific."
                ) % {"code": code}
            field_of.setdefault(code, field)
        of_link = link_code(self.completion_url)
        if of_link and self.prolific_rated and of_link != self.prolific_rated:
            errors["completion_url"] = _(
                "This link says %(link)s, and the code for people who rated is %(code)s. Take one out."
            ) % {"link": of_link, "code": self.prolific_rated}
        return errors


class ConsentText(models.Model):
    """The exact texts that people agreed to, once for all who agreed to the same."""

    digest = models.CharField(max_length=32, unique=True)
    texts = models.JSONField(help_text=_("{field of the study: its text or number}"))
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("text agreed to")
        verbose_name_plural = _("texts agreed to")

    def __str__(self) -> str:
        return self.digest


class Participant(TimeStamped):
    """A person in one study: known by the session or by a signed token, never by name."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="participants")
    platform = models.CharField(max_length=20, blank=True, help_text=_("mturk, prolific, import."))
    external_id = models.CharField(max_length=200, blank=True)
    recruitment = models.JSONField(default=dict, blank=True)
    entry_nonce = models.CharField(
        max_length=32, blank=True, editable=False, help_text=_("Of the entry form they came by.")
    )
    is_synthetic = models.BooleanField(default=False, help_text=_("A scripted participant."))
    consent_version = models.CharField(max_length=32, blank=True)
    consent = models.ForeignKey(
        ConsentText,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="participants",
        help_text=_("What they agreed to; none where it was not kept yet."),
    )
    consented_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "platform", "external_id"],
                condition=~Q(external_id=""),
                name="participant_external_id_unique",
            ),
            # However often one form is sent, one person has come.
            models.UniqueConstraint(
                fields=["study", "entry_nonce"],
                condition=~Q(entry_nonce=""),
                name="participant_entry_nonce_unique",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def submission(self) -> str:
        """What the platform calls this visit: known to it and to this person alone."""
        return self.recruitment.get("SESSION_ID") or self.recruitment.get("assignmentId") or ""


class Outcome(models.TextChoices):
    """How a task ended for the person in it."""

    RATED = "rated", _("Rated")
    BOT_FAILED = "bot_failed", _("Ended early, the chatbot failed")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class Task(TimeStamped):
    """A unit of work that a participant takes on and is paid for; its slots hold what is looked at."""

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Bot failed")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        EXPIRED = "expired", _("Left")

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="tasks")
    kind = models.CharField(max_length=50, help_text=_("What is done with the slots, e.g. “chat”."))
    payload = models.JSONField(
        default=dict, blank=True, help_text=_("What else the protocol drew; it never changes.")
    )
    drawn_by = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("Identities of the protocol and the rule; empty where they were not kept yet."),
    )
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    outcome = models.CharField(
        max_length=20,
        choices=Outcome,
        blank=True,
        help_text=_("Empty while it is open, and where it ended in nothing (swapped, left)."),
    )
    submission = models.CharField(
        max_length=200, blank=True, help_text=_("The platform's id of the visit it was given in.")
    )
    completion_code = models.CharField(max_length=20, null=True, blank=True, unique=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["participant"], condition=Q(state="open"), name="task_one_open_each"
            ),
            models.CheckConstraint(
                condition=~Q(state="completed")
                | Q(completion_code__isnull=False, outcome__in=["rated", "bot_failed"]),
                name="task_completed_has_code",
            ),
            models.CheckConstraint(
                condition=~Q(state="open") | Q(completion_code=None, outcome=""),
                name="task_open_has_no_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.participant_id}"

    @property
    def bot_ids(self) -> list[str]:
        """Ids of the bots that conversations are made with in this task, in their order."""
        return [slot.bot_id for slot in self.slots.all() if slot.bot_id]


class Item(TimeStamped):
    """Something stored that people judge: replies to a context, with or without a reference."""

    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="items")
    key = models.CharField(max_length=200, help_text=_("Its name in the study."))
    context = models.JSONField(default=list, help_text=_("Utterances, oldest first."))
    responses = models.JSONField(help_text=_("[{model, text}]"))
    reference = models.TextField(null=True, blank=True, help_text=_("A reply written by a person."))  # noqa: DJ001  none is not the same as an empty one

    class Meta:
        constraints = [models.UniqueConstraint(fields=["study", "key"], name="item_key_unique")]

    def __str__(self) -> str:
        return self.key


class Slot(models.Model):
    """One thing that is looked at in a task: a chat made with a bot, a stored conversation or an item."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="slots")
    order = models.PositiveSmallIntegerField(default=0)
    side = models.CharField(max_length=10, blank=True)  # empty if it is shown alone
    bot_id = models.CharField(max_length=100, blank=True)
    # By name: the app of conversations comes after this one and points at slots itself.
    conversation = models.ForeignKey(
        "conversations.Conversation",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="judged_in",
    )
    item = models.ForeignKey(
        Item, null=True, blank=True, on_delete=models.CASCADE, related_name="slots"
    )

    class Meta:
        ordering = ["task", "order"]
        indexes = [models.Index(fields=["bot_id"], name="slot_bot")]
        constraints = [
            models.UniqueConstraint(fields=["task", "order"], name="slot_order_unique"),
            models.UniqueConstraint(
                fields=["task", "side"], condition=~Q(side=""), name="slot_side_unique"
            ),
            models.CheckConstraint(
                condition=(~Q(bot_id="") & Q(conversation=None, item=None))
                | Q(bot_id="", conversation__isnull=False, item=None)
                | Q(bot_id="", conversation=None, item__isnull=False),
                name="slot_one_target",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.order}"
