"""Scripted, slow, failing and hanging bots of each of the three kinds, for tests.

One class per kind, all with the same keywords (`_Script`). By default a fake answers
`echo: <last utterance>`, word by word where its kind can. What goes wrong is chosen per conversation
by a predicate, for example `fails=says("boom")`:

    FakeWholeBot(name="slow", delay_s=0.2)
    FakeStepBot(name="bad", raises=says("boom"))        # step raises: the whole batch is hit
    FakeStreamBot(name="stuck", hangs=says("stuck"))

A hanging bot hangs until `release()` is called, so that a test can let its threads go.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from chatbots.bots.base import BotDefaults, BotError, Piece
from chatbots.conversation import Conversation

Chooser = Callable[[Conversation], bool]


def says(word: str) -> Chooser:
    """Return a test that is true for conversations whose last utterance contains `word`."""
    return lambda context: word in last_text(context)


def never(context: Conversation) -> bool:
    """Return False: the default of every trouble, which no conversation has."""
    return False


def last_text(context: Conversation) -> str:
    """Return the last utterance, or "nothing" for an empty conversation."""
    return context.texts[-1] if context.turns else "nothing"


def echo(context: Conversation) -> str:
    """Return the default reply of every fake."""
    return f"echo: {last_text(context)}"


def words_of(reply: Any) -> list[Any]:
    """Return a reply in pieces that joined give the reply; what is not text is one piece."""
    if not isinstance(reply, str):
        return [reply]
    parts = reply.split(" ")
    return [part if i == 0 else f" {part}" for i, part in enumerate(parts)]


class _Script(BotDefaults):
    """What all fakes share.

    Args:
        name, title: as of any bot.
        reply: the whole reply to a context (anything but text is a bug of the bot, on purpose).
        replies: instead of `reply`: the reply to the context's n-th bot turn, over and over.
        delay_s: seconds each step, piece or `answer` takes.
        fails: contexts whose reply alone fails, with the error "scripted failure". (A `FakeWholeBot`
            cannot fail one reply alone: its whole call raises.)
        fails_after: pieces already sent when it fails or hangs, for kinds that send pieces.
        raises: contexts whose presence makes the whole call (`admit`, `step` or `answer`) raise.
        raises_in: "step" or "admit", for the step kind.
        raises_times: how often `raises` strikes in all; then the bot is well again. None: always.
        hangs: contexts whose presence makes the call hang until `release()`.
        capacity: most replies under way at once.
        load_error: text of the exception `load` raises; None: it loads.
        load_delay_s: seconds `load` takes.
        unavailable: what `unavailable_reason` says.

    Attributes, for assertions: `loads`, `unloads` (counts); `batches`: the conversation ids of every
    `admit`, `answer` or `stream` call, in order; `cancelled`: ids whose slot or stream was cancelled;
    `threads`: idents of the threads that computed; `most_at_once`: most replies seen under way.
    """

    kind = "fake"

    def __init__(
        self,
        *,
        name: str = "fake",
        title: str = "",
        reply: Callable[[Conversation], Any] = echo,
        replies: Sequence[str] | None = None,
        delay_s: float = 0.0,
        fails: Chooser = never,
        fails_after: int = 0,
        raises: Chooser = never,
        raises_in: str = "step",
        raises_times: int | None = None,
        hangs: Chooser = never,
        capacity: int = 64,
        load_error: str | None = None,
        load_delay_s: float = 0.0,
        unavailable: str | None = None,
    ) -> None:
        self.name = name
        self.title = title or name
        self._reply = reply
        self._replies = list(replies) if replies is not None else None
        self.delay_s = delay_s
        self.fails = fails
        self.fails_after = fails_after
        self.raises = raises
        self.raises_in = raises_in
        self.raises_left = raises_times
        self.hangs = hangs
        self.capacity = capacity
        self.load_error = load_error
        self.load_delay_s = load_delay_s
        self.unavailable = unavailable
        self.loads = 0
        self.unloads = 0
        self.batches: list[list[str]] = []
        self.cancelled: list[str] = []
        self.threads: set[int] = set()
        self.most_at_once = 0
        self._released = threading.Event()

    @property
    def params(self) -> dict:
        return {"replies": self._replies} if self._replies is not None else {}

    def reply_to(self, context: Conversation) -> Any:
        """Return the scripted reply to one context."""
        if self._replies is not None:
            n_before = sum(turn.speaker == "bot" for turn in context.turns)
            return self._replies[n_before % len(self._replies)]
        return self._reply(context)

    def unavailable_reason(self) -> str | None:
        return self.unavailable

    def load(self, device: str) -> None:
        self.loads += 1
        if self.load_delay_s:
            time.sleep(self.load_delay_s)
        if self.load_error is not None:
            raise BotError(self.load_error)

    def unload(self) -> None:
        self.unloads += 1

    def release(self) -> None:
        """Let every hanging call go on, now and later."""
        self._released.set()

    def _trouble(self, contexts: Sequence[Conversation]) -> None:
        """Be slow, hang or raise, as the script says of these contexts."""
        self.threads.add(threading.get_ident())
        if self.delay_s:
            time.sleep(self.delay_s)
        if any(self.hangs(context) for context in contexts):
            self._released.wait(60)
        self._strike(contexts)

    def _strike(self, contexts: Sequence[Conversation]) -> None:
        if self.raises_left != 0 and any(self.raises(context) for context in contexts):
            if self.raises_left is not None:
                self.raises_left -= 1
            raise RuntimeError("scripted trouble")

    def _saw(self, n: int) -> None:
        self.most_at_once = max(self.most_at_once, n)


class FakeWholeBot(_Script):
    """Answers whole; `fails` and `raises` both make the call raise."""

    def answer(self, contexts: Sequence[Conversation]) -> list[str]:
        self.batches.append([context.id for context in contexts])
        self._saw(len(contexts))
        self._trouble(contexts)
        if any(self.fails(context) for context in contexts):
            raise RuntimeError("scripted failure")
        return [self.reply_to(context) for context in contexts]


class FakeStepBot(_Script):
    """One word of every reply per step."""

    def __init__(self, **script: Any) -> None:
        super().__init__(**script)
        self.n_generations = 0
        self.n_steps = 0

    def start(self) -> FakeGeneration:
        self.n_generations += 1
        return FakeGeneration(self)


class FakeGeneration:
    """The running batch of a `FakeStepBot`."""

    def __init__(self, bot: FakeStepBot) -> None:
        self.bot = bot
        self.contexts: dict[int, Conversation] = {}
        self.left: dict[int, deque[Any]] = {}
        self.sent: dict[int, int] = {}
        self.n_slots = 0

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        self.bot.batches.append([context.id for context in contexts])
        if self.bot.raises_in == "admit":
            self.bot._strike(contexts)
        slots = []
        for context in contexts:
            slot = self.n_slots
            self.n_slots += 1
            self.contexts[slot] = context
            self.left[slot] = deque(words_of(self.bot.reply_to(context)))
            self.sent[slot] = 0
            slots.append(slot)
        self.bot._saw(len(self.contexts))
        return slots

    def step(self) -> list[Piece]:
        self.bot.n_steps += 1
        after = self.bot.fails_after
        troubled = [c for slot, c in self.contexts.items() if self.sent[slot] >= after]
        self.bot._trouble(troubled if self.bot.raises_in == "step" else [])
        pieces = []
        for slot, context in list(self.contexts.items()):
            if self.bot.fails(context) and self.sent[slot] >= self.bot.fails_after:
                pieces.append(Piece(slot, error="scripted failure"))
                self._drop(slot)
                continue
            text = self.left[slot].popleft()
            self.sent[slot] += 1
            done = not self.left[slot]
            pieces.append(Piece(slot, text, done))
            if done:
                self._drop(slot)
        return pieces

    def cancel(self, slot: int) -> None:
        if slot in self.contexts:
            self.bot.cancelled.append(self.contexts[slot].id)
            self._drop(slot)

    def _drop(self, slot: int) -> None:
        del self.contexts[slot], self.left[slot], self.sent[slot]


class FakeStreamBot(_Script):
    """Sends the words one by one on the event loop; `fails` and `raises` both raise."""

    def __init__(self, **script: Any) -> None:
        super().__init__(**script)
        self._under_way = 0

    async def stream(self, context: Conversation) -> AsyncIterator[str]:
        self.batches.append([context.id])
        self._under_way += 1
        self._saw(self._under_way)
        try:
            for i, word in enumerate(words_of(self.reply_to(context))):
                await asyncio.sleep(self.delay_s)
                if i >= self.fails_after:
                    if self.hangs(context):
                        await asyncio.sleep(3600)
                    if self.fails(context) or self.raises(context):
                        raise RuntimeError("scripted failure")
                yield word
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.append(context.id)
            raise
        finally:
            self._under_way -= 1
