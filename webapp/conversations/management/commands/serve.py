"""`manage.py serve`: the web server, the bot host in the same process where it is embedded, and,
with `--worker`, a Celery worker beside it. `make run` is `serve --demo --worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from chatbots.configured import BotsFileError
from webapp.bots.selectors import bot_available_ids, bots_discover
from webapp.studies.models import Study
from webapp.studies.services import demo_paper_study_ensure, demo_study_ensure


class Command(BaseCommand):
    help = "Serve pages and sockets; embedded, also the bots."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST)
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument("--demo", action="store_true", help="migrate and make the demo study")
        parser.add_argument("--worker", action="store_true", help="run a Celery worker too")

    def handle(
        self, *args: Any, host: str, port: int, demo: bool, worker: bool, **options: Any
    ) -> None:
        try:
            bots_discover()
        except BotsFileError as error:
            raise CommandError(str(error)) from error
        paper = None
        if demo:
            call_command("migrate", verbosity=0)
            demo_study_ensure()
            paper = demo_paper_study_ensure()
            self._admin_ensure()
        # Between here and the event loop's own handlers too, a signal must reach the `finally`.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        children = [self._worker()] if worker else []
        try:
            self._say_where(host, port, demo, paper)
            asyncio.run(_serve(host, port))
        finally:
            for child in children:
                child.send_signal(signal.SIGTERM)
            for child in children:
                try:
                    child.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    child.kill()

    def _say_where(self, host: str, port: int, demo: bool, paper: Study | None) -> None:
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
        self.stdout.write(f"Confab            http://{shown}:{port}/dashboard/")
        if demo:
            self.stdout.write(f"Participant link  http://{shown}:{port}/s/demo/")
        if paper is not None:
            here = bot_available_ids(paper.bots)
            away = [bot_id for bot_id in paper.bots if bot_id not in here]
            if here:
                self.stdout.write(f"The paper's bots  http://{shown}:{port}/s/{paper.key}/")
            if away:
                self.stdout.write(f"Not available in the study {paper.key}: {', '.join(away)}")
        self.stdout.write("Ctrl-C stops everything.")
        self.stdout.flush()

    def _admin_ensure(self) -> None:
        """The first staff login, printed once; never a known password."""
        from django.contrib.auth import get_user_model

        users = get_user_model().objects
        if not users.filter(is_superuser=True).exists():
            password = secrets.token_urlsafe(9)
            users.create_superuser("admin", password=password)
            self.stdout.write(f"Login (shown once) admin / {password}")

    @staticmethod
    def _worker() -> subprocess.Popen[bytes]:
        """One child process, all queues; a session of its own, so that Ctrl-C is ours to pass on."""
        command = [
            *(sys.executable, "-m", "celery", "--app", "webapp.celery", "worker"),
            *("--queues", "gpu,default", "--concurrency", "1", "--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle"),
        ]
        return subprocess.Popen(command, start_new_session=True)


class _Server(uvicorn.Server):
    """Leaves signals to `_serve`: uvicorn's own way raises SIGTERM again when it has stopped, which
    would end the process before the bot host has given its leases back and the worker has stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(host: str, port: int) -> None:
    """Web server and, embedded, bot host in one event loop, until either ends or a signal comes."""
    config = uvicorn.Config(
        "webapp.asgi:application",
        host=host,
        port=port,
        lifespan="off",  # Django has none; what must start is started here
        access_log=False,
        log_config=None,
        ws_ping_interval=20,
        timeout_graceful_shutdown=5,
        proxy_headers=True,
    )
    server = _Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
    web = asyncio.ensure_future(server.serve())
    tasks = [web]
    if settings.CONFAB_BOT_HOST_IN_PROCESS:
        from webapp.conversations.bot_host import runtime_get

        tasks.append(asyncio.ensure_future(runtime_get().run()))
    done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    for task in tasks:
        if task is not web:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]
