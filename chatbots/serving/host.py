"""`BotHost`, the asyncio host of all loaded bots, independent of Django.

Step bots share one thread for the device, whole-reply bots have a thread each, and stream bots run on the event loop,
so a failing bot does not block the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from chatbots import registry
from chatbots.bots.base import Bot, BotBusy, BotError, FallbackBot
from chatbots.conversation import Conversation
from chatbots.generation.prefix_cache import PREFIX_CACHE
from chatbots.serving.bot_state import HostedBot, MemoryBudget, resident_bytes
from chatbots.serving.drivers import Driver, StepDriver
from chatbots.serving.request import ReplyEvent, ReplyRequest, describe_error
from chatbots.serving.synchronous import driver_for
from chatbots.serving.workers import StreamRunner, Worker, WorkerShift, in_daemon_thread
from chatbots.trace import current_trace

log = logging.getLogger(__name__)

MOST_HUNG_THREADS = 3
"""Number of hung threads after which a bot is declared unavailable."""

RETRY_LOAD_S = 30.0
"""Time until `stream` retries a failed load; `load` retries at once."""

FIRST_SHARE = 0.6
"""Share of the time limit within which a bot with a `fallback_bot` must send its first piece."""

STAND_INS_KEPT = 10_000

CLOSE_WAIT_S = 5.0
"""Maximum time that `close` waits for running calls."""


class BotHost:
    """Host that keeps bots in memory and serves many conversations concurrently.

    Belongs to the event loop on which it is first used.

    Args:
        get_bot: returns a bot by its id; raises `KeyError` for an unknown one.
        device: device of step bots: "cpu", "cuda", "cuda:1".
        batch_wait_ms: time that the first request of a batch waits for others. Later requests join a running batch
            between two of its steps, without waiting.
        reply_timeout_s: maximum time for a reply, counted from the call of `stream`, including queueing but not
            loading. A request that times out in the queue costs the bot nothing. The same limit applies to a single
            call of a bot (`step`, `answer`).
        load_timeout_s: maximum time that a reply waits for its bot to load, including the wait for memory.
        queue_limit: maximum number of waiting requests per bot; further ones are rejected with `BotBusy`.
        memory_limit_bytes: maximum total memory of loaded bots, by their own estimates. The least recently used bots
            are unloaded for others and reloaded on demand; bots in use are never unloaded. None for no limit.
    """

    def __init__(
        self,
        *,
        get_bot: Callable[[str], Bot] = registry.bot_get,
        device: str = "cpu",
        batch_wait_ms: float = 5.0,
        reply_timeout_s: float = 60.0,
        load_timeout_s: float = 300.0,
        queue_limit: int = 512,
        memory_limit_bytes: int | None = None,
    ) -> None:
        self.device = device
        self.reply_timeout_s = reply_timeout_s
        self.load_timeout_s = load_timeout_s
        self.queue_limit = queue_limit
        self._get_bot = get_bot
        self._batch_wait_s = batch_wait_ms / 1000
        self._lanes: dict[str, HostedBot] = {}
        self._memory = MemoryBudget(memory_limit_bytes, self._lanes.values, self._shut)
        self._of_driver: dict[Driver, HostedBot] = {}
        self._inboxes: dict[ReplyRequest, asyncio.Queue[ReplyEvent]] = {}
        self._stand_ins: dict[Conversation, FallbackBot] = {}
        self._device_worker: Worker | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False

    async def load(self, bot_id: str) -> None:
        """Load a bot in a thread, once for all concurrent callers.

        Raises:
            BotError: the bot is unknown or cannot be loaded, with the reason.
        """
        lane = self._lane(bot_id)
        if lane.state != "ready":
            await self._load(lane)
        if lane.state != "ready":
            raise BotError(f"{bot_id} is unavailable: {lane.reason}")

    async def stream(self, bot_id: str, context: Conversation, *, by_others: bool = True) -> AsyncIterator[str]:
        """Yield the reply to a context in pieces.

        Closing the generator or cancelling its task frees the bot's slot at once. If a bot with a `fallback_bot` fails
        before its first piece, the fallback bot replies instead; `stand_in_take` reports this.

        Args:
            by_others: allow a fallback bot.

        Raises:
            BotError: the bot is unknown, cannot be loaded, fails, returns a blank reply, or exceeds `load_timeout_s`
            or `reply_timeout_s`.
            BotBusy: its queue is full.
        """
        lane = self._lane(bot_id)
        fallback: str = getattr(lane.bot, "fallback_bot", "") if by_others else ""
        first_s = (FIRST_SHARE if fallback else 1) * self.reply_timeout_s
        request, has_begun = ReplyRequest(context), False
        try:
            async with aclosing(self._stream(lane, request, first_s, self.reply_timeout_s)) as pieces:
                async for text in pieces:
                    has_begun = True
                    yield text
        except BotError as error:
            if has_begun or not fallback or error.is_content:  # the participant may rephrase the message
                raise
            failure = str(error)
        else:
            return
        log.warning("%s replies instead of %s: %s", fallback, bot_id, failure)
        current_trace().restart()
        try:
            fallback_lane, left_s = self._lane(fallback), self.reply_timeout_s
            if request.deadline is not None:  # loading is over, so part of the time has passed
                left_s = max(0.0, left_s + request.deadline - first_s - time.monotonic())
            async with aclosing(self._stream(fallback_lane, ReplyRequest(context), left_s, left_s)) as pieces:
                async for text in pieces:
                    self._note_stand_in(context, FallbackBot(fallback, failure))
                    yield text
        except BotError as error:
            raise BotError(f"{failure}; its fallback: {error}") from None

    def stand_in_take(self, context: Conversation) -> FallbackBot | None:
        """Remove and return the fallback bot that replied to this context.

        Includes the reason. None if the bot replied itself, or if this was already reported.
        """
        return self._stand_ins.pop(context, None)

    def _note_stand_in(self, context: Conversation, stand_in: FallbackBot) -> None:
        self._stand_ins[context] = stand_in
        while len(self._stand_ins) > STAND_INS_KEPT:
            del self._stand_ins[next(iter(self._stand_ins))]

    async def _stream(
        self, lane: HostedBot, request: ReplyRequest, first_s: float, whole_s: float
    ) -> AsyncGenerator[str, None]:
        """Yield a reply of this bot, without a fallback.

        Args:
        first_s: time limit of the first piece, counted after loading.
        whole_s: time limit of the whole reply, counted after loading.
        """
        bot_id = lane.bot.name
        if lane.n_waiting >= self.queue_limit:
            lane.n_refused += 1
            raise BotBusy(f"{bot_id} is busy: {lane.n_waiting} other requests are waiting")
        lane.n_open += 1
        allowed_s = self.load_timeout_s
        try:
            async with asyncio.timeout(allowed_s):
                await self._make_ready(lane)
            ready_at, allowed_s = asyncio.get_running_loop().time(), first_s
            request.deadline = ready_at + first_s
            inbox = self._submit(lane, request)
            done = False
            while not done:
                async with asyncio.timeout_at(ready_at + allowed_s):
                    event = await inbox.get()
                text, done = self._gather(event, inbox)
                if text:
                    allowed_s = whole_s
                    yield text
            lane.n_replies += 1
            lane.sum_reply_s += time.monotonic() - ready_at
        except TimeoutError:
            lane.n_timeouts += 1
            lane.n_failures += 1
            late = "" if request in self._inboxes else "loading "
            raise BotError(f"{bot_id}: {late}took longer than {allowed_s:.3g} s") from None
        except BotError as exc:
            lane.n_failures += 1
            raise exc.copy(f"{bot_id}: {exc}") from exc.__cause__
        except (asyncio.CancelledError, GeneratorExit):
            lane.n_cancelled += 1
            raise
        finally:
            lane.n_open -= 1
            lane.used_at = time.monotonic()
            if request in self._inboxes:
                self._let_go(lane, request)
            self._memory.look_again()

    def load_numbers(self) -> dict[str, dict[str, Any]]:
        """Return the state and counts of every requested bot by id.

        `state`, `reason` (for being unavailable), `capacity`, `busy` (its queue is full), `memory_bytes`,
        `kept_bytes` (the KV cache of earlier turns), and counts: `waiting`, `running`, `replies`, `failures` (of
        them `timeouts`), `refused` (queue full), `cancelled` (by the caller), `unloads` (to make room),
        `hung_threads`; `mean_reply_s` is None before the first reply.
        """
        return {bot_id: lane.numbers(self.queue_limit) for bot_id, lane in sorted(self._lanes.items())}

    def totals(self) -> dict[str, Any]:
        """Return the sums over all bots and the process's memory.

        The memory is None if unknown.
        """
        lanes = list(self._lanes.values())
        return {
            "loaded": sum(lane.state == "ready" for lane in lanes),
            "waiting": sum(lane.n_waiting for lane in lanes),
            "running": sum(lane.n_running for lane in lanes),
            "busy": sorted(i for i, n in self.load_numbers().items() if n["busy"]),
            "memory_bytes": self._memory.used_bytes,
            "memory_limit_bytes": self._memory.limit_bytes,
            "kept_bytes": PREFIX_CACHE.n_bytes(),
            "kept_limit_bytes": PREFIX_CACHE.limit_bytes,
            "resident_bytes": resident_bytes(),
        }

    async def close(self) -> None:
        """Fail open requests, end threads and unload bots, within a few seconds."""
        if self._closed:
            return
        self._closed = True
        self._memory.close()
        closing = "the bot host is closing"
        self._deliver([ReplyEvent(r, error=closing, cause=BotBusy()) for r in self._inboxes])
        lanes = list(self._lanes.values())
        # If all bots have been unloaded, the device's worker belongs to no lane.
        all_workers = (self._device_worker, *(lane.worker for lane in lanes))
        workers = {worker for worker in all_workers if worker is not None}
        for worker in workers:
            worker.stop()
        await asyncio.gather(*(lane.pump.stop(CLOSE_WAIT_S) for lane in lanes if lane.pump))

        def end() -> None:
            deadline = time.monotonic() + CLOSE_WAIT_S
            for worker in workers:
                worker.join(max(0.0, deadline - time.monotonic()))
            for lane in lanes:
                if lane.state == "ready" and not any(shift.alive for shift in lane.hung):
                    _quietly(lane.bot.unload)

        try:
            async with asyncio.timeout(2 * CLOSE_WAIT_S):
                await in_daemon_thread("close bot host", end)
        except TimeoutError:
            log.warning("the bot host closed while a bot was still computing or unloading")
        for lane in lanes:
            lane.state = "not loaded"

    # Loading.

    def _lane(self, bot_id: str) -> HostedBot:
        if self._closed:
            raise BotError("the bot host is closed")
        lane = self._lanes.get(bot_id)
        try:
            bot = self._get_bot(bot_id)
        except (KeyError, BotError) as exc:
            if lane is None:
                raise BotError(str(exc)) from exc
            return lane
        if lane is not None and lane.bot is not bot and not lane.n_open and lane.loading is None:
            self._retire(lane)
            lane = None
        if lane is None:
            lane = self._lanes[bot_id] = HostedBot(bot)
        return lane

    def _retire(self, lane: HostedBot) -> None:
        """Release an idle bot whose id has been registered again."""
        if lane.state != "ready":
            return
        self._shut(lane)
        task = asyncio.get_running_loop().create_task(
            in_daemon_thread(f"unload {lane.bot.name}", partial(_quietly, lane.bot.unload))
        )
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _make_ready(self, lane: HostedBot) -> None:
        """Load the bot for `stream`, unless loading has just failed.

        Raises:
            BotError: it is unavailable; the message gives the reason.
        """
        if lane.state == "unavailable":
            failed_at = lane.failed_at
            if failed_at is None or time.monotonic() - failed_at < RETRY_LOAD_S:
                raise BotError(f"is unavailable: {lane.reason}")
        if lane.state != "ready":
            await self._load(lane)
        if lane.state != "ready":
            raise BotError(f"is unavailable: {lane.reason}")

    async def _load(self, lane: HostedBot) -> None:
        """Start a load or wait for the running one.

        The result is the lane's state.
        """
        if lane.loading is None:
            lane.state = "loading"
            lane.loading = asyncio.get_running_loop().create_task(self._load_once(lane))
        await asyncio.shield(lane.loading)

    async def _load_once(self, lane: HostedBot) -> None:
        def load() -> None:
            reason = lane.bot.unavailable_reason()
            if reason is not None:
                raise BotError(reason)
            lane.bot.load(self.device)

        try:
            lane.hung = [shift for shift in lane.hung if shift.alive]
            if len(lane.hung) >= MOST_HUNG_THREADS:
                raise BotError(_hanging(len(lane.hung)))
            if lane.unloading is not None:
                await asyncio.wait([lane.unloading])
            await self._memory.take(lane)
            await in_daemon_thread(f"load {lane.bot.name}", load)
            self._open(lane)
        except Exception as exc:
            lane.state, lane.reason = "unavailable", describe_error(exc)
            lane.failed_at = time.monotonic()
            self._memory.give_back(lane)
            log.warning("%s cannot be loaded: %s", lane.bot.name, lane.reason)
        else:
            lane.state, lane.reason, lane.failed_at = "ready", None, None
            lane.used_at = time.monotonic()
            self._memory.look_again()
        finally:
            lane.loading = None

    def _open(self, lane: HostedBot) -> None:
        """Create a loaded bot's driver and assign it to a thread."""
        driver = driver_for(lane.bot)
        if driver is None:
            lane.pump = StreamRunner(lane.bot, self._deliver)  # type: ignore[arg-type]
            return
        if isinstance(driver, StepDriver):
            if self._device_worker is None:
                self._device_worker = self._worker(f"bots on {self.device}")
            lane.worker = self._device_worker
        else:
            lane.worker = self._worker(f"bot {lane.bot.name}")
        lane.driver = driver
        self._of_driver[driver] = lane
        lane.worker.add(driver)

    def _worker(self, name: str) -> Worker:
        return Worker(
            name,
            asyncio.get_running_loop(),
            self._deliver,
            batch_wait_s=self._batch_wait_s,
            hang_s=self.reply_timeout_s,
            on_hang=self._bot_hangs,
        )

    def _bot_hangs(self, driver: Driver, shift: WorkerShift) -> None:
        """Count an abandoned thread; after too many the bot becomes unavailable."""
        lane = self._of_driver[driver]
        lane.hung = [old for old in lane.hung if old.alive] + [shift]
        n_hung = len(lane.hung)
        log.error("%s hangs: a call took longer than %g s", lane.bot.name, self.reply_timeout_s)
        if n_hung < MOST_HUNG_THREADS:
            return
        lane.state, lane.reason, lane.failed_at = "unavailable", _hanging(n_hung), None
        self._shut(lane)
        self._deliver(driver.drop_all(f"is unavailable: {lane.reason}"))

    def _shut(self, lane: HostedBot) -> None:
        """Remove a bot's driver from its thread."""
        if lane.driver is not None and lane.worker is not None:
            lane.worker.remove(lane.driver)
            if lane.worker is not self._device_worker:
                lane.worker.stop()
            del self._of_driver[lane.driver]
        lane.driver = lane.pump = lane.worker = None

    # Requests.

    def _submit(self, lane: HostedBot, request: ReplyRequest) -> asyncio.Queue[ReplyEvent]:
        if self._closed:
            raise BotError("the bot host is closed")
        inbox = self._inboxes[request] = asyncio.Queue()
        if lane.pump is not None:
            lane.pump.submit(request)
        else:
            assert lane.driver is not None
            assert lane.worker is not None
            lane.driver.submit(request)
            lane.worker.wake()
        return inbox

    def _let_go(self, lane: HostedBot, request: ReplyRequest) -> None:
        """Free the slot of an abandoned request, if it still has one."""
        del self._inboxes[request]
        if request.closed:
            return
        request.closed = True
        if lane.pump is not None:
            lane.pump.cancel(request)
        elif lane.driver is not None and lane.worker is not None:
            lane.driver.cancel(request)
            lane.worker.wake()

    def _deliver(self, events: list[ReplyEvent]) -> None:
        for event in events:
            request = event.request
            if request.closed:
                continue
            self._inboxes[request].put_nowait(event)
            request.closed = event.done or event.error is not None

    @staticmethod
    def _gather(event: ReplyEvent, inbox: asyncio.Queue[ReplyEvent]) -> tuple[str, bool]:
        """Join all queued events; return text and True if complete.

        Raises:
            BotError: the reply failed.
        """
        text = ""
        while True:
            if event.error is not None:
                raise event.cause.copy(event.error)
            text += event.text
            if event.done or inbox.empty():
                return text, event.done
            event = inbox.get_nowait()


def _hanging(n_hung: int) -> str:
    return f"it hangs: {n_hung} of its calls have not returned"


def _quietly(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        log.exception("a bot could not be unloaded")
