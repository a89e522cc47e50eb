"""Reads of the participant's pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from webapp.conversations.models import Conversation
from webapp.participant.ownership import session_participant_id
from webapp.participant.recruitment import Recruitment
from webapp.studies.models import Participant, Study
from webapp.studies.outcomes import Ending, ending_of, endings_of, tasks_with_endings


def participant_known(
    *, session: Any, study: Study, recruitment: Recruitment, token_of: Participant | None
) -> Participant | None:
    """The participant that this visit belongs to: by token, platform id, session or form, in this order.

    A platform id names one person, so a session that knows someone else does not override it. A form that
    was sent twice belongs to whom its first arrival made.
    """
    if token_of is not None:
        return token_of
    if recruitment.external_id:
        return Participant.objects.filter(
            study=study, platform=recruitment.platform, external_id=recruitment.external_id
        ).first()
    participants = Participant.objects.filter(study=study)
    known = session_participant_id(session, study.key)
    participant = participants.filter(pk=known).first() if known else None
    if participant is None and recruitment.nonce:
        participant = participants.filter(entry_nonce=recruitment.nonce).first()
    return participant


def speaks_for(
    *,
    session: Any,
    participant: Participant,
    recruitment: Recruitment,
    token_of: Participant | None,
) -> bool:
    """Whether session, token or form stand for the participant; a platform id in a link does not."""
    if token_of is not None and token_of.pk == participant.pk:
        return True
    if recruitment.nonce and recruitment.nonce == participant.entry_nonce:
        return True
    return session_participant_id(session, participant.study.key) == participant.pk


def codes_shown(
    *, participant: Participant, recruitment: Recruitment, is_theirs: bool
) -> list[Ending]:
    """The codes this visit may read: all for the session or token, else those of the same visit."""
    submission = recruitment.submission
    return [
        ending
        for ending in endings_of(participant)
        if ending.code and (is_theirs or (submission and ending.task.submission == submission))
    ]


def visit_ending(
    *, participant: Participant, recruitment: Recruitment, is_theirs: bool
) -> Ending | None:
    """How the chat of this visit ended; None while it goes on, and for whom it is none of theirs.

    A platform's id of a visit is known to the platform and to this person alone, so it opens what came of
    that visit, in any browser. Without one, session or token must speak for the person.
    """
    tasks = tasks_with_endings(participant.tasks.order_by("-created_at", "-pk"))
    if recruitment.submission:
        tasks = tasks.filter(submission=recruitment.submission)
    elif not is_theirs:
        return None
    newest = tasks.first()
    return ending_of(newest) if newest else None


def conversation_open_id(participant: Participant) -> UUID | None:
    """The participant's open conversation."""
    return (
        Conversation.objects.filter(participant=participant, state=Conversation.State.OPEN)
        .values_list("pk", flat=True)
        .first()
    )
