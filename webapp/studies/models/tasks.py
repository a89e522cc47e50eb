"""Tables of participants and their tasks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models.participants import Item
from webapp.studies.models.studies import ConsentText, Study, StudyHelper, StudyVersion
from webapp.studies.recruitment.settings import submission_of

# Scripts cannot consent, and raters of imported data were not asked.
AGREED_BY_PEOPLE = Q(is_synthetic=False, consented_at__isnull=False)


class Participant(TimeStamped):
    """Participant of one study, known by a session or signed token.

    Names are not stored.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    study = models.ForeignKey(Study, on_delete=models.CASCADE, related_name="participants")
    platform = models.CharField(max_length=20, blank=True, help_text=_("mturk, prolific, panel, links, import."))
    entry_nonce = models.CharField(
        max_length=32, blank=True, editable=False, help_text=_("Nonce of the entry form that was used.")
    )
    is_synthetic = models.BooleanField(default=False, help_text=_("A scripted participant."))
    consent_version = models.CharField(max_length=32, blank=True)
    consent = models.ForeignKey(
        ConsentText,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="participants",
        help_text=_("Texts that were consented to; empty for participants from before they were stored."),
    )
    consented_at = models.DateTimeField(null=True, blank=True)
    language = models.CharField(
        max_length=20, blank=True, help_text=_("Language in which the study is read; empty for the study's own.")
    )
    n_moves = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text=_("Number of moves to another device; only the latest device can continue."),
    )
    move_nonce = models.CharField(
        max_length=32, blank=True, editable=False, help_text=_("Nonce of the link for the next move.")
    )
    withdrawn_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text=_("When all data were withdrawn after the end.")
    )
    n_new_answers = models.PositiveIntegerField(
        default=0, editable=False, help_text=_("Number of unread answers from the researchers.")
    )

    project_paths = ("study",)

    objects = ProjectManager()

    class Meta:
        constraints = [
            # A form submitted repeatedly stores one participant.
            models.UniqueConstraint(
                fields=["study", "entry_nonce"], condition=~Q(entry_nonce=""), name="participant_entry_nonce_unique"
            )
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def external_id(self) -> str:
        """The recruitment platform's id of the participant; empty without one."""
        return self.platform_ids.external_id if hasattr(self, "platform_ids") else ""

    @property
    def recruitment(self) -> dict[str, str]:
        """URL parameters of the participant's newest link."""
        return self.platform_ids.parameters if hasattr(self, "platform_ids") else {}

    @property
    def submission(self) -> str:
        """The platform's id of the newest visit.

        Only the platform and the participant know it.
        """
        panel_name = self.study.values.recruitment.visit_parameter
        return submission_of(self.recruitment, panel_name)


class QuestionAnswers(models.Model):
    """A participant's answers to the questions before tasks; immutable."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="question_answers")
    version = models.ForeignKey(StudyVersion, on_delete=models.RESTRICT, related_name="question_answers")
    answers = models.JSONField(help_text=_("{key: a text, a number, or a list of options}"))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "version"], name="question_answers_once_each")]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.version_id}"


class Outcome(models.TextChoices):
    """Outcome of a task for its participant."""

    RATED = "rated", _("Rated")
    BOT_FAILED = "bot_failed", _("Ended early, the chatbot failed")
    SCREENED_OUT = "screened_out", _("Screened out")
    FAILED_CHECK = "failed_check", _("Failed a check")
    NO_CONSENT = "no_consent", _("Did not agree")
    LATE = "late", _("Came too late for the part")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class Task(TimeStamped):
    """Unit of paid work; its slots contain the conversations or items."""

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Bot failed")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        EXPIRED = "expired", _("Left")
        ENDED = "ended", _("Ended before it was done")

    public_id = models.UUIDField(
        default=uuid.uuid4, unique=True, editable=False, help_text=_("Id in the URLs of its pages.")
    )
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="tasks")
    version = models.ForeignKey(
        StudyVersion,
        on_delete=models.RESTRICT,
        related_name="tasks",
        help_text=_("Version of the study that this task follows to its end."),
    )
    kind = models.CharField(max_length=50, help_text=_("Kind of task, for example “chat”."))
    payload = models.JSONField(
        default=dict, blank=True, help_text=_("Other values drawn by the protocol; they never change.")
    )
    sitting = models.CharField(
        max_length=40, blank=True, editable=False, help_text=_("Key of the part; empty without parts.")
    )
    drawn_by = models.JSONField(
        default=dict,
        blank=True,
        help_text=_("Identities of the protocol and the rule; empty for tasks from before they were stored."),
    )
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    outcome = models.CharField(
        max_length=20,
        choices=Outcome,
        blank=True,
        help_text=_("Empty while the task is open, and if it ended without an outcome (swapped, left)."),
    )
    submission = models.CharField(max_length=200, blank=True, help_text=_("The platform's id of the visit."))
    completion_code = models.CharField(max_length=20, null=True, blank=True, unique=True)
    told = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text=_("{code, link} shown at the end; placeholders in the link are not filled in."),
    )
    ended_at = models.DateTimeField(null=True, blank=True)
    drawn_slots: Sequence[Slot] = ()
    """Slots that were stored with this object; empty once the task is loaded again."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["participant"], condition=Q(state="open"), name="task_one_open_each"),
            models.UniqueConstraint(
                fields=["participant", "sitting"],
                condition=~Q(sitting="") & Q(state__in=["open", "completed", "ended"]),
                name="task_sitting_once",
            ),
            models.CheckConstraint(
                condition=~Q(state="completed") | Q(completion_code__isnull=False, outcome__in=["rated", "bot_failed"]),
                name="task_completed_has_code",
            ),
            models.CheckConstraint(
                condition=~Q(state="ended") | Q(outcome__in=["screened_out", "failed_check", "no_consent", "late"]),
                name="task_ended_has_outcome",
            ),
            models.CheckConstraint(
                condition=~Q(state="open") | Q(completion_code=None, outcome=""), name="task_open_has_no_outcome"
            ),
        ]
        indexes = [
            # Reservations are few among all tasks.
            models.Index(fields=["created_at"], condition=Q(state="open"), name="task_open_since"),
            # Current participants, pace of work, and failures.
            models.Index(fields=["updated_at"], condition=Q(state="open"), name="task_open_touched"),
            models.Index(fields=["ended_at"], condition=Q(outcome="rated"), name="task_rated_at"),
            models.Index(fields=["participant"], condition=Q(outcome="bot_failed"), name="task_bot_failed"),
            models.Index(fields=["participant"], condition=Q(state="failed"), name="task_lost"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} for {self.participant_id}"

    @property
    def bot_ids(self) -> list[str]:
        """Ids of the bots that chat in this task, in order."""
        return [slot.bot_id for slot in self.slots.all() if slot.bot_id]


class Slot(models.Model):
    """Assignment unit of a task: a chat, a stored conversation or an item.

    Two consecutive slots with different sides are a pair, compared with each other.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="slots")
    order = models.PositiveSmallIntegerField(default=0)
    side = models.CharField(max_length=10, blank=True)  # empty for a single slot
    bot_id = models.CharField(max_length=100, blank=True)
    # By name: the app of conversations is above this one and refers to slots itself.
    conversation = models.ForeignKey(
        "conversations.Conversation", null=True, blank=True, on_delete=models.CASCADE, related_name="judged_in"
    )
    item = models.ForeignKey(Item, null=True, blank=True, on_delete=models.CASCADE, related_name="slots")
    is_flipped = models.BooleanField(default=False, help_text=_("The item's replies were shown in reverse order."))
    condition = models.JSONField(
        default=dict, blank=True, editable=False, help_text=_("{factor: level} of the chat; empty without factors.")
    )
    probability = models.FloatField(
        null=True, blank=True, editable=False, help_text=_("Probability that the participant's task has the item.")
    )
    weight = models.FloatField(
        null=True,
        blank=True,
        editable=False,
        help_text=_("Weight of the item's rating in estimates; 1 if all are alike."),
    )
    helper = models.ForeignKey(
        StudyHelper,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.RESTRICT,
        related_name="slots",
        help_text=_("The helper by whose scores the item was drawn; empty if all items were equally likely."),
    )

    class Meta:
        ordering = ["task", "order"]
        indexes = [models.Index(fields=["bot_id"], name="slot_bot")]
        constraints = [
            models.UniqueConstraint(fields=["task", "order"], name="slot_order_unique"),
            models.CheckConstraint(
                condition=(~Q(bot_id="") & Q(conversation=None, item=None))
                | Q(bot_id="", conversation__isnull=False, item=None)
                | Q(bot_id="", conversation=None, item__isnull=False),
                name="slot_one_target",
            ),
            models.CheckConstraint(
                condition=Q(probability=None, weight=None, helper=None)
                # A comparison with null is unknown, which a constraint lets pass.
                | Q(probability__isnull=False, weight__isnull=False, item__isnull=False)
                & Q(probability__gt=0, probability__lte=1, weight__gt=0),
                name="slot_probability_valid",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.order}"
