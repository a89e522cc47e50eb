"""A control: always answers in a way that fits everything and means nothing.

Dull replies are the known weakness of neural dialogue models (Li et al. 2016, "A Diversity-Promoting
Objective Function for Neural Conversation Models", NAACL), so a measure should see through them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from chatbots.base import BotDefaults
from chatbots.conversation import Conversation
from chatbots.registry import register_bot

REPLIES = (
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
    """Draws one of a few empty phrases, whatever was said."""

    name = "generic"
    title = "Generic (control)"
    description = "A deliberately poor control: empty phrases such as “I see.”, whatever was said."
    kind = "control"
    is_control = True
    capacity = 1024

    @property
    def params(self) -> dict[str, Any]:
        return {"replies": list(REPLIES)}

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        """Return one of `REPLIES` for each context, chosen by the context's seed alone."""
        return [random.Random(context.reply_seed).choice(REPLIES) for context in contexts]
