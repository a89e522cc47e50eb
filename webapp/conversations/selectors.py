"""Queries for conversations, and conversion of rows to `chatbots.Conversation`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, Prefetch, Q, QuerySet

import chatbots
from chatbots.bots.person import PERSON
from chatbots.trace import TraceStep
from webapp.conversations.images import image_fields, images_of
from webapp.conversations.models import (
    CONTENT_REFUSED,
    NO_PARTNER,
    ChatImage,
    Conversation,
    DistressMark,
    PartnerSeat,
    Turn,
)
from webapp.core.clock import database_now
from webapp.core.markdown import without_marks
from webapp.studies.models import Study, Task
from webapp.studies.protocols.base import get_protocol
from webapp.studies.settings import ChatRules, StudyValues

PERSON_REPLY_S = 300
"""Time after which a participant may stop waiting for a present human partner."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed or overdue reply, with the participant's options.

    `error` is the stored reason, and empty while the reply is only overdue and may still come.
    """

    turn: int
    error: str
    can: list[str]
    can_rate: bool

    @property
    def is_content(self) -> bool:
        """True if a content filter refused the participant's message."""
        return self.error.startswith(CONTENT_REFUSED)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds until a chat can be rated, and until its end.

    None without such a limit. Both count down from the participant's first message, by the server's clock. Until then,
    `runs` is False.
    """

    least_s: float | None
    most_s: float | None
    runs: bool

    def is_over(self, *, grace_s: float = 0) -> bool:
        """Return True if the time limit passed more than `grace_s` seconds ago."""
        return self.most_s is not None and self.most_s <= -grace_s

    def for_page(self) -> dict[str, Any]:
        """Return whole seconds, rounded up, for a frame."""
        pairs = (("least_s", self.least_s), ("most_s", self.most_s))
        return {name: None if s is None else max(0, math.ceil(s)) for name, s in pairs} | {"runs": self.runs}


@dataclass(frozen=True, slots=True)
class History:
    """State of a chat for a newly connected page.

    `time` is None in a study without time limits.
    """

    turns: list[dict[str, Any]]
    can_rate: bool
    pending: dict[str, int] | None
    failure: Failure | None
    time: TimeLeft | None


@dataclass(frozen=True, slots=True)
class DueReply:
    """State of a reply: stored, failed, in progress, or free to claim."""

    text: str | None
    html: str
    trace: list[dict[str, Any]]
    image: ChatImage | None
    can_rate: bool
    is_due: bool
    failure: Failure | None
    is_free: bool
    bot_id: str


def task_chat_ids(conversation: Conversation) -> list[UUID]:
    """Return the ids of all chats of the conversation's task.

    Only its own if it has no task.
    """
    if conversation.task is None:
        return [conversation.pk]
    return list(Conversation.objects.filter(slot__task=conversation.task).values_list("pk", flat=True))


def conversation_for(participant_ids: Collection[UUID], conversation_id: UUID) -> Conversation | None:
    """Return the chat, if it was given to one of these participants."""
    conversation = (
        Conversation.objects.filter(
            pk=conversation_id, participant__in=list(participant_ids), source=Conversation.Source.CHAT
        )
        .select_related("bot", "study", "participant", "slot__task__version__rubric")
        .first()
    )
    if conversation is not None and conversation.participant is not None and conversation.task is not None:
        # Both are the same rows; setting them saves a query.
        conversation.task.participant = conversation.participant
        if conversation.study is not None and conversation.study.pk == conversation.participant.study_id:
            conversation.participant.study = conversation.study
        if conversation.study is not None and conversation.study.version_id == conversation.task.version_id:
            conversation.study.version = conversation.task.version
    return conversation


def chats_under_way() -> QuerySet[Conversation]:
    """Return conversations with the columns needed for messages; others are deferred."""
    return Conversation.objects.select_related("bot", "slot__task__version").only(
        *("source", "state", "seed", "n_exchanges", "condition", "is_synthetic", "bot__params"),
        *("slot__side", "slot__task__kind", "slot__task__version__values", "bot__bot_id", "bot__kind", "bot__title"),
        *("due_turn", "due_since", "due_lease", "due_lease_until", "due_error", "due_attempts", "due_retries"),
    )


def partner_told_afterwards(task: Task) -> str:
    """Return the debriefing about a human partner; empty if there is none."""
    people = task.version.values.people
    if people.disclosure != "afterwards":
        return ""
    met = PartnerSeat.objects.filter(conversation__slot__task=task, state=PartnerSeat.State.TAKEN)
    return people.people_afterwards if met.exists() else ""


def shows_helpline(chats: Q, values: StudyValues) -> bool:
    """Return True if the study watches messages and one of these chats has a marked one."""
    if not values.safety.watches_messages:
        return False
    return DistressMark.objects.filter(turn__conversation__in=Conversation.objects.filter(chats)).exists()


def moves_of(conversation_id: UUID) -> int | None:
    """Return the number of moves of the chat's participant to another device.

    None if the chat no longer has a participant.
    """
    rows = Conversation.objects.filter(pk=conversation_id)
    return rows.values_list("participant__n_moves", flat=True).first()


def excluded_count(study: Study) -> int:
    """Return the number of chats that researchers excluded from all results."""
    return study.conversations.filter(state=Conversation.State.EXCLUDED).count()


def synthetic_count(study: Study) -> int:
    """Return the number of chats of scripted participants.

    In studies without chats, the number of their tasks.
    """
    if not get_protocol(study).talks_to_bots:
        theirs = Task.objects.filter(participant__study=study, participant__is_synthetic=True)
        return theirs.count()
    return study.conversations.filter(is_synthetic=True).count()


def slowest_reply(study: Study, *, since: datetime | None) -> tuple[str, float] | None:
    """Return the bot and the seconds of the slowest reply to scripted participants.

    Args:
        since: earlier replies are left out; None for all.

    Returns:
        None without a reply.
    """
    replies = Turn.objects.filter(conversation__study=study, conversation__is_synthetic=True, latency_ms__isnull=False)
    if since is not None:
        replies = replies.filter(created_at__gte=since)
    row = replies.order_by("-latency_ms").values_list("conversation__bot__bot_id", "latency_ms").first()
    return None if row is None else (row[0], round((row[1] or 0) / 1000, 1))


def scripted_chats(study: Study, n: int) -> list[Conversation]:
    """Return the newest completed chats of scripted participants, each with its first turns as `first_turns`."""
    return _with_first_turns(study.conversations.filter(is_synthetic=True), n)


def simulated_chats(run_id: int, n: int) -> list[Conversation]:
    """Return the newest completed chats of a run, as `scripted_chats`."""
    return _with_first_turns(Conversation.objects.filter(selfplay__run=run_id), n)


def _with_first_turns(chats: QuerySet[Conversation], n: int) -> list[Conversation]:
    newest = chats.filter(state=Conversation.State.COMPLETED).select_related("bot").order_by("-created_at")[:n]
    for chat in newest:
        first_turns = chat.turns.exclude(text="").order_by("index")[:_TURNS_SHOWN]
        chat.first_turns = list(first_turns)  # type: ignore[attr-defined]
    return list(newest)


_TURNS_SHOWN = 4


def chat_seconds(conversations: QuerySet[Conversation]) -> dict[str, float]:
    """Return the duration of each ended chat in seconds, by id.

    Stored dialogues have none.
    """
    rows = conversations.filter(source=Conversation.Source.CHAT, ended_at__isnull=False)
    return {
        str(pk): (end - begin).total_seconds()
        for pk, begin, end in rows.values_list("pk", "created_at", "ended_at")
        if end is not None
    }


def task_chat(task: Task) -> Conversation | None:
    """Return the first chat made in the task; None if there is none."""
    return Conversation.objects.filter(slot__task=task).order_by("slot__order").first()


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """Position of a chat among several chats of a task, from 1."""

    number: int
    n_chats: int

    @property
    def is_last(self) -> bool:
        """True if no chat comes after it."""
        return self.number >= self.n_chats


def chat_turn(conversation: Conversation) -> ChatTurn | None:
    """Return the chat's position among its task's chats.

    None for a single chat. Chats whose bot failed are left out.
    """
    version = conversation.version
    if conversation.slot is None or conversation.slot.side or version is None:
        return None
    if version.values.assignment.bots_in_a_row < 2:
        return None
    slots = conversation.slot.task.slots.exclude(bot_id="")
    counted_slots = slots.exclude(chat__state=Conversation.State.FAILED)
    orders = list(counted_slots.order_by("order").values_list("order", flat=True))
    if len(orders) < 2:
        return None
    return ChatTurn(sum(order <= conversation.slot.order for order in orders), len(orders))


def can_rate(conversation: Conversation) -> bool:
    """Return True if the chat can be rated.

    It needs enough exchanges, no pending reply, and must be open.
    """
    return _has_enough(conversation) and not reply_is_coming(conversation)


def _has_enough(conversation: Conversation) -> bool:
    is_open = conversation.version is not None and conversation.state == Conversation.State.OPEN
    return is_open and not early_reason(conversation)


def early_reason(conversation: Conversation) -> str:
    """Return a reason if the chat is too short to be rated.

    `too_early` (messages) or `too_soon` (minutes); otherwise "". After the time limit one answered message is enough,
    and after the last message no minimum time applies.
    """
    rules, n, remaining = _rules(conversation), conversation.n_exchanges, time_left(conversation)
    if remaining is not None and remaining.is_over():
        return "" if n else "too_early"
    if n < rules.min_exchanges:
        return "too_early"
    waits = remaining is not None and (remaining.least_s or 0) > 0 and n < rules.max_exchanges
    return "too_soon" if waits else ""


def time_left(conversation: Conversation) -> TimeLeft | None:
    """Return the chat's time; None without time limits.

    Scripted participants have no minimum time.
    """
    rules = _rules(conversation)
    limits = (None if conversation.is_synthetic else rules.least_minutes, rules.most_minutes)
    if limits == (None, None):
        return None
    human_turns = Turn.objects.filter(conversation=conversation, speaker=Turn.Speaker.HUMAN)
    began = human_turns.order_by("index").values_list("created_at", flat=True).first()
    passed_s = (database_now() - began).total_seconds() if began else 0
    least_s, most_s = (None if minutes is None else 60 * minutes - passed_s for minutes in limits)
    return TimeLeft(least_s, most_s, runs=began is not None)


def _rules(conversation: Conversation) -> ChatRules:
    assert conversation.version is not None, f"chat {conversation.pk} without a version"
    return conversation.version.values.chat


def reply_is_coming(conversation: Conversation) -> bool:
    """Return True if a pending reply has neither failed nor is long overdue."""
    return conversation.due_turn is not None and failure_of(conversation) is None


def failure_of(conversation: Conversation) -> Failure | None:
    """Return the failure of the due reply, or that it is long overdue.

    None if neither.
    """
    if conversation.state != Conversation.State.OPEN or conversation.due_turn is None:
        return None
    version = conversation.version
    if conversation.due_error.startswith(NO_PARTNER):
        is_bot_next = version is not None and version.values.people.without_partner == "bot"
        can = ["swap", "finish"] if is_bot_next else ["finish"]
    elif conversation.due_error.startswith(CONTENT_REFUSED):
        # Chats of a pair are compared over the same messages.
        is_pair = conversation.slot is not None and bool(conversation.slot.side)
        can = ["swap", "finish"] if is_pair else ["rewrite", "finish"]
    elif conversation.due_error:
        may_retry = conversation.due_retries < Conversation.MAX_RETRIES
        can = ["retry", "swap", "finish"] if may_retry else ["swap", "finish"]
    elif _is_overdue(conversation):
        can = ["swap", "finish"]
    else:
        return None
    return Failure(conversation.due_turn, conversation.due_error, can, _has_enough(conversation))


def _is_overdue(conversation: Conversation) -> bool:
    """Return True if a host would have replied or failed by now.

    A host that holds the reply may have to load the bot first.
    """
    now, until = database_now(), conversation.due_lease_until
    if conversation.due_since is None:
        return False
    if conversation.bot.kind == PERSON:
        return conversation.due_since < now - timedelta(seconds=PERSON_REPLY_S)
    longest_s = settings.CONFAB_REPLY_TIMEOUT_S + 2 * settings.CONFAB_REPLY_LEASE_S
    if until is not None and until > now:
        longest_s += settings.CONFAB_LOAD_TIMEOUT_S
    return conversation.due_since < now - timedelta(seconds=longest_s)


def turns_of(conversation: Conversation, *, after: int = -1) -> list[dict[str, Any]]:
    """Return turns in order, as pages show them.

    Replies have `html` and `trace` if the study shows them.
    """
    images, turns = images_of(conversation), []
    for row in Turn.objects.filter(conversation=conversation, index__gt=after).order_by("index"):
        is_bot = row.speaker == Turn.Speaker.BOT
        html = reply_html(conversation, row.text) if is_bot else ""
        trace = shown_trace(conversation, row) if is_bot else []
        turns.append(
            {
                "turn": row.index,
                "speaker": row.speaker,
                "text": row.text,
                "vote": row.vote,
                **({"html": html} if html else {}),
                **({"trace": trace} if trace else {}),
                **image_fields(images.get(row.index), row.text, html),
                **({} if row.goes_on is None else {"goes_on": row.goes_on}),
                **({"refused": True} if row.is_refused else {}),
            }
        )
    return turns


def reply_html(conversation: Conversation, text: str) -> str:
    """Return a reply as HTML if its study shows Markdown.

    Empty otherwise.
    """
    version = conversation.version
    return version.values.reply_html(text) if version is not None else ""


def shown_trace(conversation: Conversation | None, turn: Turn) -> list[dict[str, Any]]:
    """Return the steps before a reply as participants and raters see them.

    Empty if they are hidden.

    A trace may repeat text that a filter blocked, so a blocked reply has none.
    """
    version = conversation.version if conversation is not None else None
    is_hidden = version is None or version.values.chat.trace == "hidden" or turn.withheld_text
    return [] if is_hidden else turn.trace


def history(conversation_id: UUID) -> History:
    """Return the turns, the pending reply, and whether rating is possible."""
    conversation = chats_under_way().get(pk=conversation_id)
    due = conversation.due_turn if conversation.state == Conversation.State.OPEN else None
    return History(
        turns=turns_of(conversation),
        can_rate=can_rate(conversation),
        pending=None if due is None else {"turn": due},
        failure=failure_of(conversation),
        time=time_left(conversation),
    )


def reply_state(conversation_id: UUID, turn_index: int) -> DueReply:
    """Return the state of the reply with this number."""
    conversation = chats_under_way().get(pk=conversation_id)
    turn = Turn.objects.filter(conversation_id=conversation_id, index=turn_index, speaker="bot").first()
    is_due, until = conversation.due_turn == turn_index, conversation.due_lease_until
    return DueReply(
        text=turn.text if turn is not None else None,
        html=reply_html(conversation, turn.text) if turn is not None else "",
        trace=shown_trace(conversation, turn) if turn is not None else [],
        image=getattr(turn, "image", None),
        can_rate=can_rate(conversation),
        is_due=is_due,
        failure=failure_of(conversation) if is_due else None,
        is_free=is_due and (until is None or until < database_now()) and not person_is_writing(conversation),
        bot_id=conversation.bot.bot_id,
    )


def person_is_writing(conversation: Conversation) -> bool:
    """Return True if the due reply is from a person who has not sent it."""
    if conversation.bot.kind != PERSON:
        return False
    written_seats = PartnerSeat.objects.filter(pk=conversation.pk, given_turn=conversation.due_turn)
    return not written_seats.exists()


def reply_is_awaited(conversation_id: UUID, turn_index: int) -> bool:
    """Return True if the reply with this number can still arrive.

    It has not been shown yet.
    """
    chats = Conversation.objects.filter(
        pk=conversation_id,
        state=Conversation.State.OPEN,
        due_error="",
        due_ready_at=None,
        n_exchanges__lte=(turn_index - 1) // 2,  # with it there would be one more, also after a bot's opening
    )
    return chats.exists()


def vote_of(conversation_id: UUID, turn_index: int) -> int | None:
    """Return the stored vote on a turn.

    None if there is no such turn.
    """
    turns = Turn.objects.filter(conversation_id=conversation_id, index=turn_index)
    return turns.values_list("vote", flat=True).first()


def replies_due() -> QuerySet[Conversation]:
    """Return the open conversations with a due reply that has not failed.

    Chats with a human partner count once the partner has sent the reply.
    """
    can_be_made = ~Q(bot__kind=PERSON) | Q(partner_seat__given_turn=F("due_turn"))
    return Conversation.objects.filter(can_be_made, due_turn__isnull=False, due_error="", state=Conversation.State.OPEN)


def replies_waiting(*, pool: str | None, limit: int = 200) -> list[UUID]:
    """Return conversations whose due reply no host is generating, oldest first.

    A reply requested just now is left to its pending request.

    Args:
        pool: only bots of this pool; None for bots of all pools.
    """
    now = database_now()
    fresh = Q(due_lease=None) & Q(due_since__gt=now - timedelta(seconds=1))
    free = Q(due_lease_until=None) | Q(due_lease_until__lt=now)
    waiting = replies_due().filter(free).exclude(fresh)
    pools = settings.CONFAB_BOT_POOLS
    if pool == "default":
        waiting = waiting.exclude(bot__bot_id__in=list(pools))
    elif pool is not None:
        waiting = waiting.filter(bot__bot_id__in=[bot for bot, name in pools.items() if name == pool])
    return list(waiting.order_by("due_since").values_list("pk", flat=True)[:limit])


def conversation_values(
    conversations: QuerySet[Conversation], *, chunk_size: int = 500
) -> Iterator[chatbots.Conversation]:
    """Yield the rows as values, in the queryset's order, in constant memory."""
    turns = Prefetch("turns", Turn.objects.order_by("index"))
    for row in conversations.prefetch_related(turns).iterator(chunk_size=chunk_size):
        yield conversation_value(row)


def conversation_value(row: Conversation) -> chatbots.Conversation:
    """Return one row as a value, without refused messages.

    Its turns are taken from a prefetch, or read without their traces.
    """
    is_prefetched = "turns" in getattr(row, "_prefetched_objects_cache", {})
    turns = sorted(row.turns.all() if is_prefetched else row.turns.defer("trace"), key=lambda turn: turn.index)
    return chatbots.Conversation(
        id=str(row.pk),
        turns=tuple(
            chatbots.Turn(t.speaker, t.text, t.vote, trace=trace)  # type: ignore[arg-type]
            for t in turns
            if not t.is_refused
            for trace in [tuple(TraceStep(**step) for step in t.trace) if is_prefetched else ()]
        ),
        seed=row.seed,
    )


def conversation_remembered(row: Conversation) -> chatbots.Conversation:
    """Return one row as a value, with remembered conversations.

    Only if the bot remembers them. The seed of a reply does not depend on them.
    """
    value = conversation_value(row)
    if row.version is None or not row.version.values.sittings.bots_remember:
        return value
    earlier = Conversation.objects.filter(
        participant=row.participant_id,
        study=row.study_id,
        bot__bot_id=row.bot.bot_id,
        state=Conversation.State.COMPLETED,
        created_at__lt=row.created_at,
    ).exclude(sitting="")
    before = [
        turn for conversation in conversation_values(earlier.order_by("created_at")) for turn in conversation.turns
    ]
    return replace(value, turns=(*before, *value.turns), offset=-len(before))


def conversations_for_metrics(conversations: QuerySet[Conversation]) -> Iterator[chatbots.Conversation]:
    """Yield the rows as values in order, with Markdown removed from replies."""
    chat_format, study_format = "slot__task__version__values__chat__format", "study__version__values__chat__format"
    is_markdown = Q(**{chat_format: "markdown"}) | Q(**{"slot": None, study_format: "markdown"})
    marked = {str(pk) for pk in conversations.filter(is_markdown).values_list("pk", flat=True)}
    for conversation in conversation_values(conversations):
        yield without_reply_marks(conversation) if conversation.id in marked else conversation


def without_reply_marks(conversation: chatbots.Conversation) -> chatbots.Conversation:
    """Return the conversation with Markdown removed from its bot's replies."""
    turns = (
        replace(turn, text=without_marks(turn.text)) if turn.speaker == "bot" else turn for turn in conversation.turns
    )
    return replace(conversation, turns=tuple(turns))
