"""Bots for whole-server tests, brought in by `CONFAB_PLUGINS=tests.plugin_bots`."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from tempfile import gettempdir

from chatbots import Conversation
from chatbots.bots.base import BotDefaults, BotError, ContentRefused
from chatbots.bots.eliza import ElizaBot
from chatbots.registry import register_bot
from chatbots.trace import CallDelta, current_trace
from tests.hostile import HOSTILE_ERRORS, HOSTILE_REPLIES, raise_it

SLOW_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


class _Test(BotDefaults):
    kind = "test"


@register_bot
class SlowStream(_Test):
    """Thinks, calls a tool, and says twelve words, four a second; numbered by the turn it answers."""

    name = "test-slow"
    title = "Slow"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        trace = current_trace()
        trace.think("I look up <b>words</b>.")
        trace.call([CallDelta(index=0, name="lookup", arguments='{"words": 12}')])
        trace.call([CallDelta(index=0, result="w" * 500, failed=True)])
        trace.close()
        yield f"Reply {len(context.turns)}:"
        for word in SLOW_WORDS:
            await asyncio.sleep(0.25)
            yield f" {word}"


@register_bot
class Quick(_Test):
    """Answers at once, in one piece, and numbers its answers."""

    name = "test-quick"
    title = "Quick"
    takes_images = True

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        return [f"Reply {len(c.turns)} to: {c.texts[-1] if c.turns else 'nothing'}" for c in contexts]


@register_bot
class Filtered(_Test):
    """Answers, but a filter refuses messages about bombs."""

    name = "test-filtered"
    title = "Filtered"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        if any("bomb" in text for text in context.texts):
            raise ContentRefused("the response was filtered")
        yield f"Reply {len(context.turns)}"


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


@register_bot
class HangingThread(_Test):
    """Never comes back from a call in a thread, which nobody can stop."""

    name = "test-hanging-thread"
    title = "Hanging thread"

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        threading.Event().wait(3600)
        raise AssertionError("must not be waited for")


def _hostile(trouble: str, do: Callable[[], str]) -> type[_Test]:
    def answer(self: _Test, contexts: Sequence[Conversation]) -> list[str]:
        return [do() for _ in contexts]

    name = f"test-hostile-{trouble}"
    return type(trouble, (_Test,), {"name": name, "title": name, "answer": answer})


HOSTILE_BOTS = [
    *(_hostile(name, lambda text=text: text) for name, text in HOSTILE_REPLIES.items()),
    *(_hostile(name, lambda error=error: raise_it(error)) for name, error in HOSTILE_ERRORS.items()),
]
for _bot in HOSTILE_BOTS:
    register_bot(_bot)


@register_bot
class HostileSplit(_Test):
    """Breaks characters apart between two pieces, as endpoints do that send token by token."""

    name = "test-hostile-split"
    title = "Split"

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        for piece in ("A face: \ud83d", "\ude00, a half: \ud83d", "\x00", "x", "\ud83d"):
            yield piece


@register_bot
class HostileEndless(_Test):
    """Never stops talking; `n_pieces` counts what was read of it."""

    name = "test-hostile-endless"
    title = "Endless"
    n_pieces = 0

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        while True:
            HostileEndless.n_pieces += 1
            yield "and another thing, " * 50
            await asyncio.sleep(0)


@register_bot
class HeldEliza(ElizaBot):
    """Answers as ELIZA does. After `HELD_AFTER` replies of a process it waits as long as `hold_file()` exists."""

    name = "test-held"
    title = "Held"
    capacity = 32
    HELD_AFTER = 300  # beyond a batch of 32 conversations of 8 turns, which is stored, and within the next
    n_replies = 0

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        while HeldEliza.n_replies >= self.HELD_AFTER and hold_file().exists():
            time.sleep(0.02)
        HeldEliza.n_replies += len(contexts)
        return super().answer(contexts)


def mend_file() -> Path:
    """Return the file whose presence mends the failing bot."""
    return _data_folder() / "mended"


def hold_file() -> Path:
    """Return the file whose presence stops `HeldEliza` in the middle of its work."""
    return _data_folder() / "held"


def _data_folder() -> Path:
    return Path(os.environ.get("CONFAB_DATA_DIR", gettempdir()))
