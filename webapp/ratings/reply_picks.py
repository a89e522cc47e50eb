"""Picks: the better of two replies, with which both chats continue.

The two replies are in two chats side by side, each as a turn of its own bot. A pick marks both turns (`goes_on`) and
stores a rating of the pair `at_turn`; its `first` is the slot that was shown first. If one of the bots failed, nothing
was compared: the chats continue with the other's reply, which is copied, and no rating is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from chatbots import derive_seed
from webapp.conversations.models import Conversation, Turn
from webapp.conversations.selectors import failure_of
from webapp.conversations.services import pair_chats
from webapp.conversations.services.replies import DUE_FIELDS, due_set
from webapp.core.errors import Refused
from webapp.ratings.rating_tasks import Pair
from webapp.ratings.services import rating_store
from webapp.studies.assignment.counterbalance import pair_of_slot
from webapp.studies.models import Slot
from webapp.studies.protocols.base import picking_kinds
from webapp.studies.refusals import BOTS_ANSWERING, CHAT_FINISHED, NO_SUCH_REPLY


def shown_first(pair: Pair, turn: int) -> int:
    """Draw the slot, 0 or 1, whose reply is shown first."""
    return derive_seed(pair[0].pk, "shown first", (turn - 1) // 2) % 2


@dataclass(frozen=True, slots=True)
class PickedReply:
    """A stored pick.

    Attributes:
        goes_on: whether the chats continue with its reply, by chat.
        copied: the turn that was copied in place of a failed reply.
    """

    turn: int
    goes_on: dict[UUID, bool]
    copied: Turn | None = None


def reply_pick(*, conversation_id: UUID, turn_index: int, is_equal: bool = False) -> PickedReply:
    """Store a pick of this chat's reply, or a tie.

    Both chats then continue with one of the replies.

    Repeated calls return the first pick. After a tie, the reply to continue with is drawn at random.

    Raises:
        Refused: `closed`, `waiting_for_reply` while the other reply is coming, or `bad_frame` if there is nothing to
            pick.
    """
    details = {"turn": turn_index}
    with transaction.atomic():
        slots = Slot.objects.select_related("task__participant__study", "task__version__rubric")
        slot = slots.filter(chat=conversation_id, task__kind__in=picking_kinds()).first()
        pair = pair_of_slot(slot) if slot is not None else None
        if slot is None or pair is None:
            raise Refused("bad_frame", _("There is nothing to pick in this chat."), **details)
        chats = pair_chats(slots=pair)
        chosen, other_chat = sorted(chats, key=lambda chat: chat.pk != conversation_id)
        turns = Turn.objects.filter(conversation__in=chats, index=turn_index, speaker=Turn.Speaker.BOT)
        replies = {turn.conversation_id: turn for turn in turns}
        if len(replies) == 2 and all(turn.goes_on is not None for turn in replies.values()):
            return PickedReply(turn_index, {pk: bool(turn.goes_on) for pk, turn in replies.items()})
        if any(chat.state != Conversation.State.OPEN for chat in chats):
            raise CHAT_FINISHED.refused(**details)
        if chosen.pk not in replies or turn_index == 0:
            raise NO_SUCH_REPLY.refused(**details)
        if other_chat.pk not in replies:
            return _go_on_alone(replies[chosen.pk], other_chat)
        values = slot.task.version.values
        if is_equal and not values.picking.allows_equal:
            raise Refused("bad_frame", _("Pick one of the two replies."), **details)
        on = chats[derive_seed(pair[0].pk, "goes on", turn_index) % 2] if is_equal else chosen
        for chat_id, turn in replies.items():
            turn.goes_on = chat_id == on.pk
        Turn.objects.bulk_update(replies.values(), ["goes_on"])
        first = shown_first(pair, turn_index)
        [question] = slot.task.version.rubric.dimensions.all()
        better = 0 if is_equal else 1 if chosen.slot_id == pair[first].pk else -1
        target = {"first": pair[first], "second": pair[1 - first], "at_turn": turn_index}
        rating_store(slot.task, slot.task.participant, {question.key: better}, "", target)
        slot.task.save(update_fields=["updated_at"])  # the participant is using it
    return PickedReply(turn_index, {chat_id: bool(turn.goes_on) for chat_id, turn in replies.items()})


def _go_on_alone(reply: Turn, failed: Conversation) -> PickedReply:
    """Copy the reply in place of a failed one, so that both chats can continue."""
    if failure_of(failed) is None or failed.due_turn != reply.index:
        raise BOTS_ANSWERING.refused(turn=reply.index)
    copied = Turn.objects.create(
        conversation=failed,
        index=reply.index,
        speaker=Turn.Speaker.BOT,
        text=reply.text,
        answered_by=reply.answered_by or reply.conversation.bot.bot_id,
        goes_on=False,
    )
    reply.goes_on = True
    reply.save(update_fields=["goes_on"])
    failed.n_exchanges += 1
    due_set(failed)
    failed.save(update_fields=["n_exchanges", *DUE_FIELDS])
    return PickedReply(reply.index, {reply.conversation_id: True, failed.pk: False}, copied)
