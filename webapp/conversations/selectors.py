"""Reads of conversations, and the one place where rows become `chatbots.Conversation`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

import chatbots
from webapp.conversations.models import BotHostHeartbeat, Conversation, Turn


@dataclass(frozen=True, slots=True)
class History:
    """What a page shows after it connects. `error` is not empty while a failed reply waits."""

    turns: list[dict[str, Any]]
    can_rate: bool
    pending: dict[str, int] | None
    error: str


@dataclass(frozen=True, slots=True)
class DueReply:
    """The state of a reply: stored, failed, under way, or free for a host to take."""

    text: str | None
    can_rate: bool
    is_due: bool
    error: str
    is_free: bool
    bot_id: str


def conversation_for(
    participant_ids: Collection[UUID], conversation_id: UUID
) -> Conversation | None:
    """The chat, if it was given to one of these participants."""
    return (
        Conversation.objects.filter(
            pk=conversation_id,
            participant__in=list(participant_ids),
            source=Conversation.Source.CHAT,
        )
        .select_related("study__rubric", "participant", "assignment", "bot")
        .first()
    )


def can_rate(conversation: Conversation) -> bool:
    """Whether the rating form is open: enough exchanges, no reply under way, not closed."""
    return (
        conversation.study is not None
        and conversation.state == Conversation.State.OPEN
        and conversation.n_exchanges >= conversation.study.min_exchanges
    )


def history(conversation_id: UUID) -> History:
    """Turns in order, the pending reply, and whether rating is open."""
    conversation = Conversation.objects.select_related("study").get(pk=conversation_id)
    turns = [
        {"turn": index, "speaker": speaker, "text": text, "vote": vote}
        for index, speaker, text, vote in Turn.objects.filter(conversation_id=conversation_id)
        .order_by("index")
        .values_list("index", "speaker", "text", "vote")
    ]
    is_open = conversation.state == Conversation.State.OPEN
    due = conversation.due_turn if is_open else None
    return History(
        turns=turns,
        can_rate=can_rate(conversation),
        pending=None if due is None else {"turn": due},
        error=conversation.due_error if is_open else "",
    )


def reply_state(conversation_id: UUID, turn_index: int) -> DueReply:
    """How the reply with this number stands."""
    conversation = Conversation.objects.select_related("study", "bot").get(pk=conversation_id)
    text = (
        Turn.objects.filter(conversation_id=conversation_id, index=turn_index, speaker="bot")
        .values_list("text", flat=True)
        .first()
    )
    is_due = conversation.due_turn == turn_index
    until = conversation.due_lease_until
    return DueReply(
        text=text,
        can_rate=can_rate(conversation),
        is_due=is_due,
        error=conversation.due_error if is_due else "",
        is_free=is_due and (until is None or until < timezone.now()),
        bot_id=conversation.bot.bot_id,
    )


def replies_waiting(*, pool: str | None, limit: int = 200) -> list[UUID]:
    """Conversations whose due reply nobody is at work on, oldest first.

    A reply just asked for is left to the request that is on its way.

    Args:
        pool: only bots of this pool; None: of all pools.
    """
    now = timezone.now()
    fresh = Q(due_lease=None) & Q(due_since__gt=now - timedelta(seconds=1))
    waiting = Conversation.objects.filter(
        Q(due_lease_until=None) | Q(due_lease_until__lt=now),
        due_turn__isnull=False,
        due_error="",
        state=Conversation.State.OPEN,
    ).exclude(fresh)
    pools = settings.CONFAB_BOT_POOLS
    if pool == "default":
        waiting = waiting.exclude(bot__bot_id__in=list(pools))
    elif pool is not None:
        waiting = waiting.filter(
            bot__bot_id__in=[bot for bot, name in pools.items() if name == pool]
        )
    return list(waiting.order_by("due_since").values_list("pk", flat=True)[:limit])


def conversation_values(
    conversations: QuerySet[Conversation], *, chunk_size: int = 500
) -> Iterator[chatbots.Conversation]:
    """The rows as values, in the queryset's order, in constant memory."""
    turns = Prefetch("turns", Turn.objects.order_by("index"))
    for row in conversations.prefetch_related(turns).iterator(chunk_size=chunk_size):
        yield conversation_value(row)


def conversation_value(row: Conversation) -> chatbots.Conversation:
    """One row as a value; its turns are read, or taken from a prefetch."""
    turns = sorted(row.turns.all(), key=lambda turn: turn.index)
    return chatbots.Conversation(
        id=str(row.pk),
        turns=tuple(chatbots.Turn(t.speaker, t.text, t.vote) for t in turns),  # type: ignore[arg-type]
        seed=row.seed,
    )


def heartbeat_ages_s() -> dict[str, float]:
    """Seconds since the newest sign of life of each pool's bot hosts."""
    now = timezone.now()
    ages: dict[str, float] = {}
    for pool, beat_at in BotHostHeartbeat.objects.values_list("pool", "beat_at"):
        age = round((now - beat_at).total_seconds(), 1)
        ages[pool] = min(age, ages.get(pool, age))
    return ages


def heartbeat_bots() -> dict[str, dict[str, Any]]:
    """What the living bot hosts report of each bot; the newest report wins."""
    reports: dict[str, dict[str, Any]] = {}
    since = timezone.now() - timedelta(seconds=30)
    for beat in BotHostHeartbeat.objects.filter(beat_at__gte=since).order_by("beat_at"):
        reports.update(beat.bots)
    return reports


def bots_unavailable_at_hosts() -> dict[str, str]:
    """Bots that a living bot host could not load, with the reason."""
    return {
        bot_id: report.get("reason") or "unavailable"
        for bot_id, report in heartbeat_bots().items()
        if report.get("state") == "unavailable"
    }
