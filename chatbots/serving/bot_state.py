"""State of the bots in a host, and their memory budget.

The least recently used bots are unloaded to make room for others; bots in use never are. A bot's memory is its own
estimate (`memory_bytes`), so a bot that reports 0 is never unloaded and never makes a request wait. Tensors shared by
several bots count for each of them, so the budget overestimates memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from chatbots.bots.base import Bot, BotError
from chatbots.serving.drivers import Driver
from chatbots.serving.workers import StreamRunner, Worker, WorkerShift, in_daemon_thread

LoadingState = Literal["not loaded", "loading", "ready", "unloaded", "unavailable"]
"""`unloaded`: removed from memory for others and reloaded on the next request."""


@dataclass(eq=False)
class HostedBot:
    """One bot of a host, used only on the event loop."""

    bot: Bot
    state: LoadingState = "not loaded"
    reason: str | None = None
    failed_at: float | None = None
    """Time at which loading failed; None if the bot is unavailable because it hangs."""
    loading: asyncio.Task[None] | None = None
    unloading: asyncio.Task[None] | None = None
    driver: Driver | None = None
    pump: StreamRunner | None = None
    worker: Worker | None = None
    hung: list[WorkerShift] = field(default_factory=list)
    memory_bytes: int = 0
    """Reserved memory in bytes."""
    used_at: float = 0.0
    """Time of loading or of the last request, on the monotonic clock."""
    n_open: int = 0
    n_replies: int = 0
    n_failures: int = 0
    n_timeouts: int = 0
    n_refused: int = 0
    n_cancelled: int = 0
    n_unloads: int = 0
    sum_reply_s: float = 0.0

    @property
    def n_in_bot(self) -> int:
        """Number of replies in the bot, including abandoned ones."""
        source = self.driver or self.pump
        return source.n_running if source else 0

    @property
    def n_running(self) -> int:
        """Number of replies in progress."""
        return min(self.n_in_bot, self.n_open)

    @property
    def n_waiting(self) -> int:
        """Number of requests without a slot."""
        return self.n_open - self.n_running

    @property
    def is_idle(self) -> bool:
        """True if the bot is ready without waiting or running requests."""
        hangs = any(shift.alive for shift in self.hung)
        return self.state == "ready" and not (self.n_open or self.n_in_bot or hangs)

    def numbers(self, queue_limit: int) -> dict[str, Any]:
        """Return this bot's values for `BotHost.load_numbers`."""
        return {
            "state": self.state,
            "reason": self.reason,
            "capacity": self.bot.capacity,
            "busy": self.n_waiting >= queue_limit,
            "waiting": self.n_waiting,
            "running": self.n_running,
            "replies": self.n_replies,
            "failures": self.n_failures,
            "timeouts": self.n_timeouts,
            "refused": self.n_refused,
            "cancelled": self.n_cancelled,
            "unloads": self.n_unloads,
            "hung_threads": sum(shift.alive for shift in self.hung),
            "memory_bytes": self.memory_bytes,
            "kept_bytes": getattr(self.bot, "kept_bytes", 0),
            "mean_reply_s": self.sum_reply_s / self.n_replies if self.n_replies else None,
        }


log = logging.getLogger(__name__)

MB = 1_000_000
LOOK_AGAIN_S = 0.25


class MemoryBudget:
    """Memory budget from which bots reserve before loading.

    Used only on the event loop.

    Args:
        limit_bytes: maximum total memory of loaded bots; None for no limit.
        lanes: all bots of the host.
        shut: removes a bot's driver from its thread, so that the bot is no longer called.
    """

    def __init__(
        self, limit_bytes: int | None, lanes: Callable[[], Iterable[HostedBot]], shut: Callable[[HostedBot], None]
    ) -> None:
        self.limit_bytes = limit_bytes
        self._lanes = lanes
        self._shut = shut
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes of all loaded, loading or unloading bots."""
        return sum(lane.memory_bytes for lane in self._lanes())

    async def take(self, lane: HostedBot) -> None:
        """Reserve a bot's memory, waiting while all other bots are busy.

        Raises:
            BotError: the bot needs more than the limit.
        """
        needed = getattr(lane.bot, "memory_bytes", 0)
        limit = self.limit_bytes
        if limit is not None and needed > limit:
            raise BotError(
                f"it needs {needed / MB:.0f} MB of memory, but the limit for all bots is {limit / MB:.0f} MB"
            )
        while limit is not None and needed and self.used_bytes + needed > limit:
            idle = [bot for bot in self._lanes() if bot.is_idle and bot.memory_bytes]
            if idle:
                await self._put_out(min(idle, key=lambda bot: bot.used_at))
            else:
                await self._wait()
        lane.memory_bytes = needed

    def give_back(self, lane: HostedBot) -> None:
        """Release the memory of a bot whose load failed."""
        lane.memory_bytes = 0
        self._changed.set()

    def look_again(self) -> None:
        """Check for free memory after a reply, when a bot may be idle."""
        self._changed.set()

    def close(self) -> None:
        """Close the budget and fail all waiting callers."""
        self._closed = True
        self._changed.set()

    async def _wait(self) -> None:
        """Wait until a bot may have become idle.

        Raises:
            BotError: the budget was closed.
        """
        self._changed.clear()
        # The timeout is needed because abandoned replies end without a signal.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._changed.wait()
        if self._closed:
            raise BotError("the bot host is closed")

    async def _put_out(self, lane: HostedBot) -> None:
        """Unload an idle bot; the next request loads it again."""
        self._shut(lane)
        lane.state = "unloaded"
        lane.n_unloads += 1
        lane.unloading = asyncio.get_running_loop().create_task(
            in_daemon_thread(f"unload {lane.bot.name}", lane.bot.unload)
        )
        try:
            await asyncio.shield(lane.unloading)
        except Exception:
            log.exception("%s could not be unloaded", lane.bot.name)
        finally:
            lane.unloading = None
            self.give_back(lane)


def resident_bytes() -> int | None:
    """Return this process's resident memory in bytes, or None if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
