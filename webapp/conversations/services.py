"""Writes of conversations: messages, the lease on the reply that is due, votes, ways out.

Every write is one short transaction and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.metering import ReplyCost
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_version_record
from webapp.conversations.models import BotHostHeartbeat, Conversation, Turn
from webapp.conversations.selectors import bots_unavailable_at_hosts
from webapp.core.errors import Refused
from webapp.studies.models import Assignment, Participant
from webapp.studies.services import (
    assignment_close,
    assignment_complete,
    assignment_open,
    conversation_seed,
)

# A chat in which nothing has been written for this long makes way for another visit.
IDLE_AFTER = timedelta(minutes=10)


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


def conversation_start(*, participant: Participant, exclude: Collection[str] = ()) -> Conversation:
    """Open the participant's next conversation; while one is open, that one comes back.

    Raises:
        Refused: as `assignment_open`.
    """
    assignment = assignment_open(
        participant=participant, exclude={*exclude, *bots_unavailable_at_hosts()}
    )
    existing = Conversation.objects.filter(assignment=assignment).first()
    if existing is not None:
        return existing
    study = participant.study
    try:
        with transaction.atomic():
            return Conversation.objects.create(
                source=Conversation.Source.CHAT,
                bot=bot_version_record(bot=bot_find(assignment.bot_id)),
                study=study,
                participant=participant,
                assignment=assignment,
                seed=conversation_seed(study=study),
                is_synthetic=participant.is_synthetic,
            )
    except IntegrityError:
        # A second click was faster; an assignment has one conversation.
        return Conversation.objects.get(assignment=assignment)


def chat_elsewhere_close(*, participant: Participant, submission: str) -> None:
    """Somebody names this participant's platform id without their session or token.

    The visit in which the open chat was given leads back to it. Another visit may be the same person
    with another task, or somebody else: it never gets the open chat, which only makes way when it has
    been idle for a while. It stays stored, and who has its session can still finish it.

    Raises:
        Refused: `elsewhere` while the open chat is in use.
    """
    assignment = participant.assignments.filter(state=Assignment.State.OPEN).first()
    if assignment is None or (submission and assignment.submission == submission):
        return
    newest = Turn.objects.filter(conversation__assignment=assignment).order_by("-index").first()
    active_at = newest.created_at if newest else assignment.created_at
    if timezone.now() - active_at < IDLE_AFTER:
        raise Refused("elsewhere", _("You are chatting in another window."))
    assignment_close(assignment=assignment, state=Assignment.State.EXPIRED)


def turn_add_human(*, conversation_id: UUID, client_id: UUID, text: str) -> HumanTurn:
    """Store a participant's message and mark the reply to it as due.

    The same `client_id` again gives the turn already stored.

    Raises:
        Refused: `empty`, `too_long`, `waiting_for_reply` or `closed`.
    """
    with transaction.atomic():
        conversation = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("bot", "study")
            .get(pk=conversation_id)
        )
        stored = Turn.objects.filter(conversation=conversation, client_id=client_id).first()
        if stored is not None:
            return HumanTurn(stored, conversation.bot.bot_id, created=False)
        study = conversation.study
        details: dict[str, Any] = {"client_id": str(client_id)}
        if (
            study is None
            or conversation.source != Conversation.Source.CHAT
            or conversation.state != Conversation.State.OPEN
            or conversation.n_exchanges >= study.max_exchanges
        ):
            raise Refused("closed", _("This chat is finished. You can rate it now."), **details)
        if conversation.due_error:
            raise Refused(
                "bot_failed",
                _("The chatbot did not answer. Choose how to go on first."),
                turn=conversation.due_turn,
                can=["retry", "swap", "finish"],
                **details,
            )
        if conversation.due_turn is not None:
            raise Refused(
                "waiting_for_reply",
                _("The chatbot is still answering. Your text stays in the box."),
                **details,
            )
        # NUL is the one character PostgreSQL cannot store; nobody types it.
        text = text.replace("\x00", "").strip()
        if not text:
            raise Refused("empty", _("Write something first."), **details)
        n_over = len(text) - study.max_message_chars
        if n_over > 0:
            raise Refused(
                "too_long",
                ngettext(
                    "That is %(n)d character too long. Your text is still in the box.",
                    "That is %(n)d characters too long. Your text is still in the box.",
                    n_over,
                )
                % {"n": n_over},
                limit=study.max_message_chars,
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
        conversation.due_turn = index + 1
        conversation.due_since = turn.created_at
        conversation.due_lease = None
        conversation.due_lease_until = None
        conversation.due_error = ""
        conversation.save()
    return HumanTurn(turn, conversation.bot.bot_id, created=True)


def reply_claim(*, conversation_id: UUID, lease: UUID, lease_s: float) -> bool:
    """Take the lease on the reply that is due. One conditional UPDATE; who loses it does nothing."""
    now = timezone.now()
    free = Q(due_lease=None) | Q(due_lease_until__lt=now)
    return bool(
        Conversation.objects.filter(
            free,
            pk=conversation_id,
            state=Conversation.State.OPEN,
            due_turn__isnull=False,
            due_error="",
        ).update(due_lease=lease, due_lease_until=now + timedelta(seconds=lease_s))
    )


def reply_lease_renew(*, leases: Collection[UUID], lease_s: float) -> int:
    """Renew the leases of the replies a host is still at work on; how many still hold."""
    until = timezone.now() + timedelta(seconds=lease_s)
    return Conversation.objects.filter(due_lease__in=list(leases)).update(due_lease_until=until)


def reply_release(*, lease: UUID) -> None:
    """Give a lease back unanswered (the host stops), so that another host need not wait."""
    Conversation.objects.filter(due_lease=lease).update(due_lease=None, due_lease_until=None)


def turn_add_bot(
    *, conversation_id: UUID, lease: UUID, text: str, cost: ReplyCost | None = None
) -> BotTurn | None:
    """Store the whole reply, if the lease still holds; None if another host has taken over.

    Args:
        cost: what the reply took; None: a bot that costs nothing.
    """
    with transaction.atomic():
        conversation = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("study")
            .get(pk=conversation_id)
        )
        if conversation.due_lease != lease or conversation.due_turn is None:
            return None
        latency = timezone.now() - (conversation.due_since or timezone.now())
        turn = Turn(
            conversation=conversation,
            index=conversation.due_turn,
            speaker=Turn.Speaker.BOT,
            text=text.replace("\x00", ""),
            latency_ms=max(0, round(latency.total_seconds() * 1000)),
        )
        turn.cost_set(cost)
        turn.save(force_insert=True)
        conversation.n_exchanges += 1
        _due_clear(conversation)
        conversation.save()
    study = conversation.study
    return BotTurn(turn, can_rate=study is None or conversation.n_exchanges >= study.min_exchanges)


def reply_fail(*, conversation_id: UUID, lease: UUID, error: str) -> int | None:
    """Note that the reply could not be made; its turn number, or None if the lease is lost."""
    with transaction.atomic():
        conversation = Conversation.objects.select_for_update().get(pk=conversation_id)
        if conversation.due_lease != lease or conversation.due_turn is None:
            return None
        conversation.due_error = (error or "unknown error")[:500]
        conversation.due_lease = None
        conversation.due_lease_until = None
        conversation.save()
    return conversation.due_turn


def reply_retry(*, conversation_id: UUID) -> str | None:
    """Ask again for a reply that failed; the bot's id, or None if nothing failed."""
    n_changed = (
        Conversation.objects.filter(
            pk=conversation_id, state=Conversation.State.OPEN, due_turn__isnull=False
        )
        .exclude(due_error="")
        .update(due_error="", due_lease=None, due_lease_until=None, due_since=timezone.now())
    )
    if not n_changed:
        return None
    return Conversation.objects.values_list("bot__bot_id", flat=True).get(pk=conversation_id)


def vote_set(*, conversation_id: UUID, turn_index: int, value: int) -> Turn:
    """Store a vote on a bot turn; allowed until the rating is in.

    Raises:
        Refused: `closed`, or `bad_frame` for a turn that is not the bot's.
    """
    state = Conversation.objects.values_list("state", flat=True).get(pk=conversation_id)
    if state != Conversation.State.OPEN:
        raise Refused("closed", _("This chat is finished. You can rate it now."))
    turn = Turn.objects.filter(conversation_id=conversation_id, index=turn_index).first()
    if turn is None or turn.speaker != Turn.Speaker.BOT:
        raise Refused("bad_frame", _("There is no reply of the chatbot with this number."))
    turn.vote = value
    turn.save(update_fields=["vote"])
    return turn


def conversation_complete(*, conversation: Conversation) -> None:
    """Close after the rating; repeated it changes nothing."""
    Conversation.objects.filter(pk=conversation.pk, state=Conversation.State.OPEN).update(
        state=Conversation.State.COMPLETED, ended_at=timezone.now()
    )


def conversation_swap(*, conversation: Conversation) -> Conversation:
    """After `bot_failed`: keep this one as failed and open one with another bot.

    Raises:
        Refused: `not_failed` if the bot did not fail, or as `assignment_open`; then nothing changed.
    """
    with transaction.atomic():
        assignment = _failed_close(conversation, Assignment.State.FAILED)
        return conversation_start(participant=assignment.participant, exclude=[assignment.bot_id])


def conversation_finish_failed(*, conversation: Conversation) -> Assignment:
    """After `bot_failed`: end with credit and without a rating.

    Raises:
        Refused: `not_failed` if the bot did not fail.
    """
    with transaction.atomic():
        assignment = conversation.assignment
        if assignment is not None and assignment.completion_code:
            return assignment
        assignment = _failed_close(conversation, None)
        return assignment_complete(assignment=assignment)


def _failed_close(conversation: Conversation, assignment_state: str | None) -> Assignment:
    locked = (
        Conversation.objects.select_for_update(of=("self",))
        .select_related("assignment__participant__study")
        .get(pk=conversation.pk)
    )
    if locked.assignment is None or locked.state != Conversation.State.OPEN or not locked.due_error:
        raise Refused("not_failed", _("This chat is still running."))
    locked.state = Conversation.State.FAILED
    locked.ended_at = timezone.now()
    locked.save()
    if assignment_state is not None:
        assignment_close(assignment=locked.assignment, state=assignment_state)
    return locked.assignment


def conversation_withdraw(*, conversation: Conversation) -> None:
    """Delete what the participant wrote and read here; only the fact remains."""
    with transaction.atomic():
        locked = (
            Conversation.objects.select_for_update(of=("self",))
            .select_related("assignment")
            .get(pk=conversation.pk)
        )
        if locked.state != Conversation.State.OPEN:
            raise Refused("closed", _("This chat is finished and cannot be withdrawn here."))
        locked.turns.all().delete()
        locked.state = Conversation.State.WITHDRAWN
        locked.ended_at = timezone.now()
        locked.n_exchanges = 0
        _due_clear(locked)
        locked.save()
        if locked.assignment is not None:
            assignment_close(assignment=locked.assignment, state=Assignment.State.WITHDRAWN)


def _due_clear(conversation: Conversation) -> None:
    conversation.due_turn = None
    conversation.due_since = None
    conversation.due_lease = None
    conversation.due_lease_until = None
    conversation.due_error = ""


def heartbeat_store(*, host_id: UUID, pool: str, bots: dict[str, Any]) -> None:
    """Note that a bot host lives and what it has loaded; forget hosts silent for a day."""
    now = timezone.now()
    BotHostHeartbeat.objects.update_or_create(
        host_id=host_id, defaults={"pool": pool, "beat_at": now, "bots": bots}
    )
    BotHostHeartbeat.objects.filter(beat_at__lt=now - timedelta(days=1)).delete()


def heartbeat_end(*, host_id: UUID) -> None:
    """A bot host stopped in order."""
    BotHostHeartbeat.objects.filter(host_id=host_id).delete()
