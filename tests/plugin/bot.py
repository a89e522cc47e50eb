"""A bot."""

from __future__ import annotations

from collections.abc import Sequence

from chatbots import Conversation
from chatbots.bots.base import BotDefaults
from chatbots.registry import register_bot


@register_bot
class Shout(BotDefaults):
    """Answers in capitals."""

    name = "shout"
    title = "Shout"

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        return [(c.turns[-1].text if c.turns else "hello").upper() for c in contexts]
