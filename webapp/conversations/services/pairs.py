"""Writes of two chats that stand side by side: they are compared, or given up together when a bot fails."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.conversations.chat_checks import chat_check_due
from webapp.conversations.entering import task_chats
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import bots_unavailable_at_hosts, failure_of, reply_is_coming
from webapp.conversations.services.due import due_set
from webapp.conversations.services.endings import conversation_complete
from webapp.core.errors import Refused
from webapp.studies.models import Outcome, Slot, Task
from webapp.studies.services import pairs_replace, task_complete


def pair_chats(*, slots: tuple[Slot, ...]) -> list[Conversation]:
    """Return the two chats, locked for this transaction, in the order of their sides.

    Raises:
        Refused: `not_found` if they have not both been opened.
    """
    rows = Conversation.objects.select_for_update(of=("self",)).select_related(
        "slot__task__version"
    )
    # By their keys: all code that locks several does it in one order, against deadlocks.
    chats = list(rows.filter(slot__in=slots).order_by("pk"))
    if len(chats) != 2:
        raise Refused("not_found", _("We cannot open this chat here."))
    return sorted(chats, key=lambda chat: chat.slot.order if chat.slot else 0)


def pair_close(*, slots: tuple[Slot, ...]) -> None:
    """Close both chats, for they are being compared.

    Raises:
        Refused: `closed` where that has happened, `too_early` before both have answered often enough,
            `waiting_for_reply` while one is still answering, `check_due` before the researchers' question is answered.
    """
    chats = pair_chats(slots=slots)
    for chat in chats:
        if chat.state != Conversation.State.OPEN:
            raise Refused("closed", _("This comparison is finished."))
        if reply_is_coming(chat):
            raise Refused("waiting_for_reply", _("You can choose when both have answered."))
        assert chat.version is not None, f"chat {chat.pk} without a version"
        if chat.n_exchanges < chat.version.values.chat.min_exchanges:
            raise Refused("too_early", _("Write a little more before you choose."))
    if chats[0].n_exchanges != chats[1].n_exchanges:
        raise Refused("waiting_for_reply", _("You can choose when both have answered."))
    if chats[0].version is not None and chat_check_due(chats[0], chats[0].version):
        raise Refused("check_due", _("Answer the question of the researchers first."))
    for chat in chats:
        conversation_complete(conversation=chat)


def pair_swap(*, slots: tuple[Slot, ...]) -> None:
    """Put another pair in the place of one in which a bot failed; both chats are kept.

    Raises:
        Refused: `not_failed` if neither reply has failed or is long overdue, or as `pairs_replace`; then nothing
            has changed.
    """
    with transaction.atomic():
        task, failed = _pair_give_up(slots)
        pairs_replace(task=task, without={*failed, *bots_unavailable_at_hosts()})
        task_chats(task=task)


def pair_finish_failed(*, slots: tuple[Slot, ...]) -> Task:
    """End the task after a bot failed, with credit.

    Raises:
        Refused: `not_failed` if neither reply has failed or is long overdue.
    """
    with transaction.atomic():
        task, _failed = _pair_give_up(slots)
        return task_complete(task=task, outcome=Outcome.BOT_FAILED)


def _pair_give_up(slots: tuple[Slot, ...]) -> tuple[Task, list[str]]:
    """Close both chats, one at least as failed. Returns their task and the bots that failed."""
    chats = pair_chats(slots=slots)
    failed = [chat for chat in chats if failure_of(chat) is not None]
    if not failed:
        raise Refused("not_failed", _("This chat is still running."))
    for chat in chats:
        chat.state = Conversation.State.FAILED if chat in failed else Conversation.State.ENDED
        if chat not in failed:
            due_set(chat)
        chat.ended_at = timezone.now()
        chat.save()
    task = chats[0].task
    assert task is not None, f"chat {chats[0].pk} without a task"
    return task, [chat.slot.bot_id for chat in failed if chat.slot]
