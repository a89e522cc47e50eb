"""A control: repeats the participant. Any measure of quality must put it near the bottom."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots.base import BotDefaults
from chatbots.conversation import Conversation
from chatbots.registry import register_bot

OPENER = "Hello."


@register_bot
class ParrotBot(BotDefaults):
    """Bot that repeats the participant's last message, word for word."""

    name = "parrot"
    title = "Parrot (control)"
    description = (
        "A deliberately poor control: repeats the participant's last message word for word."
    )
    kind = "control"
    is_control = True
    capacity = 1024

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Repeat each participant's last turn; answer with a greeting where there is none yet."""
        return [_last_human(context) for context in contexts]


def _last_human(context: Conversation) -> str:
    said = (turn.text for turn in reversed(context.turns) if turn.speaker == "human")
    return next((text for text in said if text.strip()), OPENER)
