"""Reads of the participant's pages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from webapp.conversations.models import Conversation
from webapp.participant.ownership import session_participant_id
from webapp.participant.recruitment import Recruitment
from webapp.studies.models import Assignment, Participant, Study
from webapp.studies.selectors import completion_codes


def participant_known(
    *, session: Any, study: Study, recruitment: Recruitment, token_of: Participant | None
) -> Participant | None:
    """The participant that this visit belongs to: by token, platform id or session, in this order.

    A platform id names one person, so a session that knows someone else does not override it.
    """
    if token_of is not None:
        return token_of
    if recruitment.external_id:
        return Participant.objects.filter(
            study=study, platform=recruitment.platform, external_id=recruitment.external_id
        ).first()
    known = session_participant_id(session, study.key)
    return Participant.objects.filter(pk=known, study=study).first() if known else None


def speaks_for(*, session: Any, participant: Participant, token_of: Participant | None) -> bool:
    """Whether session or token stand for the participant; a platform id in a link does not."""
    if token_of is not None and token_of.pk == participant.pk:
        return True
    return session_participant_id(session, participant.study.key) == participant.pk


def codes_shown(
    *, participant: Participant, recruitment: Recruitment, is_theirs: bool
) -> list[Assignment]:
    """The codes this visit may read: all for the session or token, else those of the same visit."""
    earned = completion_codes(participant)
    if is_theirs:
        return list(earned)
    submission = recruitment.submission
    return [a for a in earned if submission and a.submission == submission]


def conversation_open_id(participant: Participant) -> UUID | None:
    """The participant's open conversation."""
    return (
        Conversation.objects.filter(participant=participant, state=Conversation.State.OPEN)
        .values_list("pk", flat=True)
        .first()
    )
