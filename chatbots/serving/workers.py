"""Worker threads and event-loop tasks of bots, and replacement of hung threads.

A worker is a thread that alternates between drivers: one worker per device for all step bots, one for each whole-reply
bot. Python cannot stop a thread, so a thread whose bot takes too long in one call is abandoned. A new thread takes over
its drivers; the old one, if it ever returns, changes nothing and ends. Threads are daemons, so that a hung bot does not
keep the process alive.

A `StreamBot` runs on an event loop, with one task per reply and up to its capacity at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from chatbots.bots.base import BotError, StreamBot, set_deadline
from chatbots.serving.drivers import Abandoned, Driver
from chatbots.serving.request import ReplyEvent, ReplyRequest, describe_error
from chatbots.threads import thread_start

log = logging.getLogger(__name__)

DeliverEvents = Callable[[list[ReplyEvent]], None]


class WorkerShift:
    """Lifetime of one thread in a worker."""

    def __init__(self) -> None:
        self.abandoned = False
        self.call: tuple[Driver, float] | None = None
        """Driver whose bot is being called, and start of the call."""
        self.thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class Worker:
    """Thread that alternates between drivers and is replaced if a bot hangs.

    Args:
        name: thread name, for debuggers.
        loop: event loop that receives the events; all methods are called on it.
        deliver: called on the loop with the events of a turn.
        batch_wait_s: time that a first request waits for others to join its batch.
        hang_s: maximum duration of one call; after that the bot hangs.
        on_hang: called on the loop with the driver of the hung bot and the abandoned shift, after the driver has
            abandoned its running replies.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        deliver: DeliverEvents,
        *,
        batch_wait_s: float,
        hang_s: float,
        on_hang: Callable[[Driver, WorkerShift], None],
    ) -> None:
        self._name = name
        self._loop = loop
        self._deliver = deliver
        self._batch_wait_s = batch_wait_s
        self._hang_s = hang_s
        self._on_hang = on_hang
        self._changed = threading.Condition()
        self._drivers: list[Driver] = []
        self._stopped = False
        self._shift: WorkerShift | None = None
        self._watch: asyncio.TimerHandle | None = None

    def add(self, driver: Driver) -> None:
        """Add a driver to the rotation."""
        with self._changed:
            self._drivers.append(driver)

    def remove(self, driver: Driver) -> None:
        """Remove a driver from the rotation."""
        with self._changed:
            if driver in self._drivers:
                self._drivers.remove(driver)

    def wake(self) -> None:
        """Notify the worker that a driver has work.

        Starts the thread and the watch if needed.
        """
        with self._changed:
            if self._stopped:
                return
            if self._shift is None:
                self._start_shift()
            self._changed.notify_all()
        if self._watch is None:
            self._watch = self._loop.call_later(self._hang_s, self._look)

    def stop(self) -> None:
        """End the thread after its current call."""
        if self._watch is not None:
            self._watch.cancel()
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end; blocks."""
        if self._shift is not None and self._shift.thread is not None:
            self._shift.thread.join(timeout_s)

    def _start_shift(self) -> None:
        shift = WorkerShift()
        self._shift = shift
        shift.thread = thread_start(partial(self._run, shift), name=self._name, lasting=True)

    # Methods called in the thread.

    def _run(self, shift: WorkerShift) -> None:
        while True:
            due = self._wait_for_work(shift)
            if not due:
                return
            for driver in due:
                try:
                    events = driver.turn(partial(self._guard, shift, driver))
                except Abandoned:
                    return
                except Exception as exc:  # a bug in a driver must not leave conversations waiting
                    log.exception("a driver failed")
                    events = driver.drop_all(describe_error(exc))
                if events and not self._hand_over(events):
                    return

    def _wait_for_work(self, shift: WorkerShift) -> list[Driver]:
        """Wait for drivers with work and return them.

        None if the thread must end.
        """
        with self._changed:
            while not (self._stopped or shift.abandoned):
                now = time.monotonic()
                waits = [(d, d.due_in(now, self._batch_wait_s)) for d in self._drivers]
                due = [driver for driver, wait in waits if wait is not None and wait <= 0]
                if due:
                    return due
                if all(wait is None for _, wait in waits):
                    idle = [driver for driver in self._drivers if driver.has_idle_work]
                    if idle:
                        return idle[:1]
                self._changed.wait(min((w for _, w in waits if w is not None), default=None))
        return []

    @contextlib.contextmanager
    def _guard(self, shift: WorkerShift, driver: Driver) -> Iterator[None]:
        with self._changed:
            if shift.abandoned:
                raise Abandoned
            shift.call = (driver, time.monotonic())
        try:
            yield
        finally:
            with self._changed:
                shift.call = None
                abandoned = shift.abandoned
            if abandoned:
                raise Abandoned

    def _hand_over(self, events: list[ReplyEvent]) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._deliver, events)
        except RuntimeError:  # the loop is closed, so no caller is left
            return False
        return True

    # Methods called on the event loop.

    def _look(self) -> None:
        """Abandon the thread if its bot hangs, and schedule the next check."""
        self._watch = None
        hung: Driver | None = None
        with self._changed:
            shift = self._shift
            if self._stopped or shift is None:
                return
            call = shift.call
            now = time.monotonic()
            if call is not None and now - call[1] >= self._hang_s:
                hung = call[0]
                shift.abandoned = True
                self._shift = None
        if hung is not None:
            self._deliver(hung.drop_running(f"took longer than {self._hang_s:g} s"))
            self._on_hang(hung, shift)
            self.wake()
            return
        if call is not None:
            self._watch = self._loop.call_later(call[1] + self._hang_s - now, self._look)
        elif any(d.due_in(now, self._batch_wait_s) is not None for d in self._drivers):
            self._watch = self._loop.call_later(self._hang_s, self._look)


async def in_daemon_thread(name: str, work: Callable[[], None]) -> None:
    """Run `work` in a new daemon thread and wait for it.

    The threads of a pool would keep a hung process alive.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(exc: BaseException | None) -> None:
        if future.done():
            return
        if exc is None:
            future.set_result(None)
        else:
            future.set_exception(exc)

    def main() -> None:
        failure: BaseException | None = None
        try:
            work()
        except Exception as exc:
            failure = exc
        except BaseException as exc:  # for example sys.exit() in a plug-in
            failure = BotError(describe_error(exc))
        try:
            loop.call_soon_threadsafe(settle, failure)
        except RuntimeError:  # the loop is closed
            return

    thread_start(main, name=name)
    await future


class StreamRunner:
    """Runner of one bot's streams.

    Args:
        bot: the bot.
        deliver: called on the loop with every event.
    """

    def __init__(self, bot: StreamBot, deliver: DeliverEvents) -> None:
        self.bot = bot
        self.n_running = 0
        self._deliver = deliver
        self._places = asyncio.Semaphore(bot.capacity)
        self._tasks: dict[ReplyRequest, asyncio.Task[None]] = {}

    def submit(self, request: ReplyRequest) -> asyncio.Task[None]:
        """Start a reply as soon as a slot is free."""
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._tasks[request] = task
        task.add_done_callback(lambda _: self._tasks.pop(request, None))
        return task

    def cancel(self, request: ReplyRequest) -> None:
        """Stop a reply; its slot becomes free once the bot has stopped."""
        request.closed = True
        if task := self._tasks.get(request):
            task.cancel()

    async def stop(self, timeout_s: float) -> None:
        """Stop all replies and wait until their bots have stopped."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def _run(self, request: ReplyRequest) -> None:
        set_deadline(request.deadline)  # each request has its own task and context
        async with self._places:
            self.n_running += 1
            try:
                await self._pump(request)
                last = request.finish()
            except (Exception, SystemExit) as exc:  # an exit would end the whole server
                cause = exc if isinstance(exc, BotError) else BotError()
                self._deliver([ReplyEvent(request, error=describe_error(exc), cause=cause)])
            except asyncio.CancelledError:
                if not request.closed:  # cancelled by the bot itself, not by the caller
                    self._deliver([ReplyEvent(request, error="cancelled its own reply")])
                raise
            else:
                self._deliver([ReplyEvent(request, last, done=True)])
            finally:
                self.n_running -= 1

    async def _pump(self, request: ReplyRequest) -> None:
        pieces = self.bot.stream(request.context)
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(pieces, "aclose"):
                stack.push_async_callback(pieces.aclose)
            async for piece in pieces:
                self._deliver([ReplyEvent(request, request.take(piece))])
                if request.is_full:
                    return
