"""Tables of studies: versions, rubrics, participants and tasks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, OfProject, Project, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models.participants import (
    Breakage,
    Erasure,
    Item,
    LinkCount,
    OneTimeLink,
    OrderState,
    ParticipantMessage,
    PlatformIds,
    QuizAttempt,
    SequenceCount,
    TaskCount,
    TrainingAnswer,
    Whereabouts,
)
from webapp.studies.recruitment.settings import submission_of
from webapp.studies.settings import StudyValues, ValuesField

__all__ = [
    "Breakage",
    "Erasure",
    "Item",
    "LinkCount",
    "OneTimeLink",
    "OrderState",
    "ParticipantMessage",
    "PlatformIds",
    "QuizAttempt",
    "SequenceCount",
    "TaskCount",
    "TrainingAnswer",
    "Whereabouts",
]

# Scripts cannot consent, and raters of imported data were not asked.
AGREED_BY_PEOPLE = Q(is_synthetic=False, consented_at__isnull=False)


class ClosedBy(models.TextChoices):
    """Closing rule by which a study closed itself."""

    PLANNED_NUMBER = "planned_number", _("the planned number was reached")
    BUDGET = "budget", _("one more participant could have exceeded the budget")
    DATE = "date", _("its last day was over")


class Rubric(TimeStamped):
    """Questions after a task, by default on one scale.

    The first answer freezes it; an edit creates a new version.
    """

    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    low = models.FloatField(default=1, help_text=_("Smallest value of the scale."))
    high = models.FloatField(default=7, help_text=_("Largest value of the scale."))
    scale_inferred = models.BooleanField(
        default=False, help_text=_("The scales of these questions were inferred from imported ratings.")
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
    """Question of a rubric, with labels for both ends of its scale."""

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
    labels = models.JSONField(default=dict, blank=True, help_text=_("{point of the scale: words at it}"))
    required = models.BooleanField(default=True)
    reversed = models.BooleanField(
        null=True,
        blank=True,
        default=None,
        help_text=_(
            "Yes: lower is better. Analyses reverse the answers; exports keep them as given. No: it is a good one. "
            "Unknown: answers count as they are."
        ),
    )
    position = models.PositiveSmallIntegerField(default=0)
    low = models.FloatField(null=True, blank=True, help_text=_("Own scale, if not the rubric's."))
    high = models.FloatField(null=True, blank=True)
    scale_inferred = models.BooleanField(
        default=False,
        help_text=_("The scale was inferred from imported ratings, so intervals are not cut off at its ends."),
    )

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["rubric", "key"], name="dimension_key_unique")]

    def __str__(self) -> str:
        return self.key

    @property
    def scale(self) -> tuple[float, float]:
        """Smallest and largest value of this question."""
        low = self.rubric.low if self.low is None else self.low
        high = self.rubric.high if self.high is None else self.high
        return low, high


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
        ]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.order}"


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
