"""Start of a participant's task: the task, its chats and consent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from django.db import IntegrityError, transaction

from chatbots.bots.person import PERSON
from chatbots.registry import UnknownName
from webapp.bots.selectors import bot_find, bots_aside
from webapp.bots.services import bot_version_record
from webapp.conversations.heartbeats import bots_unavailable_at_hosts
from webapp.conversations.models import Conversation, PartnerSeat, Turn
from webapp.core.clock import database_now
from webapp.core.errors import Refused
from webapp.studies.assignment.capacity import NO_TASKS, TaskHistory
from webapp.studies.assignment.counterbalance import slots_grouped, slots_kept
from webapp.studies.conditions import Condition, condition_texts
from webapp.studies.languages import values_in
from webapp.studies.models import Participant, Slot, Study, StudyVersion, Task
from webapp.studies.services import (
    consent_given,
    consent_record,
    conversation_seed,
    pairs_replace,
    participant_create,
    participant_enter,
    task_bot_add,
    task_close,
    task_open,
)
from webapp.studies.start_refusals import StartRefusal


def task_enter(
    *,
    study: Study,
    platform: str,
    external_id: str,
    recruitment: dict[str, str],
    entry_nonce: str,
    is_synthetic: bool,
    chosen_bot: str = "",
    is_new: bool = False,
) -> Task:
    """Store participant, consent and task with its chats in one transaction.

    Args:
        study: this and the others as in `participant_enter`.
        chosen_bot: the bot that the participant chose; empty: the study's rule draws one.
        is_new: True if no participant with these ids existed a moment ago.

    Raises:
        Refused: as in `task_open`; no participant is stored then.
    """
    fields: dict[str, Any] = {
        "study": study,
        "platform": platform,
        "external_id": external_id,
        "recruitment": recruitment,
        "entry_nonce": entry_nonce,
        "is_synthetic": is_synthetic,
    }
    if is_new:
        # Duplicate: another request of the same participant was faster.
        with suppress(IntegrityError), transaction.atomic():
            participant = consent_record(participant=participant_create(**fields, **consent_given(study.version)))
            return task_start(
                participant=participant, version=study.version, chosen_bot=chosen_bot, task_history=NO_TASKS
            )
    with transaction.atomic():
        participant = consent_record(participant=participant_enter(**fields))
        return task_start(participant=participant, version=study.version, chosen_bot=chosen_bot)


def task_start(
    *,
    participant: Participant,
    exclude: Collection[str] = (),
    version: StudyVersion | None = None,
    chosen_bot: str = "",
    task_history: TaskHistory | None = None,
) -> Task:
    """Open the participant's next task with its chats.

    If a task is open, return that. Call this in a transaction, so that a task is never stored without its chats.

    Args:
        exclude, version: as `task_open`.
        chosen_bot: as `task_enter`.
        task_history: the participant's tasks, if this transaction stored the participant.

    Raises:
        Refused: as `task_open`.
    """
    exclude = {*exclude, *bots_unavailable_at_hosts()}
    task = task_open(
        participant=participant, exclude=exclude, version=version, chosen_bot=chosen_bot, history=task_history
    )
    task_chats(task=task, drawn_slots=task.drawn_slots)
    return task


def conversation_start(
    *, participant: Participant, exclude: Collection[str] = (), version: StudyVersion | None = None
) -> Conversation:
    """Open the participant's next task and return its first chat.

    As in `task_start`.
    """
    task = task_start(participant=participant, exclude=exclude, version=version)
    return task_chats(task=task)[0]


def task_chats(*, task: Task, drawn_slots: Sequence[Slot] = ()) -> list[Conversation]:
    """Return the task's chats in order, opening those that are due.

    Consecutive chats: each is opened when the previous one is over, and all opened so far are returned. Pairs: one pair
    is open at a time, the first that is unfinished.

    Args:
        drawn_slots: slots that this transaction stored, which saves loading them; they have no chats yet.

    Raises:
        Refused: `no_bot` if the bot of the next one is no longer registered.
    """
    current_slots = drawn_slots or slots_kept(task.slots.select_related("chat").order_by("order"))
    slots = [slot for slot in current_slots if slot.bot_id]
    existing = {} if drawn_slots else {slot.pk: slot.chat for slot in slots if hasattr(slot, "chat")}
    groups = slots_grouped(slots)
    pairs: list[tuple[Slot, ...]] = [group for group in groups if len(group) == 2]
    if pairs:
        done = {pk for pk, chat in existing.items() if chat.state != Conversation.State.OPEN}
        groups = [pair for pair in pairs if not done.issuperset(s.pk for s in pair)][:1]
    conversations: list[Conversation] = []
    for group in groups:
        chats = [existing.get(slot.pk) or _chat_open(task, slot, is_drawn=bool(drawn_slots)) for slot in group]
        conversations += chats
        if any(chat.state == Conversation.State.OPEN for chat in chats):
            break
    return conversations


def task_goes_on(*, task: Task) -> bool:
    """Open an incomplete task's next conversation; False without an available bot."""
    try:
        with transaction.atomic():
            _aside_replace(task)
            task_chats(task=task)
    except Refused:
        return False
    return True


def _aside_replace(task: Task) -> None:
    """Replace the task's coming bots that were disabled since it was drawn.

    Raises:
        Refused: if the task has nothing left.
    """
    coming = task.slots.filter(chat=None).exclude(bot_id="")
    aside = set(bots_aside(coming.values_list("bot_id", flat=True)))
    if not aside:
        return
    if coming.exclude(side="").exists():
        pairs_replace(task=task, excluded=aside, n_given_up=0)
        return
    for slot in coming.filter(bot_id__in=aside):
        with suppress(Refused):
            task_bot_add(task=task, exclude=bots_unavailable_at_hosts())
        slot.delete()
    if not coming.exists():
        raise StartRefusal.NO_BOT.refused()


def _chat_open(task: Task, slot: Slot, *, is_drawn: bool) -> Conversation:
    """Open the chat of a slot, with the bot's first message if any.

    The condition may define that message.

    Args:
        is_drawn: True if this transaction stored the slot, so that no second request can know it.
    """
    participant, study = task.participant, task.participant.study
    try:
        bot = bot_find(slot.bot_id)
    except UnknownName as error:
        raise StartRefusal.NO_BOT.refused() from error
    chat = Conversation(
        source=Conversation.Source.CHAT,
        bot=bot_version_record(bot=bot),
        study=study,
        participant=participant,
        slot=slot,
        seed=conversation_seed(study=study),
        is_synthetic=participant.is_synthetic,
        condition=slot.condition,
        sitting=task.sitting,
    )
    # A slot has one conversation; keep that of a faster second request.
    Conversation.objects.bulk_create([chat], ignore_conflicts=True)
    if not is_drawn:
        chat = Conversation.objects.get(slot=slot)
    if chat.bot.kind == PERSON:
        PartnerSeat.objects.bulk_create([PartnerSeat(conversation=chat)], ignore_conflicts=True)
    if slot.condition and (opening := _opening_read(task, slot.condition, participant.language)):
        first = Turn(conversation=chat, index=0, speaker=Turn.Speaker.BOT, text=opening)
        Turn.objects.bulk_create([first], ignore_conflicts=True)
    return chat


def _opening_read(task: Task, condition: Condition, language: str) -> str:
    return condition_texts(values_in(task.version.values, language), condition).opening


def chat_elsewhere_close(*, participant: Participant, submission: str) -> None:
    """Handle a visitor with the platform id but no session or token.

    The visit in which the open task was assigned leads back to it. Another visit may be the same participant with
    another task, or another person: it never gets the open task, which is closed if it has been idle for a while. A
    chat stays stored, and the participant with its session can still finish it.

    Raises:
        Refused: `elsewhere` while the open chat is in use.
    """
    task = _task_open_of(participant)
    if task is None or (submission and task.submission == submission):
        return
    _idle_check(task)
    task_close(task=task, state=Task.State.EXPIRED)


def task_elsewhere_check(*, participant: Participant) -> None:
    """Check that no page is currently using the participant's open task.

    Raises:
        Refused: `elsewhere` while a page is.
    """
    task = _task_open_of(participant)
    if task is not None:
        _idle_check(task)


def _task_open_of(participant: Participant) -> Task | None:
    return participant.tasks.filter(state=Task.State.OPEN).select_related("version").first()


def _idle_check(task: Task) -> None:
    newest = Turn.objects.filter(conversation__slot__task=task).order_by("created_at").last()
    # The task itself records that a judgement was stored.
    active_at = max(newest.created_at, task.updated_at) if newest else task.updated_at
    if database_now() - active_at < task.version.values.assignment.idle_after:
        raise StartRefusal.ELSEWHERE.refused()
