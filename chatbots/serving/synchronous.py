"""`reply`: drive a loaded bot of any kind to the end of its replies, for self-play, terminal and tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from chatbots.bots.base import Bot, BotError, StepBot, StreamBot, WholeBot
from chatbots.conversation import Conversation
from chatbots.serving.drivers import Abandoned, Driver, StepDriver, WholeDriver
from chatbots.serving.request import ReplyEvent, ReplyRequest
from chatbots.serving.workers import StreamRunner
from chatbots.trace import TraceLog, TraceStep, listen_to_trace

_GRACE_S = 1.0
"""A stream that is told to stop may take so long to let go before its thread is given up."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One of `text` and `error` is set."""

    text: str | None
    error: str | None = None
    trace: tuple[TraceStep, ...] = ()


def driver_for(bot: Bot) -> Driver | None:
    """Return the driver of a step or whole bot, or None for a stream bot, which needs an event loop.

    Raises:
        BotError: if the bot is of no kind.
    """
    if hasattr(bot, "start"):
        return StepDriver(cast(StepBot, bot))
    if hasattr(bot, "stream"):
        return None
    if hasattr(bot, "answer"):
        return WholeDriver(cast(WholeBot, bot))
    raise BotError(f"{bot.name} has no `start`, `stream` or `answer`, so it is no kind of bot")


def reply(bot: Bot, contexts: Sequence[Conversation], *, timeout_s: float | None = None) -> list[Reply]:
    """Answer every context, in batches of up to the bot's capacity, and wait for the end.

    As in `BotHost`, conversations whose batch raised are tried once more alone, and a reply that is
    blank is an error. A stream bot's streams run at the same time in an event loop of their own.

    Args:
        bot: loaded (`registry.bot_load`).
        contexts: any number.
        timeout_s: so long a stream may take, its wait for a place included, and so long a single call of
            a bot of another kind; all its calls together may take as long as the replies one by one. What
            is not there by then fails, and a thread that hangs is left behind. None: no limit.

    Returns:
        One `Reply` per context, in order.
    """
    if not contexts:
        return []
    work = _Work(contexts, timeout_s)
    driver = driver_for(bot)
    if driver is not None and timeout_s is None:
        work.drive(driver)
    elif driver is not None:
        work.apart(bot.name, partial(work.drive, driver))
    else:
        # A thread of its own, because the caller may be inside an event loop (a notebook is).
        work.apart(bot.name, partial(work.stream, cast(StreamBot, bot)))
    return [
        Reply(None, work.errors[request])
        if request in work.errors
        else Reply(request.sent, trace=work.traces[request].steps if request in work.traces else ())
        for request in work.requests
    ]


class _Work:
    """The replies to be made, and how they end."""

    def __init__(self, contexts: Sequence[Conversation], timeout_s: float | None) -> None:
        self.requests = [ReplyRequest(context) for context in contexts]
        self.errors: dict[ReplyRequest, str] = {}
        self.traces: dict[ReplyRequest, TraceLog] = {}
        self._timeout_s = timeout_s
        self._given_up = False
        self._heard_at = time.monotonic()

    def drive(self, driver: Driver) -> None:
        """Make the replies of a step or whole bot."""
        for request in self.requests:
            driver.submit(request)
        while driver.due_in(0.0, 0.0) is not None:
            self._deliver(driver.turn(self._guard))

    def stream(self, bot: StreamBot) -> None:
        """Make the replies of a stream bot."""

        async def run_request(pump: StreamRunner, request: ReplyRequest) -> None:
            listen_to_trace(self.traces.setdefault(request, TraceLog()))
            await asyncio.wait({pump.submit(request)}, timeout=self._timeout_s)
            if not request.closed:
                self._late([request])
                pump.cancel(request)

        async def run() -> None:
            pump = StreamRunner(bot, self._deliver)
            await asyncio.gather(*(run_request(pump, request) for request in self.requests))

        asyncio.run(run())

    def apart(self, name: str, make: Callable[[], None]) -> None:
        """Make the replies in a daemon thread, and give up what takes too long: no thread can be stopped."""
        failures: list[BaseException] = []

        def main() -> None:
            try:
                make()
            except Abandoned:
                return
            except BaseException as exc:
                failures.append(exc)

        thread = threading.Thread(target=main, name=f"reply {name}", daemon=True)
        began = self._heard_at = time.monotonic()
        thread.start()
        while thread.is_alive():
            left_s = self._patience_s(began)
            if left_s is not None and left_s <= 0:
                self._given_up = True
                self._late([request for request in self.requests if not request.closed])
                return
            thread.join(left_s)
        if failures:
            raise failures[0]

    def _patience_s(self, began: float) -> float | None:
        """Return the seconds that the thread still has if nothing is heard of it, or None without a time-out."""
        if self._timeout_s is None:
            return None
        silent_until = self._heard_at + self._timeout_s + _GRACE_S
        until = min(silent_until, began + self._timeout_s * len(self.requests) + _GRACE_S)
        return until - time.monotonic()

    def _deliver(self, events: list[ReplyEvent]) -> None:
        self._heard_at = time.monotonic()
        for event in events:
            request = event.request
            if request.closed:
                continue
            request.closed = event.done or event.error is not None
            if event.error is not None:
                self.errors[request] = event.error

    def _late(self, requests: list[ReplyRequest]) -> None:
        self._deliver([ReplyEvent(r, error=f"took longer than {self._timeout_s:g} s") for r in requests])

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Guard every call of the bot: a thread that was given up must change nothing more.

        Raises:
            Abandoned: the thread was given up, before the call or during it.
        """
        if self._given_up:
            raise Abandoned
        yield
        if self._given_up:
            raise Abandoned
