"""Bots in memory: those used longest ago make room for others, those in use never do.

What a bot takes is what it says (`memory_bytes`), so a bot that says nothing is never put out and never makes
anybody wait. Tensors that several bots share count for each of them: the budget errs on the careful side.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from chatbots.base import BotError
from chatbots.serving.lane import Lane
from chatbots.serving.workers import in_daemon_thread

log = logging.getLogger(__name__)

MB = 1_000_000
LOOK_AGAIN_S = 0.25


class MemoryBudget:
    """Grants memory to bots before they load. Touched on the event loop only.

    Args:
        limit_bytes: the most that loaded bots may take together; None: no limit.
        lanes: all bots of the host.
        shut: takes a bot's driver away from its thread, so that nobody calls the bot any more.
    """

    def __init__(
        self,
        limit_bytes: int | None,
        lanes: Callable[[], Iterable[Lane]],
        shut: Callable[[Lane], None],
    ) -> None:
        self.limit_bytes = limit_bytes
        self._lanes = lanes
        self._shut = shut
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes of all bots that are loaded, being loaded or being unloaded."""
        return sum(lane.memory_bytes for lane in self._lanes())

    async def take(self, lane: Lane) -> None:
        """Grant a bot the memory it needs; waits while all others are in use.

        Raises:
            BotError: if it needs more than the limit.
        """
        needed = getattr(lane.bot, "memory_bytes", 0)
        limit = self.limit_bytes
        if limit is not None and needed > limit:
            raise BotError(
                f"it takes {needed / MB:.0f} MB of memory; all bots together may take {limit / MB:.0f} MB"
            )
        while limit is not None and needed and self.used_bytes + needed > limit:
            idle = [other for other in self._lanes() if other.is_idle and other.memory_bytes]
            if idle:
                await self._put_out(min(idle, key=lambda other: other.used_at))
            else:
                await self._wait()
        lane.memory_bytes = needed

    def give_back(self, lane: Lane) -> None:
        """Give back the memory of a bot that could not be loaded after all."""
        lane.memory_bytes = 0
        self._changed.set()

    def look_again(self) -> None:
        """Look again for room: a reply has ended, and perhaps its bot can be unloaded."""
        self._changed.set()

    def close(self) -> None:
        """Grant nothing any more, and let those who wait fail."""
        self._closed = True
        self._changed.set()

    async def _wait(self) -> None:
        """Wait until some bot may have come to rest.

        Raises:
            BotError: the budget was closed.
        """
        self._changed.clear()
        # A reply that no caller waits for any more ends without a message: hence the time-out.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._changed.wait()
        if self._closed:
            raise BotError("the bot host is closed")

    async def _put_out(self, lane: Lane) -> None:
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
    """Return the bytes of this process that are in RAM; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
