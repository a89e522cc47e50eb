"""Pairs of chats that continue with the reply that the participant picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import chatbots
from webapp.conversations.models import Conversation, Turn
from webapp.studies.models import Slot
from webapp.studies.protocols.base import has_picks


def picks_replies(conversation: Conversation) -> bool:
    """Return True if the participant picks a reply at every turn."""
    return conversation.task is not None and has_picks(conversation.task)


def last_pick(conversation: Conversation) -> tuple[int, bool] | None:
    """Return the turn of the last pick.

    Also whether it chose this chat's reply.
    """
    if not picks_replies(conversation):
        return None
    picked = Turn.objects.filter(conversation=conversation, goes_on__isnull=False)
    last = picked.order_by("-index").values_list("index", "goes_on").first()
    return (last[0], bool(last[1])) if last is not None else None


def conversation_picked(context: chatbots.Conversation, slots: Sequence[Slot]) -> chatbots.Conversation:
    """Return one of the chats, with picked replies replacing its bot's own."""
    picked = Turn.objects.filter(conversation__slot__in=slots, goes_on=True)
    replies = dict(picked.values_list("index", "text"))
    turns = (
        replace(turn, text=replies.get(index, turn.text)) for index, turn in enumerate(context.turns, context.offset)
    )
    return replace(context, turns=tuple(turns))
