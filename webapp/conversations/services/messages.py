"""Messages of participants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.text import sanitise_input
from webapp.conversations.frames import KeystrokeCounts, MessageImage
from webapp.conversations.images import image_send, takes_images
from webapp.conversations.models import Conversation, DistressMark, Turn, Typing
from webapp.conversations.picked_replies import picks_replies
from webapp.conversations.selectors import chats_under_way, failure_of, time_left
from webapp.conversations.services.endings import task_end_with_credit
from webapp.conversations.services.partners import message_hand_over, partner_seat_for
from webapp.conversations.services.replies import DUE_FIELDS, due_set
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.assignment.counterbalance import pair_of_slot
from webapp.studies.refusals import BOT_ANSWERING, CHAT_NOT_FOUND, CHAT_TO_RATE, MESSAGE_EMPTY, PICK_DUE
from webapp.studies.safety import distress_source


@dataclass(frozen=True, slots=True)
class HumanTurn:
    """A stored message; `created` False when it was stored before.

    Attributes:
        reply_in: chat whose reply can be generated now: this one, or the partner's; None: neither.
        is_last: True if no reply follows it.
        is_marked: True if the safety net found signs of distress in it.
        is_end: True if the chat ended with it for that reason.
    """

    turn: Turn
    bot_id: str
    created: bool
    reply_in: UUID | None = None
    is_last: bool = False
    is_marked: bool = False
    is_end: bool = False


def turn_add_human(
    *,
    conversation_id: UUID,
    client_id: UUID,
    text: str,
    typed: KeystrokeCounts | None = None,
    image: MessageImage | None = None,
) -> HumanTurn:
    """Store a participant's message and mark the reply to it as due.

    A repeated `client_id` returns the stored turn.

    Args:
        typed: typing counts; stored only if the study collects them with consent.
        image: an image already stored for this chat.

    Raises:
        Refused: `not_found`, `empty`, `too_long`, `bad_image`, `waiting_for_reply` or `closed`.
    """
    with transaction.atomic():
        conversation = chats_under_way().select_for_update(of=("self",)).filter(pk=conversation_id).first()
        if conversation is None:  # the participant was erased
            raise CHAT_NOT_FOUND.refused(client_id=str(client_id))
        turns = Turn.objects.filter(conversation=conversation)
        stored = list(turns.values_list("client_id", "goes_on", "is_refused"))
        if any(stored_id == client_id for stored_id, _goes_on, _is_refused in stored):
            return HumanTurn(turns.get(client_id=client_id), conversation.bot.bot_id, created=False)
        version = conversation.version
        details: dict[str, Any] = {"client_id": str(client_id)}
        if (
            version is None
            or conversation.source != Conversation.Source.CHAT
            or conversation.state != Conversation.State.OPEN
            or conversation.n_exchanges >= version.values.chat.max_exchanges
            or _time_is_over(conversation, len(stored))
        ):
            raise CHAT_TO_RATE.refused(**details)
        failure = failure_of(conversation)
        is_rewritten = failure is not None and "rewrite" in failure.can
        if failure is not None and not is_rewritten:
            raise Refused(
                "bot_failed",
                _("The chatbot did not answer. Choose how to continue first."),
                turn=failure.turn,
                can=failure.can,
                **details,
            )
        if conversation.due_turn is not None and not is_rewritten:
            raise BOT_ANSWERING.refused(**details)
        if conversation.n_exchanges and stored[-1][1] is None and picks_replies(conversation):
            raise PICK_DUE.refused(**details)
        seat = partner_seat_for(conversation=conversation, client_id=client_id)
        text = sanitise_input(text)
        if not text and image is None:
            raise MESSAGE_EMPTY.refused(**details)
        if image is not None and not takes_images(conversation):
            raise Refused("bad_image", _("You cannot send images in this chat."), **details)
        n_over = len(text) - version.values.chat.max_message_chars
        if n_over > 0:
            raise Refused(
                "too_long",
                ngettext(
                    "Your message is %(n)d character too long. It is still in the box.",
                    "Your message is %(n)d characters too long. It is still in the box.",
                    n_over,
                )
                % {"n": n_over},
                limit=version.values.chat.max_message_chars,
                **details,
            )
        # The number reserved for a reply to a refused message stays unused.
        index = len(stored) + sum(is_refused for *_rest, is_refused in stored)
        turn = Turn.objects.create(
            conversation=conversation, index=index, speaker=Turn.Speaker.HUMAN, text=text, client_id=client_id
        )
        if typed is not None and version.values.typing.is_agreed_to:
            uncounted = {} if version.values.typing.is_focus_agreed_to else {"focus_losses": None}
            Typing.objects.create(turn=turn, **typed.model_dump() | uncounted)
        if image is not None:
            words = sanitise_input(image.description)
            image_send(turn=turn, image_id=image.id, description=words)
        if source := distress_source(text, version.values):
            DistressMark.objects.create(turn=turn, source=source)
        is_end = bool(source) and version.values.safety.ends_on_distress
        reply_in: UUID | None = None if is_end else conversation_id
        if seat is not None and not is_end:
            reply_in = message_hand_over(seat=seat, turn=turn)
            # The message answers the partner's, so it completes an exchange.
            conversation.n_exchanges += seat.writes_second
        is_last = conversation.n_exchanges >= version.values.chat.max_exchanges
        if not is_last and not is_end:
            due_set(conversation, turn=index + 1, since=database_now())
        conversation.save(update_fields=["n_exchanges", *DUE_FIELDS])
    # A transaction of its own, which locks all chats of the task in order.
    if is_end and conversation.task is not None:
        task_end_with_credit(task=conversation.task)
    return HumanTurn(
        turn,
        conversation.bot.bot_id,
        created=True,
        reply_in=reply_in,
        is_last=is_last,
        is_marked=bool(source),
        is_end=is_end,
    )


_SEND_GRACE_S = 5
"""Seconds after the time limit in which a message is still accepted: it was in transit when the time ended."""


def _time_is_over(conversation: Conversation, n_turns: int) -> bool:
    """Return True if the time limit forbids another message.

    A chat of a pair may still get the messages that the other one has, because both are compared over the same
    messages.
    """
    remaining = time_left(conversation)
    if remaining is None or not remaining.is_over(grace_s=_SEND_GRACE_S):
        return False
    pair = pair_of_slot(conversation.slot) if conversation.slot is not None else None
    paired_turns = Turn.objects.filter(conversation__slot__in=pair or ()).exclude(conversation=conversation)
    return paired_turns.count() <= n_turns
