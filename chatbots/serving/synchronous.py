"""`reply`: drive a loaded bot of any kind to the end of its replies, for self-play, terminal and tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from chatbots.base import Bot, BotError, StepBot, StreamBot, WholeBot
from chatbots.conversation import Conversation
from chatbots.serving.drivers import Driver, StepDriver, WholeDriver
from chatbots.serving.request import Event, Request
from chatbots.serving.streams import StreamPump
from chatbots.serving.workers import DeliverEvents


@dataclass(frozen=True, slots=True)
class Reply:
    """One of `text` and `error` is set."""

    text: str | None
    error: str | None = None


def driver_for(bot: Bot) -> Driver | None:
    """The driver of a step or whole bot; None for a stream bot, which needs an event loop.

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


def reply(bot: Bot, contexts: Sequence[Conversation]) -> list[Reply]:
    """Answer every context, in batches of up to the bot's capacity, and wait for the end.

    As in `BotHost`, conversations whose batch raised are tried once more alone, and a reply that is
    blank is an error. A stream bot's streams run at the same time in an event loop of their own.

    Args:
        bot: loaded (`registry.bot_load`).
        contexts: any number.

    Returns:
        One `Reply` per context, in order.
    """
    requests = [Request(context) for context in contexts]
    errors: dict[Request, str] = {}

    def deliver(events: list[Event]) -> None:
        errors.update({event.request: event.error for event in events if event.error is not None})

    driver = driver_for(bot)
    if driver is not None:
        _drive(driver, requests, deliver)
    else:
        _run_apart(cast(StreamBot, bot), requests, deliver)
    return [
        Reply(None, errors[request]) if request in errors else Reply(request.sent)
        for request in requests
    ]


def _drive(driver: Driver, requests: list[Request], deliver: DeliverEvents) -> None:
    for request in requests:
        driver.submit(request)
    while driver.due_in(0.0, 0.0) is not None:
        deliver(driver.turn())


def _run_apart(bot: StreamBot, requests: list[Request], deliver: DeliverEvents) -> None:
    async def run() -> None:
        pump = StreamPump(bot, deliver)
        await asyncio.gather(*(pump.submit(request) for request in requests))

    # A thread of its own, because the caller may be inside an event loop (a notebook is).
    failures: list[BaseException] = []

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=main, name=f"reply {bot.name}", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
