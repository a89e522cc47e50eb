"""Blocking replies from any kind of bot, for self-play, terminal and tests."""

from __future__ import annotations

import asyncio
import contextlib
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
from chatbots.threads import thread_start
from chatbots.trace import TraceLog, TraceStep, listen_to_trace

_GRACE_S = 1.0
"""Maximum time for a cancelled stream to stop before its thread is abandoned."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of a request; either `text` or `error` is set."""

    text: str | None
    error: str | None = None
    trace: tuple[TraceStep, ...] = ()


def driver_for(bot: Bot) -> Driver | None:
    """Return a driver for a bot, or None for a stream bot.

    Raises:
        BotError: the bot implements none of the protocols.
    """
    if hasattr(bot, "start"):
        return StepDriver(cast(StepBot, bot))
    if hasattr(bot, "stream"):
        return None
    if hasattr(bot, "answer"):
        return WholeDriver(cast(WholeBot, bot))
    raise BotError(f"{bot.name} has no method `start`, `stream` or `answer`; a bot needs one of them")


def reply(bot: Bot, contexts: Sequence[Conversation], *, timeout_s: float | None = None) -> list[Reply]:
    """Reply to all contexts, in batches up to the bot's capacity.

    As in `BotHost`, conversations whose batch raised are retried alone, and a blank reply is an error. The streams
    of a stream bot run concurrently in a separate event loop.

    Args:
        bot: a loaded bot (`registry.bot_load`).
        contexts: any number of contexts.
        timeout_s: time limit of a stream, including its wait for a slot, or of a single call of another bot. All calls
            together may take this long per context. Unfinished replies then fail, and a hung thread is abandoned. None
            for no limit.

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
        # Use a separate thread, because the caller may be inside an event loop, as in a notebook.
        work.apart(bot.name, partial(work.stream, cast(StreamBot, bot)))
    return [
        Reply(None, work.errors[request])
        if request in work.errors
        else Reply(request.sent, trace=work.traces[request].steps if request in work.traces else ())
        for request in work.requests
    ]


class _Work:
    """Pending replies and their results."""

    def __init__(self, contexts: Sequence[Conversation], timeout_s: float | None) -> None:
        self.requests = [ReplyRequest(context) for context in contexts]
        self.errors: dict[ReplyRequest, str] = {}
        self.traces: dict[ReplyRequest, TraceLog] = {}
        self._timeout_s = timeout_s
        self._given_up = False
        self._heard_at = time.monotonic()

    def drive(self, driver: Driver) -> None:
        """Generate the replies of a step or whole-reply bot."""
        for request in self.requests:
            driver.submit(request)
        while driver.due_in(0.0, 0.0) is not None:
            self._deliver(driver.turn(self._guard))

    def stream(self, bot: StreamBot) -> None:
        """Generate the replies of a stream bot."""

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
        """Generate the replies in a daemon thread, abandoned after a timeout.

        Python cannot stop a thread.
        """
        failures: list[BaseException] = []

        def main() -> None:
            try:
                make()
            except Abandoned:
                return
            except BaseException as exc:
                failures.append(exc)

        began = self._heard_at = time.monotonic()
        thread = thread_start(main, name=f"reply {name}")
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
        """Return the seconds that the thread may still stay silent.

        None without a timeout.
        """
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
        """Guard every call of the bot against changes by an abandoned thread.

        Raises:
            Abandoned: the thread was abandoned before or during the call.
        """
        if self._given_up:
            raise Abandoned
        yield
        if self._given_up:
            raise Abandoned
