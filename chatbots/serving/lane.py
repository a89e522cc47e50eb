"""A lane: one bot, and all that its host knows of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from chatbots.base import Bot
from chatbots.serving.drivers import Driver
from chatbots.serving.streams import StreamPump
from chatbots.serving.workers import Shift, Worker

State = Literal["not loaded", "loading", "ready", "unloaded", "unavailable"]
"""`unloaded`: made room for others, and is loaded again when it is asked for."""


@dataclass(eq=False)
class Lane:
    """One bot of a host. Touched on the event loop only."""

    bot: Bot
    state: State = "not loaded"
    reason: str | None = None
    failed_at: float | None = None
    """When loading failed; None for a bot that is unavailable because it hangs."""
    loading: asyncio.Task[None] | None = None
    unloading: asyncio.Task[None] | None = None
    driver: Driver | None = None
    pump: StreamPump | None = None
    worker: Worker | None = None
    hung: list[Shift] = field(default_factory=list)
    memory_bytes: int = 0
    """What it has been granted."""
    used_at: float = 0.0
    """When it was loaded or last asked, on the monotonic clock."""
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
        """Number of replies that the bot is at work on, including those that no caller waits for any more."""
        source = self.driver or self.pump
        return source.n_running if source else 0

    @property
    def n_running(self) -> int:
        """Replies under way."""
        return min(self.n_in_bot, self.n_open)

    @property
    def n_waiting(self) -> int:
        """Requests without a place yet."""
        return self.n_open - self.n_running

    @property
    def is_idle(self) -> bool:
        """True if the bot is ready and no request of it waits or runs."""
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
