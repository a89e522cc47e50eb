"""Writes that exclude finished conversations from all results, and include them again.

An excluded conversation has a state of its own, so everything that counts completed conversations leaves it out:
results, metrics, fits, judging studies and exports. Its texts and ratings stay, and the participant's outcome and pay
do not change.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from webapp.conversations.models import Conversation
from webapp.core.clock import database_now


def conversations_exclude(*, ids: Collection[UUID]) -> int:
    """Exclude completed conversations from all results.

    Returns their number.
    """
    return _change_state(ids, Conversation.State.COMPLETED, Conversation.State.EXCLUDED)


def conversations_include(*, ids: Collection[UUID]) -> int:
    """Include excluded conversations in the results again; return their number."""
    return _change_state(ids, Conversation.State.EXCLUDED, Conversation.State.COMPLETED)


def _change_state(ids: Collection[UUID], before: str, after: str) -> int:
    rows = Conversation.objects.filter(pk__in=ids, state=before)
    # Stored results are current only while the newest change of their conversations is the same.
    return rows.update(state=after, updated_at=database_now())
