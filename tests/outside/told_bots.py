"""Bots that number their replies and break where a message tells them to; `CONFAB_PLUGINS=tests.outside.told_bots`."""

from collections import Counter
from collections.abc import AsyncIterator

from chatbots import Conversation
from chatbots.bots.base import BotDefaults, BotError
from chatbots.registry import register_bot
from tests.outside.orders import BREAKS, BREAKS_ONCE, NAMES

_ASKED: Counter[tuple[str, int]] = Counter()


class _Told(BotDefaults):
    kind = "test"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        turn, text = (context.id, len(context.turns)), context.texts[-1]
        _ASKED[turn] += 1
        if text == BREAKS or (text == BREAKS_ONCE and _ASKED[turn] == 1):
            raise BotError("it was told to break")
        yield f"Reply {len(context.turns)}."


for _name in NAMES:
    register_bot(type(_name, (_Told,), {"name": _name, "title": _name.capitalize()}))
