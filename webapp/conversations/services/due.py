"""Columns of a conversation that define its due reply; they are always set together."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from webapp.conversations.models import Conversation

NOTHING_DUE: dict[str, Any] = {
    "due_turn": None,
    "due_since": None,
    "due_lease": None,
    "due_lease_until": None,
    "due_error": "",
    "due_attempts": 0,
    "due_retries": 0,
    "due_ready_at": None,
}


def due_set(
    conversation: Conversation, *, turn: int | None = None, since: datetime | None = None
) -> None:
    """Put on the unsaved row which reply is due; without a turn: none."""
    for name, value in {**NOTHING_DUE, "due_turn": turn, "due_since": since}.items():
        setattr(conversation, name, value)
