"""Queries for participants' pages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from webapp.bots.selectors import bot_name
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.participant.access import known_in_study
from webapp.participant.recruitment_links import Recruitment
from webapp.studies.assignment.counterbalance import slots_grouped, slots_kept
from webapp.studies.models import Outcome, Participant, Slot, Study, Task
from webapp.studies.recruitment.completion import TaskEnding, ending_of, endings_of, tasks_with_endings
from webapp.studies.selectors import earlier_studies_refusal, rehearsal_token_valid, study_refusal


def participant_known(
    *, session: Any, study: Study, recruitment: Recruitment, token_of: Participant | None
) -> Participant | None:
    """Return the participant of this visit.

    They are found by token, platform id, session or form, in this order.

    A platform id identifies one person, so a session of another participant does not override it. A form submitted
    twice belongs to the participant created the first time. For sessions of devices that were left see `has_left`.
    """
    if token_of is not None:
        return token_of
    known = known_in_study(session, study.key)
    if known and not recruitment.external_id:
        participant = Participant.objects.filter(study=study, pk=known[0]).first()
        if participant is not None:
            return participant
    return participant_of_form(study, recruitment)


def participant_of_form(study: Study, recruitment: Recruitment) -> Participant | None:
    """Return the participant with this platform id or of the same form.

    The form may have been submitted before. None if there is none.
    """
    participants = Participant.objects.filter(study=study).select_related("platform_ids")
    if recruitment.external_id:
        return participants.filter(
            platform_ids__platform=recruitment.platform, platform_ids__external_id=recruitment.external_id
        ).first()
    if recruitment.nonce:
        return participants.filter(entry_nonce=recruitment.nonce).first()
    return None


def start_refusal(study: Study, participant: Participant | None, recruitment: Recruitment) -> Refused | None:
    """Return the reason why this visitor cannot start a task.

    None if they can.

    Scripted participants do not count towards quotas. Earlier studies are checked once, when a new visitor arrives.
    """
    is_rehearsal = participant is None and rehearsal_token_valid(study, recruitment.rehearsal)
    refusal = study_refusal(study, participant, is_rehearsal=is_rehearsal)
    if refusal is not None or participant is not None or is_rehearsal:
        return refusal
    return earlier_studies_refusal(study, recruitment.platform, recruitment.external_id)


def speaks_for(
    *, session: Any, participant: Participant, recruitment: Recruitment, token_of: Participant | None
) -> bool:
    """Return True if the session, token or form identifies the participant.

    A platform id in a link does not.
    """
    if token_of is not None and token_of.pk == participant.pk:
        return True
    if recruitment.nonce and recruitment.nonce == participant.entry_nonce:
        return True
    known = known_in_study(session, participant.study.key)
    return known == (participant.pk, participant.n_moves)


def has_left(session: Any, participant: Participant) -> bool:
    """Return True if this session's participant has continued on another device since."""
    known = known_in_study(session, participant.study.key)
    return known is not None and known[0] == participant.pk and known[1] != participant.n_moves


def codes_shown(*, participant: Participant, recruitment: Recruitment, is_theirs: bool) -> list[TaskEnding]:
    """Return the codes that this visit may read.

    All for the session or token, otherwise those of the same visit.
    """
    submission = recruitment.submission
    return [
        ending
        for ending in endings_of(participant)
        if ending.code and (is_theirs or (submission and ending.task.submission == submission))
    ]


def visit_ending(*, participant: Participant, recruitment: Recruitment, is_theirs: bool) -> TaskEnding | None:
    """Return the outcome of this visit's task.

    None while it is open, or if it is another participant's.

    Only the platform and the participant know the platform's id of a visit, so it opens that visit's outcome in
    any browser. Without one, the session or token must identify the participant.
    """
    tasks = tasks_with_endings(participant.tasks.order_by("-created_at", "-pk"))
    if recruitment.submission:
        tasks = tasks.filter(submission=recruitment.submission)
    elif not is_theirs:
        return None
    newest = tasks.first()
    return ending_of(newest) if newest else None


def conversation_open(participant: Participant) -> Conversation | None:
    """Return the participant's open chat."""
    return (
        Conversation.objects.filter(participant=participant, state=Conversation.State.OPEN)
        .select_related("study__version", "participant", "slot__task__version__rubric")
        .order_by("slot__order")
        .first()
    )


def task_under_way(participant: Participant) -> Task | None:
    """Return the participant's open task."""
    return (
        participant.tasks.filter(state=Task.State.OPEN)
        .select_related("participant__study__version", "version__rubric")
        .first()
    )


def task_chat_now(task: Task) -> Conversation | None:
    """Return the task's current chat: the open one, or the last.

    None without any.
    """
    chats = list(Conversation.objects.filter(slot__task=task).order_by("slot__order"))
    is_open = (chat for chat in chats if chat.state == Conversation.State.OPEN)
    return next(is_open, chats[-1] if chats else None)


def chats_by_slot(slots: Collection[Slot]) -> dict[int, Conversation]:
    """Return the chats of these slots by the slots' keys."""
    return {chat.slot_id: chat for chat in Conversation.objects.filter(slot__in=slots) if chat.slot_id is not None}


def bots_revealed(task: Task) -> list[tuple[str, str]]:
    """Return the names of A and B of each comparison.

    Empty while they must not be shown.
    """
    if task.outcome != Outcome.RATED or not task.version.values.arena.reveals_bots:
        return []
    groups = slots_grouped(slots_kept(task.slots.order_by("order")))
    pairs = [group for group in groups if len(group) == 2 and group[0].bot_id]
    return [(bot_name(first.bot_id), bot_name(second.bot_id)) for first, second in pairs]
