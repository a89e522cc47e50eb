"""Writes of bot hosts: heartbeats; leases, texts and failures of replies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from chatbots.bots.base import REPLY_MAX_CHARS, FallbackBot
from chatbots.bots.person import PERSON
from chatbots.endpoints.metering import ReplyCost
from chatbots.text import sanitise
from chatbots.trace import TraceStep
from webapp.bots.services import bot_answered, bot_failed
from webapp.conversations.filtering import FilterLabel, marks_store
from webapp.conversations.frames import BUSY
from webapp.conversations.models import (
    CONTENT_REFUSED,
    NO_PARTNER,
    BotHostHeartbeat,
    ChatImage,
    Conversation,
    PartnerSeat,
    ReplyFailure,
    Turn,
)
from webapp.conversations.pacing import ReplyTimes
from webapp.conversations.selectors import Failure, can_rate, chats_under_way, failure_of
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.core.health import REPLIES, REPLY_FAILURES, REPLY_FIRST, REPLY_WHOLE


def heartbeat_store(*, host_id: UUID, pool: str, bots: dict[str, Any]) -> None:
    """Store a bot host's heartbeat; delete hosts silent for a day."""
    now = database_now()
    BotHostHeartbeat.objects.update_or_create(host_id=host_id, defaults={"pool": pool, "beat_at": now, "bots": bots})
    BotHostHeartbeat.objects.filter(beat_at__lt=now - timedelta(days=1)).delete()


def heartbeat_end(*, host_id: UUID) -> None:
    """Remove the heartbeat of a bot host that stopped normally."""
    BotHostHeartbeat.objects.filter(host_id=host_id).delete()


NOTHING_DUE: dict[str, Any] = {
    "due_turn": None,
    "due_since": None,
    "due_lease": None,
    "due_lease_until": None,
    "due_error": "",
    "due_attempts": 0,
    "due_retries": 0,
    "due_ready_at": None,
}
DUE_FIELDS = [*NOTHING_DUE, "updated_at"]
"""Columns that a change of the due reply writes."""


def due_set(conversation: Conversation, *, turn: int | None = None, since: datetime | None = None) -> None:
    """Set the due reply on an unsaved row; no turn clears it."""
    for name, value in {**NOTHING_DUE, "due_turn": turn, "due_since": since}.items():
        setattr(conversation, name, value)


@dataclass(frozen=True, slots=True)
class BotTurn:
    """Stored reply, and whether the conversation can be rated now."""

    turn: Turn
    can_rate: bool


def reply_claim(*, conversation_id: UUID, lease: UUID, lease_s: float) -> bool:
    """Claim the due reply and count the attempt in one UPDATE.

    Only one host succeeds. After the last attempt no host can claim it (see `reply_give_up`).
    """
    now = database_now()
    free = Q(due_lease=None) | Q(due_lease_until__lt=now)
    return bool(
        Conversation.objects.filter(
            free,
            pk=conversation_id,
            state=Conversation.State.OPEN,
            due_turn__isnull=False,
            due_error="",
            due_attempts__lt=Conversation.MAX_ATTEMPTS,
        ).update(due_lease=lease, due_lease_until=now + timedelta(seconds=lease_s), due_attempts=F("due_attempts") + 1)
    )


def reply_lease_renew(*, leases: Collection[UUID], lease_s: float) -> int:
    """Renew a host's leases; return how many are still valid."""
    until = database_now() + timedelta(seconds=lease_s)
    return Conversation.objects.filter(due_lease__in=list(leases)).update(due_lease_until=until)


def reply_ready(*, lease: UUID) -> None:
    """Store that the due reply is ready, so that the other one can start."""
    leased_chats = Conversation.objects.filter(due_lease=lease, due_ready_at=None)
    leased_chats.update(due_ready_at=database_now())


def reply_release(*, lease: UUID, was_tried: bool = True) -> None:
    """Release a lease without a reply, because the host stops.

    Args:
        was_tried: False if nothing was started, so that no attempt is counted.
    """
    less = {} if was_tried else {"due_attempts": F("due_attempts") - 1}
    Conversation.objects.filter(due_lease=lease).update(due_lease=None, due_lease_until=None, **less)


def turn_add_bot(
    *,
    conversation_id: UUID,
    lease: UUID,
    text: str,
    cost: ReplyCost | None = None,
    stand_in: FallbackBot | None = None,
    times: ReplyTimes | None = None,
    marks: Sequence[FilterLabel] = (),
    withheld_text: str = "",
    trace: Sequence[TraceStep] = (),
    image: ChatImage | Refused | None = None,
) -> BotTurn | None:
    """Store the whole reply if the lease is valid; otherwise return None.

    Args:
        cost: the reply's cost; None for a free bot.
        stand_in: fallback bot that gave the reply; None: the chat's own bot.
        times: times at which it arrived and was shown; None: just now.
        marks: labels of the filters.
        withheld_text: the bot's original text, if `text` is the notice of a blocked reply.
        trace: reasoning and tool calls before it.
        image: its image, whose file is stored, or why it was dropped.
    """
    with transaction.atomic():
        conversation = chat_locked(conversation_id)
        if conversation is None or not _is_held(conversation, lease) or conversation.due_turn is None:
            return None
        latency = database_now() - (conversation.due_since or database_now())
        times = times or ReplyTimes(whole_s=latency.total_seconds())
        turn = Turn(
            conversation=conversation,
            index=conversation.due_turn,
            speaker=Turn.Speaker.BOT,
            text=sanitise(text, REPLY_MAX_CHARS),
            withheld_text=sanitise(withheld_text, REPLY_MAX_CHARS),
            trace=[step.model_dump() for step in trace],
            **times.in_ms(),
        )
        turn.cost_set(cost)
        bot_id = conversation.bot.bot_id
        is_counted = True
        if conversation.bot.kind == PERSON:
            # Human partners have no bot health; the seat kept the text only until now.
            is_counted = not seat_clear(conversation.pk).writes_second
        elif stand_in is None:
            bot_answered(bot_id=bot_id, seconds=times.whole_s, rejected_params=turn.rejected_params)
        else:
            turn.answered_by = stand_in.bot_id
            # Lock in one order everywhere: two bots that are each other's fallback lock the same rows.
            for updated_id in sorted((bot_id, stand_in.bot_id)):
                if updated_id == bot_id:
                    bot_failed(bot_id=bot_id, reason=stand_in.reason, chat=str(conversation_id))
                    _failure_keep(conversation, stand_in.reason)
                else:
                    bot_answered(bot_id=updated_id, seconds=times.whole_s, rejected_params=turn.rejected_params)
        turn.save(force_insert=True)
        if isinstance(image, Refused):
            _failure_keep(conversation, image.message)
        elif image is not None:
            image.conversation, image.turn = conversation, turn
            image.save(force_insert=True)
        marks_store([turn], [marks])
        conversation.n_exchanges += is_counted
        due_set(conversation)
        conversation.save(update_fields=["n_exchanges", *DUE_FIELDS])
    _count(turn.answered_by or bot_id, times)
    return BotTurn(turn, can_rate=can_rate(conversation))


def seat_clear(conversation_id: UUID) -> PartnerSeat:
    """Clear the seat's text, now stored as the reply; return the seat."""
    seat = PartnerSeat.objects.get(pk=conversation_id)
    seat.given_text = ""
    seat.save(update_fields=["given_text"])
    return seat


def _count(bot_id: str, times: ReplyTimes) -> None:
    REPLIES.labels(bot_id).inc()
    if times.whole_s is not None:
        REPLY_WHOLE.labels(bot_id).observe(times.whole_s)
    if times.first_s is not None:
        REPLY_FIRST.labels(bot_id).observe(times.first_s)


def reply_fail(
    *, conversation_id: UUID, lease: UUID, error: str, is_trouble: bool = True, is_content: bool = False
) -> Failure | None:
    """Store that the reply failed; None if the lease is lost.

    Args:
        is_trouble: False if the bot was not called, so that its health is unaffected.
        is_content: a filter refused the conversation; the message is marked, and the bot's health is unaffected.
    """
    with transaction.atomic():
        conversation = chat_locked(conversation_id)
        if conversation is None or not _is_held(conversation, lease):
            return None
        is_refused = is_content and bool(
            conversation.turns.filter(index=(conversation.due_turn or 0) - 1, speaker=Turn.Speaker.HUMAN).update(
                is_refused=True
            )
        )
        if is_refused:
            error = f"{CONTENT_REFUSED}{error}"
        # If the researchers' prompt alone is refused, without any message, it counts as the bot's failure.
        return due_fail(conversation, error, is_trouble=is_trouble or (is_content and not is_refused))


def reply_give_up(*, conversation_id: UUID) -> Failure | None:
    """Mark a reply as failed after its last attempt; None otherwise."""
    with transaction.atomic():
        conversation = chat_locked(conversation_id)
        if conversation is None:
            return None
        until = conversation.due_lease_until
        if (
            conversation.due_error
            or conversation.due_attempts < Conversation.MAX_ATTEMPTS
            or (until is not None and until >= database_now())
        ):
            return None
        return due_fail(
            conversation, f"given up: {conversation.due_attempts} attempts ended without a reply or an error"
        )


def due_fail(conversation: Conversation, error: str, *, is_trouble: bool = True) -> Failure | None:
    """Store that the due reply of a locked chat failed.

    `is_trouble` is as in `reply_fail`.
    """
    if is_trouble:
        bot_failed(bot_id=conversation.bot.bot_id, reason=error, chat=str(conversation.pk))
    if not error.startswith(CONTENT_REFUSED):
        _failure_keep(conversation, error)
    limit = Conversation._meta.get_field("due_error").max_length
    conversation.due_error = sanitise(error, limit) or "unknown error"
    conversation.due_lease = None
    conversation.due_lease_until = None
    conversation.save(update_fields=DUE_FIELDS)
    return failure_of(conversation)


def _failure_keep(conversation: Conversation, reason: str) -> None:
    bot_id = conversation.bot.bot_id
    REPLY_FAILURES.labels(bot_id, "busy" if reason.startswith(BUSY) else "error").inc()
    limit = ReplyFailure._meta.get_field("reason").max_length
    ReplyFailure.objects.create(
        conversation=conversation, bot_id=bot_id, reason=sanitise(reason, limit) or "unknown error"
    )


def chat_locked(conversation_id: UUID) -> Conversation | None:
    """Return the chat, locked for this transaction.

    None if its participant was erased.
    """
    return chats_under_way().select_for_update(of=("self",)).filter(pk=conversation_id).first()


def _is_held(conversation: Conversation, lease: UUID) -> bool:
    """Return True if the lease of a reply is still valid.

    The reply can then be stored.
    """
    return conversation.state == Conversation.State.OPEN and conversation.due_lease == lease


def reply_retry(*, conversation_id: UUID) -> str | None:
    """Retry a failed reply; return the bot's id or None.

    None if no reply failed or it failed too often.
    """
    n_changed = (
        Conversation.objects.filter(
            pk=conversation_id,
            state=Conversation.State.OPEN,
            due_turn__isnull=False,
            due_retries__lt=Conversation.MAX_RETRIES,
        )
        .exclude(due_error="")
        .exclude(due_error__startswith=NO_PARTNER)
        .exclude(due_error__startswith=CONTENT_REFUSED)
        .update(
            due_error="",
            due_lease=None,
            due_lease_until=None,
            due_since=database_now(),
            due_attempts=0,
            due_retries=F("due_retries") + 1,
        )
    )
    if not n_changed:
        return None
    return Conversation.objects.values_list("bot__bot_id", flat=True).get(pk=conversation_id)
