"""Bots for whole-server tests, brought in by `CONFAB_PLUGINS=tests.plugin_bots`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from tempfile import gettempdir

from chatbots import Conversation
from chatbots.base import BotDefaults, BotError
from chatbots.registry import register_bot

SLOW_WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]


class _Test(BotDefaults):
    kind = "test"


@register_bot
class SlowStream(_Test):
    """Twelve words, four a second, the same every time; numbered by the turn it answers."""

    name = "test-slow"
    title = "Slow"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        yield f"Reply {len(context.turns)}:"
        for word in SLOW_WORDS:
            await asyncio.sleep(0.25)
            yield f" {word}"


@register_bot
class Quick(_Test):
    """Answers at once, in one piece, and numbers its answers."""

    name = "test-quick"
    title = "Quick"

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        return [f"Reply {len(c.turns)} to: {c.turns[-1].text}" for c in contexts]


@register_bot
class Failing(_Test):
    """Never answers. Where the file `mend_file()` exists it answers."""

    name = "test-failing"
    title = "Failing"

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        if mend_file().exists():
            return ["Here I am again." for _ in contexts]
        raise BotError("this bot fails on purpose")


@register_bot
class Hanging(_Test):
    """Never comes back."""

    name = "test-hanging"
    title = "Hanging"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        await asyncio.sleep(3600)
        yield "never"


@register_bot
class Broken(_Test):
    """Cannot be loaded."""

    name = "test-broken"
    title = "Broken"

    def unavailable_reason(self) -> str | None:
        return "its weights are not here"

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        raise AssertionError("must never be asked")


def mend_file() -> Path:
    """Its presence mends the failing bot."""
    import os

    return Path(os.environ.get("CONFAB_DATA_DIR", gettempdir())) / "mended"
