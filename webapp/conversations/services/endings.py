"""Writes of every end of a chat, or of two chats side by side.

A chat is rated, given another bot, ended without a rating, or withdrawn. Two chats side by side are compared, or
abandoned together if a bot fails.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from webapp.conversations.attention_checks import chat_check_due
from webapp.conversations.heartbeats import bots_unavailable_at_hosts
from webapp.conversations.models import Conversation
from webapp.conversations.picked_replies import picks_replies
from webapp.conversations.selectors import early_reason, failure_of, reply_is_coming
from webapp.conversations.services.partners import partner_words_remove
from webapp.conversations.services.replies import NOTHING_DUE, due_set
from webapp.conversations.task_start import conversation_start, task_chats
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.models import Outcome, Slot, Task
from webapp.studies.refusals import BOTS_ANSWERING, CHAT_NOT_FAILED, CHAT_NOT_FOUND, CHECK_DUE
from webapp.studies.services import pairs_replace, task_bot_add, task_close, task_complete, task_end, task_withdraw
from webapp.studies.start_refusals import StartRefusal


def conversation_complete(*, conversation: Conversation) -> None:
    """Close a chat after its rating and cancel any due reply (idempotent)."""
    Conversation.objects.filter(pk=conversation.pk, state=Conversation.State.OPEN).update(
        state=Conversation.State.COMPLETED, ended_at=database_now(), rating_draft={}, **NOTHING_DUE
    )


def conversation_swap(*, conversation: Conversation) -> Conversation:
    """Replace the bot after `bot_failed`.

    This chat is kept as failed, and one with another bot is opened.

    A task with several consecutive chats continues with the next one; the failed chat is repeated with another bot at
    the end, if there is one.

    Raises:
        Refused: `not_failed` if the reply has neither failed nor is long overdue, or as in `task_open`; nothing has
            changed then.
    """
    with transaction.atomic():
        task = conversation.task
        if task is not None and task.slots.filter(side="").count() > 1:
            return _swap_within(conversation)
        task = _failed_close(conversation, Task.State.FAILED, way="swap")
        return conversation_start(participant=task.participant, exclude=task.bot_ids, version=task.version)


def _swap_within(conversation: Conversation) -> Conversation:
    """Continue a task with several chats."""
    task = _failed_close(conversation, None, way="swap")
    refused: Refused | None = None
    try:
        task_bot_add(task=task, exclude=bots_unavailable_at_hosts())
    except Refused as refusal:
        refused = refusal
    chats = task_chats(task=task)
    if chats and chats[-1].state == Conversation.State.OPEN:
        return chats[-1]
    raise refused or StartRefusal.NO_BOT.refused()


def conversation_finish_failed(*, conversation: Conversation) -> Task:
    """End the task after `bot_failed`, with credit and without a rating.

    Raises:
        Refused: `not_failed` if the reply has neither failed nor is long overdue.
    """
    with transaction.atomic():
        task = conversation.task
        if task is not None and task.completion_code:
            return task
        task = _failed_close(conversation, None, way="finish")
        return task_complete(task=task, outcome=Outcome.BOT_FAILED)


def task_end_with_chats(*, task: Task, outcome: str) -> Task:
    """End an incomplete task as `task_end` does, and close its open chats.

    Texts are kept, and no bot replies any more.
    """
    with transaction.atomic():
        _open_chats_close(task)
        return task_end(task=task, outcome=outcome)


def task_end_with_credit(*, task: Task) -> Task:
    """End a task without a rating, as through no fault of the participant, and close its open chats."""
    with transaction.atomic():
        _open_chats_close(task)
        return task_complete(task=task, outcome=Outcome.BOT_FAILED)


def _open_chats_close(task: Task) -> None:
    """Close the task's open chats, locked in order; chats come before tasks, as in all writes, to avoid deadlocks."""
    rows = Conversation.objects.select_for_update(of=("self",)).order_by("pk")
    is_open = Q(slot__task=task, state=Conversation.State.OPEN)
    chats = list(rows.filter(is_open).values_list("pk", flat=True))
    Conversation.objects.filter(pk__in=chats).update(
        state=Conversation.State.ENDED, ended_at=database_now(), rating_draft={}, **NOTHING_DUE
    )


def _failed_close(conversation: Conversation, task_state: str | None, *, way: str) -> Task:
    locked = (
        Conversation.objects.select_for_update(of=("self",))
        .select_related("study", "slot__task__participant__study")
        .get(pk=conversation.pk)
    )
    failure = failure_of(locked)
    if locked.task is None or failure is None or way not in failure.can:
        raise CHAT_NOT_FAILED.refused()
    locked.state = Conversation.State.ENDED if failure.is_content else Conversation.State.FAILED
    locked.ended_at = database_now()
    locked.rating_draft = {}
    locked.save()
    if task_state is not None:
        task_close(task=locked.task, state=task_state)
    return locked.task


def conversation_withdraw(*, conversation: Conversation) -> None:
    """Delete the chat's texts; only the fact of the withdrawal remains.

    Withdrawing ends the whole task, so all its chats and ratings are deleted.
    """
    with transaction.atomic():
        chats = Q(pk=conversation.pk)
        if conversation.task is not None:
            chats |= Q(slot__task=conversation.task)
        rows = Conversation.objects.select_for_update(of=("self",)).select_related("slot__task")
        locked = list(rows.filter(chats).order_by("pk"))
        partner_words_remove(chats=[chat.pk for chat in locked])
        withdrawn = next(chat for chat in locked if chat.pk == conversation.pk)
        if withdrawn.state != Conversation.State.OPEN:
            raise Refused("closed", _("This chat is finished and cannot be withdrawn here."))
        if withdrawn.task is not None:
            withdrawn.task.ratings.all().delete()
        for chat in locked:
            chat.turns.all().delete()
            chat.images.all().delete()
            chat.check_answers.all().delete()
            chat.items.all().delete()  # items drawn from it for raters
            chat.state = Conversation.State.WITHDRAWN
            chat.ended_at = database_now()
            chat.rating_draft = {}
            chat.n_exchanges = 0
            due_set(chat)
            chat.save()
        if withdrawn.task is not None:
            task_withdraw(task=withdrawn.task)


def pair_chats(*, slots: tuple[Slot, ...]) -> list[Conversation]:
    """Return the two chats, locked, in the order of their sides.

    Raises:
        Refused: `not_found` if they are not both open yet.
    """
    rows = Conversation.objects.select_for_update(of=("self",)).select_related("slot__task__version")
    # Lock in the order of keys, as everywhere, to avoid deadlocks.
    chats = list(rows.filter(slot__in=slots).order_by("pk"))
    if len(chats) != 2:
        raise CHAT_NOT_FOUND.refused()
    return sorted(chats, key=lambda chat: chat.slot.order if chat.slot else 0)


def pair_close(*, slots: tuple[Slot, ...]) -> None:
    """Close both chats of a comparison.

    Raises:
        Refused: `closed` if they are already closed, `too_early` or `too_soon` before both chats are long enough,
            `waiting_for_reply` while one bot is still replying, `check_due` before the researchers' question is
            answered.
    """
    chats = pair_chats(slots=slots)
    for chat in chats:
        if chat.state != Conversation.State.OPEN:
            raise Refused("closed", _("This comparison is finished."))
        if reply_is_coming(chat):
            raise BOTS_ANSWERING.refused()
        if early := early_reason(chat):
            messages = {
                "too_early": _("Write a little more before you choose."),
                "too_soon": _("Chat a little longer before you choose."),
            }
            raise Refused(early, messages[early])
        if picks_replies(chat) and chat.turns.filter(speaker="bot", goes_on=None, index__gt=0).exists():
            raise Refused("pick_due", _("Pick a reply first."))
    if chats[0].n_exchanges != chats[1].n_exchanges:
        raise BOTS_ANSWERING.refused()
    if chats[0].version is not None and chat_check_due(chats[0], chats[0].version):
        raise CHECK_DUE.refused()
    for chat in chats:
        conversation_complete(conversation=chat)


def pair_swap(*, slots: tuple[Slot, ...]) -> None:
    """Replace a pair in which a bot failed; both chats are kept.

    Raises:
        Refused: `not_failed` if neither reply has failed or is long overdue, or as in `pairs_replace`; nothing has
            changed then.
    """
    with transaction.atomic():
        task, failed = _pair_give_up(slots)
        pairs_replace(task=task, excluded={*failed, *bots_unavailable_at_hosts()})
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
    """Close both chats, marking failed ones; return task and failed bots."""
    chats = pair_chats(slots=slots)
    failed = [chat for chat in chats if failure_of(chat) is not None]
    if not failed:
        raise CHAT_NOT_FAILED.refused()
    for chat in chats:
        chat.state = Conversation.State.FAILED if chat in failed else Conversation.State.ENDED
        if chat not in failed:
            due_set(chat)
        chat.ended_at = database_now()
        chat.save()
    task = chats[0].task
    assert task is not None, f"chat {chats[0].pk} without a task"
    return task, [chat.slot.bot_id for chat in failed if chat.slot]
