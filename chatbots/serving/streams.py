"""Driving a `StreamBot` on an event loop: a task per reply, as many at once as its capacity."""

from __future__ import annotations

import asyncio
import contextlib

from chatbots.base import StreamBot
from chatbots.generation.deadline import deadline_set
from chatbots.serving.request import Event, Request, describe
from chatbots.serving.workers import DeliverEvents


class StreamPump:
    """Runs the streams of one bot and hands over their pieces.

    Args:
        bot: the bot.
        deliver: called on the loop with every event.
    """

    def __init__(self, bot: StreamBot, deliver: DeliverEvents) -> None:
        self.bot = bot
        self.n_running = 0
        self._deliver = deliver
        self._places = asyncio.Semaphore(bot.capacity)
        self._tasks: dict[Request, asyncio.Task[None]] = {}

    def submit(self, request: Request) -> asyncio.Task[None]:
        """Start a reply as soon as there is a place."""
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._tasks[request] = task
        task.add_done_callback(lambda _: self._tasks.pop(request, None))
        return task

    def cancel(self, request: Request) -> None:
        """Stop a reply; its place is free once its bot has let go."""
        request.closed = True
        if task := self._tasks.get(request):
            task.cancel()

    async def stop(self, timeout_s: float) -> None:
        """Stop all replies and wait for their bots to let go."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def _run(self, request: Request) -> None:
        deadline_set(request.deadline)  # the task is the request's own, and so is its context
        async with self._places:
            self.n_running += 1
            try:
                await self._pump(request)
                last = request.finish()
            except (Exception, SystemExit) as exc:  # an exit would end the whole server
                is_trouble = getattr(exc, "is_trouble", True)
                self._deliver([Event(request, error=describe(exc), is_trouble=is_trouble)])
            except asyncio.CancelledError:
                if not request.closed:  # the bot cancelled its own reply: no caller did
                    self._deliver([Event(request, error="cancelled its own reply")])
                raise
            else:
                self._deliver([Event(request, last, done=True)])
            finally:
                self.n_running -= 1

    async def _pump(self, request: Request) -> None:
        pieces = self.bot.stream(request.context)
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(pieces, "aclose"):
                stack.push_async_callback(pieces.aclose)
            async for piece in pieces:
                self._deliver([Event(request, request.take(piece))])
                if request.is_full:
                    return
