"""Who asks: the participants of this browser's session, or the one of a signed token.

A session keeps the id of every participant it became (one a study). Recruitment frames have no
cookies; their links carry a signed token instead (`studies.selectors.participant_token`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from webapp.studies.models import Participant
from webapp.studies.selectors import participant_id_from_token

_SESSION_KEY = "participants"


def participant_remember(session: Any, participant: Participant) -> None:
    """Make the session this participant's, in this study."""
    session[_SESSION_KEY] = {
        **session.get(_SESSION_KEY, {}),
        participant.study.key: str(participant.pk),
    }


def session_participant_id(session: Any, study_key: str) -> UUID | None:
    """Return the id that this session has in the study, if any."""
    value = session.get(_SESSION_KEY, {}).get(study_key)
    return UUID(value) if value else None


def participant_ids(session: Any, token: str) -> list[UUID]:
    """Return every participant that the session or the token speaks for."""
    ids = [UUID(value) for value in session.get(_SESSION_KEY, {}).values()]
    from_token = participant_id_from_token(token) if token else None
    return [*ids, from_token] if from_token else ids
