"""`bot_host [--pool NAME]`: load bots and generate due replies."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatbots.text import quote
from chatbots.yaml_registry import EntriesError
from webapp.bots.selectors import bot_pools, bots_broken_warn, bots_file_discover
from webapp.conversations.bot_host import runtime_get
from webapp.core.processes import end_process_within


class Command(BaseCommand):
    help = "Run a bot host: one per GPU, in addition to any number of web processes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--pool", default=None, help="serve only the bots of this pool")

    def handle(self, *args: Any, pool: str | None = None, **options: Any) -> None:
        try:
            bots_file_discover()
        except EntriesError as error:
            raise CommandError(str(error)) from error
        bots_broken_warn()
        if pool is not None and pool not in bot_pools():
            raise CommandError(f"there is no pool {quote(pool)}; there are: {', '.join(bot_pools())}")
        self.stderr.write(f"Bot host for {'all pools' if pool is None else pool} is running.")
        asyncio.run(self._run(pool))

    @staticmethod
    async def _run(pool: str | None) -> None:
        task = asyncio.ensure_future(runtime_get(pool=pool).run())
        loop = asyncio.get_running_loop()

        def stop(_number: int, _frame: FrameType | None) -> None:
            end_process_within()
            loop.call_soon_threadsafe(task.cancel)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        with contextlib.suppress(asyncio.CancelledError):
            await task
