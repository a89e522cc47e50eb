"""Writes of what a participant does in a chat: messages and votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatbots.storable import given_text
from webapp.conversations.frames import Typed
from webapp.conversations.models import Conversation, Turn, Typing
from webapp.conversations.selectors import failure_of
from webapp.conversations.services.due import due_set
from webapp.core.errors import Refused


@dataclass(frozen=True, slots=True)
class HumanTurn:
    """A stored message; `created` False when it was stored before."""

    turn: Turn
    bot_id: str
    created: bool


def turn_add_human(
    *, conversation_id: UUID, client_id: UUID, text: str, typed: Typed | None = None
) -> HumanTurn:
    """Store a participant's message and mark the reply to it as due.

    The same `client_id` again gives the turn already stored.

    Args:
        typed: how it was typed; stored only where the study counts it and people agreed to that.

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
        if conversation is None:  # its participant was erased
            raise Refused(
                "not_found", _("We cannot open this chat here."), client_id=str(client_id)
            )
        turns = Turn.objects.filter(conversation=conversation)
        client_ids = list(turns.values_list("client_id", flat=True))
        if client_id in client_ids:
            return HumanTurn(turns.get(client_id=client_id), conversation.bot.bot_id, created=False)
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
        text = given_text(text)
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
        index = len(client_ids)
        turn = Turn.objects.create(
            conversation=conversation,
            index=index,
            speaker=Turn.Speaker.HUMAN,
            text=text,
            client_id=client_id,
        )
        if typed is not None and version.values.typing.is_agreed_to:
            Typing.objects.create(turn=turn, **typed.model_dump())
        due_set(conversation, turn=index + 1, since=turn.created_at)
        conversation.save()
    return HumanTurn(turn, conversation.bot.bot_id, created=True)


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
