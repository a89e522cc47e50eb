"""Conversations: turns, images, due replies, reports, filter labels, attention checks, heartbeats."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from chatbots.endpoints.metering import ReplyCost
from webapp.bots.models import BotVersion
from webapp.core.models import DatabaseTimeField, TimeStamped
from webapp.core.project_scope import ProjectManager
from webapp.studies.models import Item, Participant, Slot, Study, StudyVersion, Task


class ChatCheckAnswer(models.Model):
    """A participant's answer to an attention check in a chat; immutable."""

    MOST_CHARS = 200

    conversation = models.ForeignKey(
        "conversations.Conversation", on_delete=models.CASCADE, related_name="check_answers"
    )
    check_digest = models.CharField(max_length=32, help_text=_("Digest of the check."))
    question = models.CharField(max_length=300)
    expected = models.JSONField(help_text=_("Answers that pass."))
    answer = models.CharField(max_length=MOST_CHARS)
    is_right = models.BooleanField()
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["conversation", "check_digest"], name="chat_check_answer_once")]

    def __str__(self) -> str:
        return f"{self.conversation_id}/{self.check_digest}"


class ReplyReport(models.Model):
    """A participant's report of a reply in a conversation or item.

    Unique by participant and reply.
    """

    class Reason(models.TextChoices):
        HURTFUL = "hurtful", _("It is hurtful or hateful")
        SEXUAL = "sexual", _("It is sexual")
        DANGEROUS = "dangerous", _("It could put somebody in danger")
        PRIVATE = "private", _("It gives away private data")
        OTHER = "other", _("Something else")

    MOST_CHARS = 1000

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="reply_reports")
    # By name: the module that declares turns imports this one.
    turn = models.ForeignKey(
        "conversations.Turn", null=True, blank=True, on_delete=models.CASCADE, related_name="reports"
    )
    item = models.ForeignKey(Item, null=True, blank=True, on_delete=models.CASCADE, related_name="reports")
    response = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text=_("Which of the item's replies, from 0.")
    )
    reason = models.CharField(max_length=20, choices=Reason)
    words = models.TextField(blank=True, help_text=_("Comment of the participant."))
    created_at = DatabaseTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    seen_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(turn__isnull=False, item=None, response=None)
                | Q(turn=None, item__isnull=False, response__isnull=False),
                name="report_of_one_reply",
            ),
            models.CheckConstraint(
                condition=Q(reason__in=["hurtful", "sexual", "dangerous", "private", "other"]),
                name="report_reason_known",
            ),
            models.UniqueConstraint(
                fields=["participant", "turn"], condition=Q(turn__isnull=False), name="report_turn_once"
            ),
            models.UniqueConstraint(
                fields=["participant", "item", "response"], condition=Q(item__isnull=False), name="report_item_once"
            ),
        ]
        indexes = [models.Index(fields=["participant"], condition=Q(seen_at=None), name="report_not_seen")]

    def __str__(self) -> str:
        return f"{self.reason} by {self.participant_id}"


class DistressMark(models.Model):
    """Message in which the study's safety net found signs of distress; it holds no words of the message.

    A mark excludes nobody. It goes with the message.
    """

    turn = models.OneToOneField("conversations.Turn", on_delete=models.CASCADE, related_name="distress_mark")
    source = models.CharField(max_length=50, help_text=_("What found them: the phrases, or a filter by its name."))
    created_at = DatabaseTimeField(auto_now_add=True)
    alerted_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    seen_by = models.CharField(max_length=150, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["created_at"], condition=Q(alerted_at=None), name="distress_not_alerted"),
            models.Index(fields=["created_at"], condition=Q(seen_at=None), name="distress_not_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.source}: turn {self.turn_id}"


class ReplyMark(models.Model):
    """Label of a filter on a reply, unique by filter and reply."""

    turn = models.ForeignKey("conversations.Turn", on_delete=models.CASCADE, related_name="marks")
    filter = models.CharField(max_length=50)
    identity = models.JSONField(help_text=_("The filter's name, version and settings."))
    found = models.JSONField(default=list, help_text=_("Words found, if the filter returns any."))
    reason = models.CharField(max_length=500, help_text=_("Reason in words, for staff."))
    is_withheld = models.BooleanField(default=False)
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["turn", "filter"], name="mark_once_each_filter")]
        indexes = [models.Index(fields=["filter"], name="mark_by_filter")]

    def __str__(self) -> str:
        return f"{self.filter}: {self.reason}"


_MOST_TOKENS = 2**31 - 1


class Conversation(TimeStamped):
    """Chat, imported dialogue, self-play or simulation.

    At most one reply is due at a time. The row itself stores it: `due_turn` is its number, the lease names the bot host
    that generates it and its deadline, and `due_error` is the reason if it failed and waits for the participant's
    decision. Attempts are counted when they start, so that killed processes count too; a participant's retry resets the
    allowance.
    """

    MAX_ATTEMPTS = 3
    MAX_RETRIES = 5

    class Source(models.TextChoices):
        CHAT = "chat", _("Chat")
        IMPORT = "import", _("Import")
        SELFPLAY = "selfplay", _("Self-play")
        SIMULATED = "simulated", "Simulated participant"

    class State(models.TextChoices):
        OPEN = "open", _("Open")
        COMPLETED = "completed", _("Completed")
        FAILED = "failed", _("Bot failed")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        ENDED = "ended", _("Ended before it was done")
        EXCLUDED = "excluded", "Excluded"

    WITHOUT_PEOPLE = (Source.SELFPLAY, Source.SIMULATED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    source = models.CharField(max_length=10, choices=Source)
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    bot = models.ForeignKey(BotVersion, on_delete=models.PROTECT, related_name="conversations")
    study = models.ForeignKey(Study, null=True, blank=True, on_delete=models.CASCADE, related_name="conversations")
    participant = models.ForeignKey(
        Participant, null=True, blank=True, on_delete=models.CASCADE, related_name="conversations"
    )
    slot = models.OneToOneField(
        Slot,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="chat",
        help_text=_("Slot of the task that the conversation belongs to."),
    )
    external_id = models.CharField(max_length=200, blank=True, help_text=_("Id in the imported source."))
    language = models.CharField(
        max_length=20, blank=True, help_text=_("Language given in the import; if empty, it is detected from the text.")
    )
    seed = models.BigIntegerField(default=0)
    n_exchanges = models.PositiveIntegerField(default=0)
    is_synthetic = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True, blank=True)
    condition = models.JSONField(
        default=dict, blank=True, editable=False, help_text=_("{factor: level}; empty without factors.")
    )
    sitting = models.CharField(
        max_length=40,
        blank=True,
        editable=False,
        help_text=_("Key of the study's part; empty if the study has no parts."),
    )
    rating_draft = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text=_("Form data of a rating that could not be accepted yet; cleared when the chat ends."),
    )

    due_turn = models.PositiveIntegerField(null=True, blank=True)
    due_since = models.DateTimeField(null=True, blank=True)
    due_lease = models.UUIDField(null=True, blank=True)
    due_lease_until = models.DateTimeField(null=True, blank=True)
    due_error = models.CharField(max_length=500, blank=True)
    due_attempts = models.PositiveSmallIntegerField(default=0)
    due_retries = models.PositiveSmallIntegerField(default=0)
    due_ready_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=_("Since when the due reply has been ready, while it waits for the other reply of its pair."),
    )

    project_paths = ("study", "selfplay__run")

    objects = ProjectManager()

    class Meta:
        indexes = [
            models.Index(fields=["study", "source", "state"]),
            models.Index(fields=["study", "bot"]),
            models.Index(fields=["study", "-created_at", "-id"], name="conversation_list"),
            # Most pages query these rows, and most studies have none.
            models.Index(fields=["study"], condition=Q(is_synthetic=True), name="conversation_scripted"),
            models.Index(fields=["due_lease_until"], condition=Q(due_turn__isnull=False), name="reply_due"),
            # Active chats are few among all chats that were left open.
            models.Index(fields=["updated_at"], condition=Q(state="open", source="chat"), name="chat_open_touched"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["study", "external_id", "bot"], condition=Q(source="import"), name="conversation_import_unique"
            )
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def task(self) -> Task | None:
        """Task of the chat; None for imports and self-play."""
        return self.slot.task if self.slot else None

    @property
    def version(self) -> StudyVersion | None:
        """Study version at the chat's start; the current version for imports."""
        if self.task is not None:
            return self.task.version
        return self.study.version if self.study is not None else None


class Turn(models.Model):
    """Utterance, numbered from 0 within its conversation."""

    class Speaker(models.TextChoices):
        HUMAN = "human", _("Participant")
        BOT = "bot", _("Bot")

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="turns")
    index = models.PositiveIntegerField()
    speaker = models.CharField(max_length=5, choices=Speaker)
    text = models.TextField()
    vote = models.SmallIntegerField(default=0)
    client_id = models.UUIDField(null=True, blank=True)
    latency_ms = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("From storing the message to the end of the bot's reply.")
    )
    first_ms = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("From storing the message to the bot's first words.")
    )
    shown_first_ms = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("From storing the message to showing the first words; only if the reply was paced."),
    )
    shown_ms = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("From storing the message to showing the whole reply; only if the reply was paced."),
    )
    late_ms = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("Delay of the end of the reply behind the common pace, because the bot was too slow."),
    )
    withheld_text = models.TextField(
        blank=True, help_text=_("Original reply if a filter blocked it; `text` is what the participant read.")
    )
    is_refused = models.BooleanField(
        default=False,
        help_text=_("A content filter of the bot's provider refused this message. It is not sent to any bot again."),
    )
    trace = models.JSONField(
        default=list, blank=True, help_text=_("Reasoning and tool calls before the reply (`chatbots/trace.py`).")
    )
    tokens_in = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Tokens of the prompt, for bots that cost money.")
    )
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    tokens_estimated = models.BooleanField(
        default=False, help_text=_("Estimated from the text, because the endpoint returned no count.")
    )
    cost = models.FloatField(
        null=True, blank=True, help_text=_("In the currency of the bot's prices; null if a price is unknown.")
    )
    answered_by = models.CharField(
        max_length=200,
        blank=True,
        help_text=_("Id of the fallback bot, or second address of the bot, if that gave the reply."),
    )
    rejected_params = models.JSONField(
        default=list,
        blank=True,
        help_text=_("Request fields that the model rejected; the reply was generated without them."),
    )
    goes_on = models.BooleanField(
        null=True,
        blank=True,
        help_text=_(
            "For two replies to one message: whether the chat continued with this one; null until one is picked."
        ),
    )
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        ordering = ["conversation", "index"]
        indexes = [
            # For the latest replies to participants, among all turns ever stored.
            models.Index(fields=["created_at"], condition=Q(latency_ms__isnull=False), name="turn_latest_replies"),
            # Replies of fallback bots are few among all turns.
            models.Index(fields=["conversation"], condition=~Q(answered_by=""), name="turn_answered_by_other"),
            models.Index(fields=["conversation"], condition=Q(is_refused=True), name="turn_refused"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "index"], name="turn_index_unique"),
            models.UniqueConstraint(
                fields=["conversation", "client_id"], condition=Q(client_id__isnull=False), name="turn_client_id_unique"
            ),
            models.CheckConstraint(condition=Q(vote__in=[-1, 0, 1]), name="turn_vote_range"),
            models.CheckConstraint(condition=Q(vote=0) | Q(speaker="bot"), name="turn_vote_on_bot_only"),
            models.CheckConstraint(condition=Q(withheld_text="") | Q(speaker="bot"), name="turn_withheld_of_bot_only"),
            models.CheckConstraint(
                condition=Q(is_refused=False) | Q(speaker="human"), name="turn_refused_of_human_only"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}/{self.index}"

    def cost_set(self, cost: ReplyCost | None) -> None:
        """Set the reply's tokens, cost and provider; None for a free bot."""
        if cost is not None:
            # Endpoints may report any number; one too large for the column must not lose the reply.
            self.tokens_in, self.tokens_out = (max(0, min(n, _MOST_TOKENS)) for n in (cost.tokens_in, cost.tokens_out))
            self.tokens_estimated, self.cost = cost.is_estimated, cost.cost
            self.answered_by = cost.answered_by[:200]
            self.rejected_params = list(cost.rejected_params)


NO_PARTNER = "no partner: "
"""Beginning of the stored reason of a reply that failed because no person came, or the person left."""
CONTENT_REFUSED = "content refused: "
"""Beginning of the stored reason of a reply that was not generated because a filter refused the message."""


class PartnerSeat(models.Model):
    """Seat of a human chat partner: another participant or staff.

    Each of two paired participants has their own chat with a seat, and the seats refer to each other; a message in one
    chat is the reply with the same number in the other. For the participant with `writes_second` the chat starts with
    the partner's message.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting for a partner")
        TAKEN = "taken", _("Has a partner")
        OVER = "over", _("No partner found")

    conversation = models.OneToOneField(
        Conversation, primary_key=True, on_delete=models.CASCADE, related_name="partner_seat"
    )
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    partner = models.OneToOneField("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    staff = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="partner_seats"
    )
    writes_second = models.BooleanField(default=False)
    wait_until = models.DateTimeField(
        null=True, blank=True, help_text=_("End of the wait, counted from when the page was first open.")
    )
    seen_at = models.DateTimeField(null=True, blank=True, help_text=_("When the participant's page was last open."))
    given_turn = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Number of the reply that the partner has written.")
    )
    given_text = models.TextField(blank=True, help_text=_("Empty once the reply is stored."))
    given_at = models.DateTimeField(null=True, blank=True)
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["created_at"], condition=Q(state="waiting"), name="seat_waiting")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["waiting", "taken", "over"]), name="seat_state_known"),
            models.CheckConstraint(
                condition=Q(partner=None, staff=None) | Q(state="taken"), name="seat_with_partner_taken"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id}: {self.state}"


class Typing(models.Model):
    """Typing counts of a message, never the keys.

    Counted in the browser if the study and its consent allow it.
    """

    turn = models.OneToOneField(Turn, on_delete=models.CASCADE, related_name="typing")
    keystrokes = models.PositiveIntegerField(
        help_text=_("Number of insertions: key presses, or words on a touch keyboard.")
    )
    pastes = models.PositiveIntegerField(help_text=_("Number of texts pasted or dropped in."))
    deletions = models.PositiveIntegerField()
    ms = models.PositiveIntegerField(help_text=_("From the first of these to sending."))
    focus_losses = models.PositiveIntegerField(
        null=True, help_text=_("How often the page was left; empty if it was not counted.")
    )

    def __str__(self) -> str:
        return f"{self.turn_id}: {self.keystrokes} keystrokes"


class ChatImage(models.Model):
    """Image of a message, stored as a JPEG under its id.

    It has no turn until the message is sent.
    """

    MOST_DESCRIPTION_CHARS = 500

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="images")
    turn = models.OneToOneField(Turn, null=True, blank=True, on_delete=models.CASCADE, related_name="image")
    client_id = models.UUIDField(help_text=_("Created by the page, so that an image sent twice is stored once."))
    width = models.PositiveSmallIntegerField(help_text=_("In pixels, as stored."))
    height = models.PositiveSmallIntegerField()
    description = models.CharField(
        max_length=MOST_DESCRIPTION_CHARS, blank=True, help_text=_("Description by the participant.")
    )
    withheld_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When the image was hidden from everyone except staff.")
    )
    withheld_by = models.CharField(max_length=150, blank=True)
    created_at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["created_at"], condition=Q(turn=None), name="image_not_sent")]
        constraints = [models.UniqueConstraint(fields=["conversation", "client_id"], name="image_client_id_unique")]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Name of its file."""
        return image_name(self.pk)


def image_name(pk: uuid.UUID) -> str:
    """Return the name of an image's file."""
    return f"{pk}.jpg"


class ReplyFailure(models.Model):
    """Failed reply to a participant.

    The conversation clears its own error once the participant has decided how to continue.
    """

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="reply_failures")
    bot_id = models.CharField(max_length=100)
    reason = models.CharField(max_length=500)
    at = DatabaseTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["at"], name="reply_failure_at")]

    def __str__(self) -> str:
        return f"{self.bot_id}: {self.reason}"


class BotHostHeartbeat(models.Model):
    """Last heartbeat of a bot host, with its loaded bots."""

    host_id = models.UUIDField(primary_key=True)
    pool = models.CharField(max_length=50, db_index=True)
    beat_at = models.DateTimeField()
    bots = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.pool} {self.host_id}"
