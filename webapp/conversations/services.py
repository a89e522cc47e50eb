"""Writes of conversations: messages, the lease on the reply that is due, votes, ways out.

Every write is one short transaction and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.base import REPLY_MAX_CHARS, StandIn
from chatbots.endpoints.metering import ReplyCost
from chatbots.storable import storable
from webapp.bots.services import bot_answered, bot_failed
from webapp.conversations.entering import conversation_start
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import (
    Failure,
    can_rate,
    failure_of,
)
from webapp.core.errors import Refused
from webapp.studies.models import Outcome, Task
from webapp.studies.services import (
    task_close,
    task_complete,
    task_withdraw,
)


@dataclass(frozen=True, slots=True)
class HumanTurn:
    """A stored message; `created` False when it was stored before."""

    turn: Turn
    bot_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class BotTurn:
    """A stored reply, and whether the conversation may be rated now."""

    turn: Turn
    can_rate: bool


def turn_add_human(*, conversation_id: UUID, client_id: UUID, text: str) -> HumanTurn:
    """Store a participant's message and mark the reply to it as due.

    The same `client_id` again gives the turn already stored.

    Raises:
        Refused: `not_found`, `empty`, `too_long`, `waiting_for_reply` or `closed`.
    """
    with transaction.atomic():
        conversation = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("bot", "slot__task__version")
            .filter(pk=conversation_id)
            .first()
        )
        if conversation is None:  # whoever had it was erased
            raise Refused(
                "not_found", _("We cannot open this chat here."), client_id=str(client_id)
            )
        stored = Turn.objects.filter(conversation=conversation, client_id=client_id).first()
        if stored is not None:
            return HumanTurn(stored, conversation.bot.bot_id, created=False)
        version = conversation.version
        details: dict[str, Any] = {"client_id": str(client_id)}
        if (
            version is None
            or conversation.source != Conversation.Source.CHAT
            or conversation.state != Conversation.State.OPEN
            or conversation.n_exchanges >= version.values.chat.max_exchanges
        ):
            raise Refused("closed", _("This chat is finished. You can rate it now."), **details)
        failure = failure_of(conversation)
        if failure is not None:
            raise Refused(
                "bot_failed",
                _("The chatbot did not answer. Choose how to go on first."),
                turn=failure.turn,
                can=failure.can,
                **details,
            )
        if conversation.due_turn is not None:
            raise Refused(
                "waiting_for_reply",
                _("The chatbot is still answering. Your text stays in the box."),
                **details,
            )
        text = storable(text).strip()
        if not text:
            raise Refused("empty", _("Write something first."), **details)
        n_over = len(text) - version.values.chat.max_message_chars
        if n_over > 0:
            raise Refused(
                "too_long",
                ngettext(
                    "That is %(n)d character too long. Your text is still in the box.",
                    "That is %(n)d characters too long. Your text is still in the box.",
                    n_over,
                )
                % {"n": n_over},
                limit=version.values.chat.max_message_chars,
                **details,
            )
        index = Turn.objects.filter(conversation=conversation).count()
        turn = Turn.objects.create(
            conversation=conversation,
            index=index,
            speaker=Turn.Speaker.HUMAN,
            text=text,
            client_id=client_id,
        )
        _due_set(conversation, turn=index + 1, since=turn.created_at)
        conversation.save()
    return HumanTurn(turn, conversation.bot.bot_id, created=True)


def reply_claim(*, conversation_id: UUID, lease: UUID, lease_s: float) -> bool:
    """Take the lease on the reply that is due, and count the attempt, in one conditional UPDATE.

    Who loses it does nothing. After the last attempt nobody gets it (see `reply_give_up`).
    """
    now = timezone.now()
    free = Q(due_lease=None) | Q(due_lease_until__lt=now)
    return bool(
        Conversation.objects.filter(
            free,
            pk=conversation_id,
            state=Conversation.State.OPEN,
            due_turn__isnull=False,
            due_error="",
            due_attempts__lt=Conversation.MAX_ATTEMPTS,
        ).update(
            due_lease=lease,
            due_lease_until=now + timedelta(seconds=lease_s),
            due_attempts=F("due_attempts") + 1,
        )
    )


def reply_lease_renew(*, leases: Collection[UUID], lease_s: float) -> int:
    """Renew the leases of the replies a host is still at work on; how many still hold."""
    until = timezone.now() + timedelta(seconds=lease_s)
    return Conversation.objects.filter(due_lease__in=list(leases)).update(due_lease_until=until)


def reply_release(*, lease: UUID) -> None:
    """Give a lease back unanswered (the host stops), so that another host need not wait."""
    Conversation.objects.filter(due_lease=lease).update(due_lease=None, due_lease_until=None)


def turn_add_bot(
    *,
    conversation_id: UUID,
    lease: UUID,
    text: str,
    cost: ReplyCost | None = None,
    stand_in: StandIn | None = None,
) -> BotTurn | None:
    """Store the whole reply, if the chat is open and the lease still holds; else None.

    Args:
        cost: what the reply took; None: a bot that costs nothing.
        stand_in: the bot that gave the reply in the place of the chat's; None: that one did.
    """
    with transaction.atomic():
        conversation = _locked(conversation_id)
        if (
            conversation is None
            or not _is_held(conversation, lease)
            or conversation.due_turn is None
        ):
            return None
        latency = timezone.now() - (conversation.due_since or timezone.now())
        turn = Turn(
            conversation=conversation,
            index=conversation.due_turn,
            speaker=Turn.Speaker.BOT,
            text=storable(text, REPLY_MAX_CHARS),
            latency_ms=max(0, round(latency.total_seconds() * 1000)),
        )
        turn.cost_set(cost)
        bot_id = conversation.bot.bot_id
        if stand_in is None:
            bot_answered(bot_id=bot_id)
        else:
            turn.answered_by = stand_in.bot_id
            # In one order everywhere: two bots that stand in for each other lock each other's rows.
            for one in sorted((bot_id, stand_in.bot_id)):
                if one == bot_id:
                    bot_failed(bot_id=bot_id, reason=stand_in.why, chat=str(conversation_id))
                else:
                    bot_answered(bot_id=one)
        turn.save(force_insert=True)
        conversation.n_exchanges += 1
        _due_set(conversation)
        conversation.save()
    return BotTurn(turn, can_rate=can_rate(conversation))


def reply_fail(
    *, conversation_id: UUID, lease: UUID, error: str, is_trouble: bool = True
) -> Failure | None:
    """Note that the reply could not be made, whatever the error's text; None if the lease is lost.

    `is_trouble` is false where that says nothing of the bot's health: it was not even asked.
    """
    with transaction.atomic():
        conversation = _locked(conversation_id)
        if conversation is None or not _is_held(conversation, lease):
            return None
        return _fail(conversation, error, is_trouble=is_trouble)


def reply_give_up(*, conversation_id: UUID) -> Failure | None:
    """Note as failed what has been tried as often as it may be; None if nothing has."""
    with transaction.atomic():
        conversation = _locked(conversation_id)
        if conversation is None:
            return None
        until = conversation.due_lease_until
        if (
            conversation.due_error
            or conversation.due_attempts < Conversation.MAX_ATTEMPTS
            or (until is not None and until >= timezone.now())
        ):
            return None
        return _fail(
            conversation,
            f"given up: {conversation.due_attempts} attempts ended without a reply or an error",
        )


def _fail(conversation: Conversation, error: str, *, is_trouble: bool = True) -> Failure | None:
    if is_trouble:
        bot_failed(bot_id=conversation.bot.bot_id, reason=error, chat=str(conversation.pk))
    limit = Conversation._meta.get_field("due_error").max_length
    conversation.due_error = storable(error, limit) or "unknown error"
    conversation.due_lease = None
    conversation.due_lease_until = None
    conversation.save()
    return failure_of(conversation)


def _locked(conversation_id: UUID) -> Conversation | None:
    """Return the chat, locked for this transaction; None if its participant was erased."""
    rows = Conversation.objects.select_for_update(of=("self",)).select_related("study", "bot")
    return rows.filter(pk=conversation_id).first()


def _is_held(conversation: Conversation, lease: UUID) -> bool:
    """Tell whether a reply made under this lease still has its place."""
    return conversation.state == Conversation.State.OPEN and conversation.due_lease == lease


def reply_retry(*, conversation_id: UUID) -> str | None:
    """Ask again for a reply that failed; the bot's id, or None if none failed or it failed too often."""
    n_changed = (
        Conversation.objects.filter(
            pk=conversation_id,
            state=Conversation.State.OPEN,
            due_turn__isnull=False,
            due_retries__lt=Conversation.MAX_RETRIES,
        )
        .exclude(due_error="")
        .update(
            due_error="",
            due_lease=None,
            due_lease_until=None,
            due_since=timezone.now(),
            due_attempts=0,
            due_retries=F("due_retries") + 1,
        )
    )
    if not n_changed:
        return None
    return Conversation.objects.values_list("bot__bot_id", flat=True).get(pk=conversation_id)


def vote_set(*, conversation_id: UUID, turn_index: int, value: int) -> None:
    """Store a vote on a bot turn, in one conditional UPDATE; allowed until the rating is in.

    Raises:
        Refused: `closed`, or `bad_frame` for a turn that is not the bot's.
    """
    n_changed = Turn.objects.filter(
        conversation_id=conversation_id,
        index=turn_index,
        speaker=Turn.Speaker.BOT,
        conversation__state=Conversation.State.OPEN,
    ).update(vote=value)
    if n_changed:
        return
    state = Conversation.objects.filter(pk=conversation_id).values_list("state", flat=True).first()
    if state != Conversation.State.OPEN:
        raise Refused("closed", _("This chat is finished. You can rate it now."), turn=turn_index)
    raise Refused(
        "bad_frame", _("There is no reply of the chatbot with this number."), turn=turn_index
    )


def conversation_complete(*, conversation: Conversation) -> None:
    """Close after the rating, and cancel a reply that is due; repeated it changes nothing."""
    Conversation.objects.filter(pk=conversation.pk, state=Conversation.State.OPEN).update(
        state=Conversation.State.COMPLETED,
        ended_at=timezone.now(),
        rating_draft={},
        **_NOTHING_DUE,
    )


def conversation_swap(*, conversation: Conversation) -> Conversation:
    """Swap the bot after `bot_failed`: keep this chat as failed and open one with another bot.

    Raises:
        Refused: `not_failed` if the reply has neither failed nor is long overdue, or as `task_open`; then
            nothing has changed.
    """
    with transaction.atomic():
        task = _failed_close(conversation, Task.State.FAILED)
        return conversation_start(
            participant=task.participant, exclude=task.bot_ids, version=task.version
        )


def conversation_finish_failed(*, conversation: Conversation) -> Task:
    """End the task after `bot_failed`, with credit and without a rating.

    Raises:
        Refused: `not_failed` if the reply has neither failed nor is long overdue.
    """
    with transaction.atomic():
        task = conversation.task
        if task is not None and task.completion_code:
            return task
        task = _failed_close(conversation, None)
        return task_complete(task=task, outcome=Outcome.BOT_FAILED)


def _failed_close(conversation: Conversation, task_state: str | None) -> Task:
    locked = (
        Conversation.objects.select_for_update(of=("self",))
        .select_related("study", "slot__task__participant__study")
        .get(pk=conversation.pk)
    )
    if locked.task is None or failure_of(locked) is None:
        raise Refused("not_failed", _("This chat is still running."))
    locked.state = Conversation.State.FAILED
    locked.ended_at = timezone.now()
    locked.rating_draft = {}
    locked.save()
    if task_state is not None:
        task_close(task=locked.task, state=task_state)
    return locked.task


def conversation_withdraw(*, conversation: Conversation) -> None:
    """Delete what the participant wrote and read here; only the fact remains."""
    with transaction.atomic():
        locked = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("slot__task")
            .get(pk=conversation.pk)
        )
        if locked.state != Conversation.State.OPEN:
            raise Refused("closed", _("This chat is finished and cannot be withdrawn here."))
        locked.turns.all().delete()
        locked.state = Conversation.State.WITHDRAWN
        locked.ended_at = timezone.now()
        locked.rating_draft = {}
        locked.n_exchanges = 0
        _due_set(locked)
        locked.save()
        if locked.task is not None:
            task_withdraw(task=locked.task)


_NOTHING_DUE: dict[str, Any] = {
    "due_turn": None,
    "due_since": None,
    "due_lease": None,
    "due_lease_until": None,
    "due_error": "",
    "due_attempts": 0,
    "due_retries": 0,
}


def _due_set(
    conversation: Conversation, *, turn: int | None = None, since: datetime | None = None
) -> None:
    """Put on the unsaved row which reply is due; without a turn: none."""
    for name, value in {**_NOTHING_DUE, "due_turn": turn, "due_since": since}.items():
        setattr(conversation, name, value)
