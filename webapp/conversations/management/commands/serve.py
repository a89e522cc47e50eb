"""`serve`: the web server, with an embedded bot host.

With `--worker` it also starts two Celery workers, one of them for analyses. With `--demo` it also starts a bot host if
none is embedded, so that visitors of the demo get replies. `make run` is `serve --demo --worker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
import signal
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from chatbots.yaml_registry import EntriesError
from webapp.bots.selectors import bot_available_ids, bots_broken_warn, bots_file_discover
from webapp.core.database import database_complaint, database_write_check
from webapp.core.errors import Refused
from webapp.core.processes import (
    CONNECTIONS_GRACE_S,
    ChildProcesses,
    address_forget,
    address_of,
    address_write,
    end_process_within,
)
from webapp.core.restore_marker import refuse_unfinished_restore
from webapp.studies.lifecycle import demo_paper_study_ensure, demo_study_ensure
from webapp.studies.models import Study

_BOT_HOST = ("django", "bot_host")
_WORKER = (
    *("celery", "--quiet", "--app", "webapp.celery", "worker", "--concurrency", "1", "--loglevel", "WARNING"),
    *("--without-gossip", "--without-mingle", "--queues"),
)
_ANALYSES_AFTER_S = 5.0
"""Seconds in which the first page gets the cores; until then the other worker takes analyses."""
# One process: a thread does the work, and no child is forked.
_ANALYSES = (*_WORKER, "analysis", "--hostname", "analysis@%h", "--pool", "threads")


class Command(BaseCommand):
    help = "Serve pages and WebSockets; in embedded mode, also run the bots."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=settings.HOST)
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument(
            "--demo",
            action="store_true",
            help="migrate, create the demo studies, and start a bot host if this process does not run one",
        )
        parser.add_argument("--worker", action="store_true", help="also run Celery workers")

    def handle(self, *args: Any, host: str, port: int, demo: bool, worker: bool, **options: Any) -> None:
        try:
            refuse_unfinished_restore()
            bots_file_discover()
        except (EntriesError, Refused) as error:
            raise CommandError(str(error)) from error
        bots_broken_warn()
        # Report everything that prevents serving before any address is printed.
        listening = _listen(host, port)
        paper = None
        if demo:
            _checked(lambda: call_command("migrate", verbosity=0))
        _checked(database_write_check)
        if demo:
            demo_study_ensure()
            paper = demo_paper_study_ensure()
            self._admin_ensure()
        # A signal that arrives before the event loop has its handlers must also reach the `finally`.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        children = ChildProcesses()
        address = address_of(host, port)
        try:
            address_write(address)
            self._say_where(address, demo, paper)
            if demo and not settings.CONFAB_BOT_HOST_IN_PROCESS:
                children.begin("bot host", *_BOT_HOST, without_it="participants get no replies")
            if worker:
                children.begin("worker", *_WORKER, "gpu,default", without_it="jobs such as metrics wait")
            asyncio.run(_serve(listening, children, with_analyses=worker))
        finally:
            address_forget(address)
            children.end()

    def _say_where(self, address: str, demo: bool, paper: Study | None) -> None:
        self.stdout.write(f"Confab            {address}/dashboard/")
        if demo:
            self.stdout.write(f"Participant link  {address}/s/demo/")
        if paper is not None:
            here = bot_available_ids(paper.bots)
            away = [bot_id for bot_id in paper.bots if bot_id not in here]
            if here:
                self.stdout.write(f"The paper's bots  {address}/s/{paper.key}/")
            if away:
                self.stdout.write(f"Not available in the study {paper.key}: {', '.join(away)}")
        if not (demo or settings.CONFAB_BOT_HOST_IN_PROCESS):
            self.stdout.write(f"This process generates no replies: run `{settings.CONFAB_PROGRAM} bot_host` as well.")
        self.stdout.write("Press Ctrl-C to stop everything.")
        self.stdout.flush()

    def _admin_ensure(self) -> None:
        """Create the first staff account and print its random password once."""
        from django.contrib.auth import get_user_model

        users = get_user_model().objects
        if not users.filter(is_superuser=True).exists():
            password = secrets.token_urlsafe(9)
            users.create_superuser("admin", password=password)
            self.stdout.write(f"Login (shown once) admin / {password}")


class _Server(uvicorn.Server):
    """Server that leaves signals to `_serve`.

    uvicorn itself raises SIGTERM again after stopping. That would end the process before the bot host has returned its
    leases and the worker has stopped.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(listening: socket.socket, children: ChildProcesses, *, with_analyses: bool) -> None:
    """Run the web server and any embedded bot host in one event loop.

    Until either ends or a signal arrives.
    """
    config = uvicorn.Config(
        "webapp.asgi:application",
        lifespan="on",
        access_log=False,
        log_config=None,
        ws_ping_interval=20,
        # Longer than clients keep idle connections; otherwise one may be closed while its next request is in transit.
        timeout_keep_alive=130,
        timeout_graceful_shutdown=CONNECTIONS_GRACE_S,
        proxy_headers=False,  # only `core/authentication.py` trusts declared proxies
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        if not server.should_exit:
            # Child processes get one signal at the end: after a second one Celery would abort its task.
            end_process_within(first=children.kill)
        loop.call_soon_threadsafe(server.handle_exit, number, frame)

    # Closing the terminal must also stop everything; `nohup` ignores the signal.
    hangs_up = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])):
        # Not the loop's own handlers, which a blocked loop would never call.
        signal.signal(number, stop)
    web = asyncio.ensure_future(server.serve(sockets=[listening]))
    watching = asyncio.ensure_future(children.watch())
    if with_analyses:
        loop.call_later(_ANALYSES_AFTER_S, children.begin, "worker of analyses", *_ANALYSES)
    tasks = [web]
    if settings.CONFAB_BOT_HOST_IN_PROCESS:
        from webapp.conversations.bot_host import runtime_get

        tasks.append(asyncio.ensure_future(runtime_get().run()))
    done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    watching.cancel()
    for task in tasks:
        if task is not web:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]


def _listen(host: str, port: int) -> socket.socket:
    """Return the socket on which the server listens.

    Raises:
        CommandError: the address is not available.
    """
    if not 1 <= port <= 65535:
        raise CommandError(f"{port} is not a port; use 1 to 65535")
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"port {port} of {host} is in use by another program; stop it, or choose another port with "
                f"PORT={port + 1} or --port {port + 1}"
            ) from None
        raise CommandError(f"cannot listen on {host}, port {port}: {error}") from None
    return listening


def _checked(step: Callable[[], object]) -> None:
    """Run a step that needs the database.

    Raises:
        CommandError: if the database cannot be used.
    """
    try:
        step()
    except DatabaseError as error:
        raise CommandError(database_complaint(error)) from error
