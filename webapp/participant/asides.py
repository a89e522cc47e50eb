"""The researchers' question in the middle of a chat, as its page shows it; in an arena both conversations have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webapp.conversations.chat_checks import chat_checks_left
from webapp.conversations.models import Conversation
from webapp.studies.models import StudyVersion


def aside_shown(chats: Sequence[Conversation], version: StudyVersion) -> dict[str, Any]:
    """Return the question that is due, and after how many messages the next ones are.

    Args:
        chats: the chat; or both of an arena, of which the first keeps the answers. A message counts once both
            have answered it.
    """
    first, n_answered = chats[0], min(chat.n_exchanges for chat in chats)
    left = chat_checks_left(first, version)
    due = next((one for one in left if one.after <= n_answered), None)
    return {
        "aside": due,
        # Only scripted participants get the right answers.
        "aside_right": due.expected[0] if due and first.is_synthetic else "",
        "asks_after": [one.after for one in left if one != due],
    }
