"""Identity of a request: the participants of this browser's session, or the one of a signed token.

A session stores each of its participants (one a study) with their number of moves to another device at that time.
Recruitment frames have no cookies; their links carry the same in a signed token. After a later move, the session
and token of the earlier device are no longer valid (`webapp/studies/moving.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from webapp.studies.models import Participant
from webapp.studies.selectors import known_as, known_read, token_read

_SESSION_KEY = "participants"

Known = Mapping[UUID, int]
"""Ids of participants, and how often each had moved when this browser became them."""


def participant_remember(session: Any, participant: Participant) -> None:
    """Make the session this participant's, in this study."""
    session[_SESSION_KEY] = {
        **session.get(_SESSION_KEY, {}),
        participant.study.key: known_as(participant),
    }


def known_in_study(session: Any, study_key: str) -> tuple[UUID, int] | None:
    """Return the session's participant in the study and their number of moves; None without one."""
    value = session.get(_SESSION_KEY, {}).get(study_key)
    return known_read(value) if value else None


def known_of(session: Any, token: str) -> Known:
    """Return every participant that the session or the token has stood for."""
    found: dict[UUID, int] = {}
    values = [*session.get(_SESSION_KEY, {}).values()]
    pairs = [known_read(value) for value in values]
    if token and (named := token_read(token)):
        pairs.append(named)
    for person, n_moves in pairs:
        found[person] = max(n_moves, found.get(person, 0))
    return found


def sessions_forget(people: Collection[UUID]) -> None:
    """Remove erased participants from browsers' sessions; SQL cannot query the content of a session."""
    for session in Session.objects.iterator(chunk_size=500):
        held = session.get_decoded()
        known = held.get(_SESSION_KEY, {})
        kept = {study: one for study, one in known.items() if known_read(one)[0] not in people}
        if len(kept) < len(known):
            session.session_data = SessionStore().encode({**held, _SESSION_KEY: kept})
            session.save(update_fields=["session_data"])


def is_here(known: Known, participant: Participant) -> bool:
    """Return True if the participant has not continued on another device since."""
    return known.get(participant.pk) == participant.n_moves
