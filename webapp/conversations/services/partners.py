"""Writes of chats between people: pairing, messages, missing partners.

All state is in the database. The page of a waiting participant polls, and each poll pairs everyone who waits, so it
does not matter which process serves a page or whether one was killed.

Every write locks chats first, by their keys, and reads seats under that lock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from chatbots import derive_seed
from chatbots.bots.person import PERSON
from chatbots.text import sanitise_input
from webapp.conversations.models import NO_PARTNER, Conversation, PartnerSeat, ReplyMark, Turn
from webapp.conversations.selectors import Failure, early_reason, failure_of, time_left
from webapp.conversations.services.replies import DUE_FIELDS, chat_locked, due_fail, due_set
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Study
from webapp.studies.refusals import CHAT_TO_RATE

SEEN_EVERY = timedelta(seconds=5)
"""Interval at which an open page is recorded."""
WAITS_FOR = timedelta(seconds=15)
"""Only participants whose page was open within this time are paired."""
STAFF_REPLY_MAX_CHARS = 5000
LEFT_AFTER = timedelta(seconds=90)
"""Time without an open page after which a partner has left; a phone that was put down returns sooner."""


@dataclass(frozen=True, slots=True)
class PartnerLook:
    """State of a chat with a person, for its page.

    Attributes:
        state: "ended": the partner has finished, and the chat can be rated.
        seconds_left: seconds left of the maximum wait.
    """

    state: Literal["waiting", "here", "ended", "failed"]
    seconds_left: int = 0
    writes_second: bool = False
    failure: Failure | None = None


def partner_look(*, conversation_id: UUID) -> PartnerLook | None:
    """Record that the page is open; pair the chat, or fail it.

    A chat fails if no partner comes in time.

    Returns:
        None if the chat is over or its partner is a bot.
    """
    seat = _seat(conversation_id)
    if seat is None or seat.conversation.state != Conversation.State.OPEN or seat.conversation.version is None:
        return None
    now, people = database_now(), seat.conversation.version.values.people
    wait = timedelta(seconds=people.wait_seconds)
    if seat.seen_at is None or seat.seen_at < now - SEEN_EVERY:
        seat.wait_until, seat.seen_at = seat.wait_until or now + wait, now
        seat.save(update_fields=["wait_until", "seen_at"])
    if seat.state == PartnerSeat.State.WAITING:
        until = seat.wait_until
        if _is_staffed(seat):
            since = seat.conversation.due_since
            until = since + wait if since is not None else None
        elif seats_pair(chat=seat.conversation):
            seat = _seat(conversation_id) or seat
        if seat.state == PartnerSeat.State.WAITING and until is not None and until <= now:
            _seat_fail(
                conversation_id, f"no partner came within {people.wait_seconds} s", only=PartnerSeat.State.WAITING
            )
    elif seat.state == PartnerSeat.State.TAKEN and not _is_staffed(seat):
        _partner_check(seat, now)
    seat = _seat(conversation_id) or seat
    return _look_of(seat, now)


def _look_of(seat: PartnerSeat, now: datetime) -> PartnerLook:
    chat = seat.conversation
    if (failure := failure_of(chat)) is not None:
        return PartnerLook("failed", failure=failure)
    if seat.state == PartnerSeat.State.WAITING and not _is_staffed(seat):
        remaining_s = (seat.wait_until - now).total_seconds() if seat.wait_until else 0
        return PartnerLook("waiting", max(0, round(remaining_s)))
    state: Literal["here", "ended"] = "here"
    if _has_ended(seat) and early_reason(chat) != "too_early":
        state = "ended"
    return PartnerLook(state, writes_second=seat.writes_second)


def seats_pair(*, chat: Conversation) -> int:
    """Pair waiting participants; return the number of pairs.

    Partners have the same study, bot and condition.
    """
    waiting = Conversation.objects.filter(
        study=chat.study,
        bot=chat.bot,
        is_synthetic=chat.is_synthetic,
        state=Conversation.State.OPEN,
        partner_seat__state=PartnerSeat.State.WAITING,
        partner_seat__seen_at__gte=database_now() - WAITS_FOR,
    )
    if len(waiting.order_by()[:2]) < 2:
        return 0
    n_pairs, alone = 0, dict[str, PartnerSeat]()
    with transaction.atomic():
        locked = list(waiting.select_for_update(of=("self",)).order_by("pk").values_list("pk", flat=True))
        # Read after locking: another page may have paired some of them meanwhile.
        seats = PartnerSeat.objects.filter(pk__in=locked, state=PartnerSeat.State.WAITING)
        for seat in seats.select_related("conversation").order_by("wait_until", "pk"):
            condition = json.dumps(seat.conversation.condition, sort_keys=True)
            waiting_seat = alone.pop(condition, None)
            if waiting_seat is None:
                alone[condition] = seat
            else:
                _pair(waiting_seat, seat)
                n_pairs += 1
    return n_pairs


def _pair(earlier: PartnerSeat, later: PartnerSeat) -> None:
    """Pair two participants; the first to write is chosen at random."""
    first, second = earlier, later
    if random.Random(derive_seed(earlier.conversation.seed, "writes first")).random() < 0.5:
        first, second = later, earlier
    second.writes_second = True
    # The unique column is checked row by row, so each seat needs its own update.
    for seat, partner in ((first, second), (second, first)):
        seat.partner, seat.state = partner, PartnerSeat.State.TAKEN
        seat.save(update_fields=["partner", "state", "writes_second"])
    due_set(second.conversation, turn=0, since=database_now())
    second.conversation.save(update_fields=DUE_FIELDS)


def message_hand_over(*, seat: PartnerSeat, turn: Turn) -> UUID | None:
    """Deliver a message as the partner's reply; return the partner's chat."""
    if seat.partner_id is None:
        return None
    PartnerSeat.objects.filter(pk=seat.partner_id).update(
        given_turn=turn.index, given_text=turn.text, given_at=turn.created_at
    )
    return seat.partner_id


def partner_seat_for(*, conversation: Conversation, client_id: UUID) -> PartnerSeat | None:
    """Return the seat of a locked chat whose participant is writing.

    None if the partner is a bot.

    Raises:
        Refused: `waiting_for_reply` while there is no partner, `closed` if the partner has finished.
    """
    if conversation.bot.kind != PERSON or (seat := _seat(conversation.pk)) is None:
        return None
    if seat.state == PartnerSeat.State.WAITING and not _is_staffed(seat):
        words = _("Your chat partner is not here yet. Your text stays in the box.")
        raise Refused("waiting_for_reply", words, client_id=str(client_id))
    if _has_ended(seat):
        raise CHAT_TO_RATE.refused(client_id=str(client_id))
    return seat


def _partner_check(seat: PartnerSeat, now: datetime) -> None:
    """Fail a chat whose partner has left.

    If the partner has finished, drop the due reply.
    """
    chat, partner = seat.conversation, seat.partner
    is_due = chat.due_turn is not None
    if chat.due_error or (is_due and seat.given_turn == chat.due_turn):
        return
    remaining = time_left(chat)
    is_over = remaining is not None and remaining.is_over()
    if (_has_ended(seat) or is_over) and early_reason(chat) != "too_early":
        if is_due:
            _due_drop(chat.pk)
        return
    if not _has_ended(seat) and partner is not None and partner.conversation.state == Conversation.State.OPEN:
        is_away = partner.seen_at is None or partner.seen_at < now - LEFT_AFTER
        if not partner.conversation.due_error and not (is_away and is_due):
            return
    _seat_fail(chat.pk, "the other participant has left")


def _due_drop(conversation_id: UUID) -> None:
    with transaction.atomic():
        chat = chat_locked(conversation_id)
        if chat is not None and not chat.due_error:
            due_set(chat)
            chat.save(update_fields=DUE_FIELDS)


def _seat_fail(conversation_id: UUID, reason: str, *, only: PartnerSeat.State | None = None) -> None:
    """Fail the chat without a partner, unless one has written meanwhile.

    Args:
        only: required state of the seat; None: any.
    """
    with transaction.atomic():
        chat = chat_locked(conversation_id)
        seat = _seat(conversation_id)
        if chat is None or seat is None or chat.state != Conversation.State.OPEN or chat.due_error:
            return
        if only is not None and seat.state != only:
            return
        if chat.due_turn is not None and seat.given_turn == chat.due_turn:
            return
        if chat.due_turn is None:
            due_set(chat, turn=chat.turns.count(), since=database_now())
        PartnerSeat.objects.filter(pk=seat.pk, state=PartnerSeat.State.WAITING).update(state=PartnerSeat.State.OVER)
        due_fail(chat, f"{NO_PARTNER}{reason}", is_trouble=False)


def partner_words_remove(*, chats: Collection[UUID]) -> None:
    """Remove these chats' messages from the partners' chats."""
    theirs = PartnerSeat.objects.filter(partner__in=list(chats))
    partners = list(theirs.values_list("pk", flat=True))
    if not partners:
        return
    theirs.update(given_text="")
    ReplyMark.objects.filter(turn__conversation__in=partners).update(found=[])
    replies = Turn.objects.filter(conversation__in=partners, speaker=Turn.Speaker.BOT)
    replies.update(text="", withheld_text="")
    for chat in Conversation.objects.filter(pk__in=partners):
        chat.items.all().delete()


def seat_take(*, study: Study, conversation_id: UUID, user: User) -> None:
    """Make a member of staff the partner in a chat.

    Raises:
        Refused: `closed` if it is over, `taken` if another member has it.
    """
    with transaction.atomic():
        seat = _staffed_seat(study, conversation_id)
        if seat.state == PartnerSeat.State.WAITING:
            seat.state, seat.staff = PartnerSeat.State.TAKEN, user
            seat.save(update_fields=["state", "staff"])
    if seat.staff_id != user.pk:
        raise Refused("taken", "Another staff member is writing in this chat.")


def staff_reply(*, study: Study, conversation_id: UUID, user: User, text: str) -> None:
    """Store the reply of the staff member who is the partner.

    It is shown at the study's pace.

    Raises:
        Refused: as in `seat_take`; `empty`, `too_long`, or `not_due` if the participant is not waiting for a reply.
    """
    text = sanitise_input(text)
    if not text:
        raise Refused("empty", "Write something first.")
    if len(text) > STAFF_REPLY_MAX_CHARS:
        words = f"The reply has {len(text)} characters; the maximum is {STAFF_REPLY_MAX_CHARS}."
        raise Refused("too_long", words)
    with transaction.atomic():
        seat = _staffed_seat(study, conversation_id)
        chat = seat.conversation
        if seat.staff_id != user.pk:
            raise Refused("taken", "Another staff member is writing in this chat.")
        if chat.due_turn is None or chat.due_error or seat.given_turn == chat.due_turn:
            raise Refused("not_due", "The participant is not waiting for a reply at the moment.")
        seat.given_turn, seat.given_text, seat.given_at = chat.due_turn, text, database_now()
        seat.save(update_fields=["given_turn", "given_text", "given_at"])


def _staffed_seat(study: Study, conversation_id: UUID) -> PartnerSeat:
    """Return the staff partner's seat of a study's open chat, locked."""
    chat = chat_locked(conversation_id)
    seat = _seat(conversation_id) if chat is not None else None
    if seat is None or seat.conversation.study_id != study.pk or not _is_staffed(seat):
        raise Refused("closed", "This chat is over.")
    if seat.conversation.state != Conversation.State.OPEN or seat.state == PartnerSeat.State.OVER:
        raise Refused("closed", "This chat is over.")
    return seat


def _seat(conversation_id: UUID) -> PartnerSeat | None:
    rows = PartnerSeat.objects.select_related(
        "conversation__bot", "conversation__slot__task__version", "partner__conversation"
    )
    return rows.filter(pk=conversation_id).first()


def _is_staffed(seat: PartnerSeat) -> bool:
    return bool(seat.conversation.bot.params.get("by") == "staff")


def _has_ended(seat: PartnerSeat) -> bool:
    """Return True if the partner has rated the chat."""
    return seat.partner is not None and seat.partner.conversation.state == Conversation.State.COMPLETED
