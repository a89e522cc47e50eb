"""Control bots, deliberately poor: generic replies, and repeated messages.

Dull replies are a known weakness of neural dialogue models (Li et al. 2016, "A Diversity-Promoting Objective Function
for Neural Conversation Models", NAACL), so a measure should see through them. Any measure of quality must put the
parrot near the bottom.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from chatbots.bots.base import BotDefaults
from chatbots.conversation import Conversation
from chatbots.registry import register_bot

GENERIC_REPLIES = (
    "I don't know.",
    "That's nice.",
    "Okay.",
    "I see.",
    "I'm not sure.",
    "Yes, I think so.",
    "That's interesting.",
    "I don't know what you mean.",
)


@register_bot
class GenericBot(BotDefaults):
    """Control bot that draws one of a few empty phrases."""

    name = "generic"
    title = "Generic (control)"
    description = "A deliberately poor control: always answers with empty phrases such as “I see.”"
    kind = "control"
    is_control = True
    capacity = 1024

    @property
    def params(self) -> dict[str, Any]:
        return {"replies": list(GENERIC_REPLIES)}

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Draw one of `GENERIC_REPLIES` per context by the context's seed."""
        return [random.Random(context.reply_seed).choice(GENERIC_REPLIES) for context in contexts]


PARROT_OPENER = "Hello."


@register_bot
class ParrotBot(BotDefaults):
    """Bot that repeats the participant's last message, word for word."""

    name = "parrot"
    title = "Parrot (control)"
    description = "A deliberately poor control: repeats the participant's last message word for word."
    kind = "control"
    is_control = True
    capacity = 1024

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Return the participant's last message per context; without one, a greeting."""
        return [_last_human(context) for context in contexts]


def _last_human(context: Conversation) -> str:
    messages = (turn.text for turn in reversed(context.turns) if turn.speaker == "human")
    return next((text for text in messages if text.strip()), PARROT_OPENER)
