"""Tables about participants apart from their work, and about assignment.

Recruitment, progress, quiz, practice and erasure; items, counts of completed work, and orders of bots. Other modules
import them from `webapp.studies.models`. Only the live page reads the tables of progress: no participant's flow
depends on them.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from webapp.core.models import DatabaseTimeField, TimeStamped

IMPORT_PLATFORM = "import"
"""Platform of participants who came with imported data."""


class PlatformIds(models.Model):
    """A platform's ids of a participant, which identify them.

    They are therefore stored apart from all their work.
    """

    participant = models.OneToOneField("studies.Participant", on_delete=models.CASCADE, related_name="platform_ids")
    # Both fields repeat the participant's, for the constraint.
    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="platform_ids")
    platform = models.CharField(max_length=20, blank=True)
    external_id = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(
        default=dict, blank=True, help_text=_("URL parameters of the latest link that was used.")
    )

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
    """Link that one person can use, from a researcher's list.

    `PlatformIds` stores who used it.
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="one_time_links")
    number = models.PositiveIntegerField(help_text=_("Number of the link in the study."))
    batch = models.PositiveIntegerField(help_text=_("Number of the link's list in the study."))
    label = models.CharField(max_length=100, blank=True, help_text=_("Label of its list."))
    created_at = DatabaseTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("one-time link")
        constraints = [models.UniqueConstraint(fields=["study", "number"], name="one_time_link_unique")]
        indexes = [models.Index(fields=["study", "batch"], name="one_time_link_batch")]

    def __str__(self) -> str:
        return str(self.number)


class LinkCount(models.Model):
    """Number of times that a study's link was opened on one day.

    It contains no personal data.
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="link_counts")
    day = models.DateField()
    is_synthetic = models.BooleanField(default=False, help_text=_("Entered through a rehearsal link."))
    refused = models.CharField(
        max_length=20, blank=True, help_text=_("Why entry was refused; empty if it was possible.")
    )
    n = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "day", "is_synthetic", "refused"], name="link_count_once_each")
        ]

    def __str__(self) -> str:
        return f"{self.study_id}/{self.day}: {self.n}"


class Whereabouts(models.Model):
    """Current step of a task's participant in the study's protocol."""

    task = models.OneToOneField("studies.Task", on_delete=models.CASCADE, primary_key=True, related_name="whereabouts")
    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="+")
    is_synthetic = models.BooleanField(default=False)
    step = models.CharField(max_length=30, help_text=_("Step of the latest requested page."))
    furthest = models.CharField(max_length=30, help_text=_("Furthest step reached so far."))
    seen_at = models.DateTimeField()
    is_translated = models.BooleanField(default=False, help_text=_("The browser translated a page of the task."))

    class Meta:
        verbose_name_plural = _("whereabouts")
        indexes = [models.Index(fields=["study", "seen_at"], name="whereabouts_seen")]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.step}"


class QuizAttempt(models.Model):
    """A participant's answers to the quiz at one of two attempts; immutable."""

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="quiz_attempts")
    quiz = models.CharField(max_length=32, help_text=_("Digest of the questions."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("[{question, answer, is_right}]"))
    is_right = models.BooleanField(help_text=_("True if all answers were right."))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(fields=["participant", "quiz", "attempt"], name="quiz_attempt_once"),
            models.CheckConstraint(condition=Q(attempt__in=[1, 2]), name="quiz_attempt_first_or_second"),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.quiz}/{self.attempt}"


class TrainingAnswer(models.Model):
    """A participant's answer about a practice pair at one attempt; immutable."""

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="training_answers")
    pair = models.CharField(max_length=32, help_text=_("Digest of the pair."))
    attempt = models.PositiveSmallIntegerField()
    answers = models.JSONField(help_text=_("{question: 1 the first, 0 the same, -1 the second}"))
    is_right = models.BooleanField()
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["attempt"]
        constraints = [
            models.UniqueConstraint(fields=["participant", "pair", "attempt"], name="training_answer_once"),
            models.CheckConstraint(condition=Q(attempt__in=[1, 2]), name="training_attempt_first_or_second"),
        ]

    def __str__(self) -> str:
        return f"{self.participant_id}/{self.pair}/{self.attempt}"


class Erasure(models.Model):
    """Record of an erasure in a study: its time and amount.

    It has no name or id of a participant.
    """

    class Kind(models.TextChoices):
        IDS = "ids", _("Recruitment ids, by the clock")
        TEXTS = "texts", _("Texts, by the clock")
        WITHDRAWN = "withdrawn", _("Withdrawn after the end")
        ASKED = "asked", _("Erased by staff")

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="erasures")
    kind = models.CharField(max_length=10, choices=Kind)
    n_people = models.PositiveIntegerField(help_text=_("Number of participants affected."))
    removed = models.JSONField(default=dict, help_text=_("{table: rows}"))
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.n_people}"


class Breakage(models.Model):
    """A participant's page that failed on our server.

    The log has its reference, with the error.
    """

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="breakages")
    task = models.ForeignKey("studies.Task", null=True, on_delete=models.CASCADE, related_name="breakages")
    reference = models.CharField(max_length=16)
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.reference


class ParticipantMessage(models.Model):
    """Message of a participant to the researchers, with their answer."""

    MOST_CHARS = 2000

    participant = models.ForeignKey("studies.Participant", on_delete=models.CASCADE, related_name="messages")
    text = models.TextField()
    created_at = DatabaseTimeField(auto_now_add=True)
    answer = models.TextField(blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["pk"]
        indexes = [models.Index(fields=["participant"], condition=Q(answered_at=None), name="message_waits")]

    def __str__(self) -> str:
        return f"{self.pk} of {self.participant_id}"


MORE_CHATS = ("second_chat", "third_chat", "fourth_chat")
"""Fields of an item for its conversations after the first."""


def _more_chat() -> models.ForeignKey[Any, Any]:
    # A foreign key each, so that deleting a conversation deletes the item, also in a copy of a study.
    return models.ForeignKey(
        "conversations.Conversation", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )


class Item(TimeStamped):
    """Item to rate: replies to a context, with or without a reference.

    Attention checks, gold items and repeated items are stored as items too, so that nothing distinguishes them from the
    others; all results exclude them.
    """

    class Purpose(models.TextChoices):
        JUDGED = "", _("Judged")
        CHECK = "check", _("Attention check")
        GOLD = "gold", _("Has a known right answer")
        REPEAT = "repeat", _("Another item once more")
        QUESTION = "question", _("Stands for the question itself")

    UNCOUNTED = (Purpose.CHECK, Purpose.GOLD, Purpose.REPEAT)
    """Kinds of items that check participants and are excluded from results."""

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="items")
    key = models.CharField(max_length=200, help_text=_("Name of the item in the study."))
    context = models.JSONField(default=list, help_text=_("Utterances, oldest first."))
    responses = models.JSONField(help_text=_("[{model, text}]"))
    # Null differs from an empty reference.
    reference = models.TextField(  # noqa: DJ001
        null=True, blank=True, help_text=_("A reply written by a person.")
    )
    reference_score = models.FloatField(null=True, blank=True, help_text=_("Earlier rating of the reference."))
    task = models.CharField(
        max_length=50,
        blank=True,
        help_text=_("Kind of conversation (chitchat, persona); some questions are asked only for some kinds."),
    )
    panel = models.JSONField(
        default=dict, blank=True, help_text=_("Shown next to the item: {persona: [lines], emotion, topic}")
    )
    criteria = models.JSONField(
        default=list, blank=True, help_text=_("[{text, points}]: statements to tick about the reply.")
    )
    purpose = models.CharField(max_length=10, choices=Purpose, blank=True, default="")
    expected = models.JSONField(
        default=dict, blank=True, help_text=_("Only for a check or a gold item: {question: [answers that pass]}")
    )
    original = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="repeats",
        help_text=_("For a repeated item: the original."),
    )
    conversation = models.ForeignKey(
        "conversations.Conversation",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="items",
        help_text=_("Source of the item's texts; the item is deleted with it."),
    )
    second_chat = _more_chat()
    third_chat = _more_chat()
    fourth_chat = _more_chat()
    origin = models.JSONField(
        default=dict, blank=True, help_text=_("How the item was drawn: position, seed, filters, bots.")
    )
    digest = models.CharField(
        max_length=32, blank=True, editable=False, help_text=_("Digest of the drawn item's texts.")
    )

    class Meta:
        indexes = [models.Index(fields=["study", "digest"], name="item_digest")]
        constraints = [models.UniqueConstraint(fields=["study", "key"], name="item_key_unique")]

    def __str__(self) -> str:
        return self.key

    @property
    def chats(self) -> tuple[Any, ...]:
        """The conversations that are its responses, in order.

        Empty for an item of replies.
        """
        if self.second_chat_id is None:
            return ()
        return self.conversation, self.second_chat, self.third_chat, self.fourth_chat

    @staticmethod
    def holding(**of_chat: Any) -> Q:
        """Return the condition that an item quotes a conversation.

        Keywords are conditions on fields of the conversation.
        """
        condition = Q()
        for chat in ("conversation", *MORE_CHATS):
            condition |= Q(**{f"{chat}__{field}": value for field, value in of_chat.items()})
        return condition


class TaskCount(models.Model):
    """Number of completed tasks of a study.

    It counts all tasks, or those with one bot, item or conversation in a slot. In a study with conditions each cell of
    a bot has a row; the bot's number is their sum.

    A draw reads these counts instead of all tasks. `task_complete` increments them; after an erasure they are recounted
    (`webapp/studies/assignment/counterbalance.py`).
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="task_counts")
    is_synthetic = models.BooleanField(default=False)
    bot_id = models.CharField(max_length=100, blank=True)
    cell = models.CharField(
        max_length=16, blank=True, default="", help_text=_("Condition of the bot, as returned by `condition_key`.")
    )
    conversation = models.ForeignKey(
        "conversations.Conversation", null=True, on_delete=models.CASCADE, related_name="task_counts"
    )
    item = models.ForeignKey("studies.Item", null=True, on_delete=models.CASCADE, related_name="task_counts")
    n_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["study", "is_synthetic", "bot_id", "cell"],
                condition=Q(conversation=None, item=None),
                name="task_count_of_cell",
            ),
            models.UniqueConstraint(
                fields=["conversation", "study", "is_synthetic"],
                condition=Q(conversation__isnull=False),
                name="task_count_of_conversation",
            ),
            models.UniqueConstraint(
                fields=["item", "is_synthetic"], condition=Q(item__isnull=False), name="task_count_of_item"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bot_id or self.item_id or self.conversation_id or 'all'}: {self.n_completed}"


class OrderState(models.Model):
    """State of the ranking of a study's bots, as last computed by a job.

    The rule `resolve` draws by it, and pages about a collecting study read it, because no request computes
    statistics.
    """

    study = models.OneToOneField("studies.Study", on_delete=models.CASCADE, related_name="order_state")
    found = models.JSONField(help_text=_("Output of `evaluation.analysis.leaderboard`."))
    n_ratings = models.PositiveIntegerField()
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.study_id}: {self.n_ratings} ratings"

    @property
    def needs(self) -> dict[str, int]:
        """Number of further ratings that each bot needs.

        0: it differs significantly from every other bot.
        """
        return dict(self.found.get("needs", {}))

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the state, stored by tasks that were drawn by it."""
        return {"made_at": self.made_at.isoformat(), "n_ratings": self.n_ratings, "needs": self.needs}


class SequenceCount(models.Model):
    """Number of participants who completed the bots in this order.

    Only for studies in which each participant meets several bots.
    """

    study = models.ForeignKey("studies.Study", on_delete=models.CASCADE, related_name="sequence_counts")
    is_synthetic = models.BooleanField(default=False)
    sequence = models.CharField(max_length=16, help_text=_("Sequence, as returned by `sequences.sequence_key`."))
    n_completed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["study", "is_synthetic", "sequence"], name="sequence_count_unique")
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.n_completed}"
